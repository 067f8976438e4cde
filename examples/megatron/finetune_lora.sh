#!/bin/bash
# Adapters for the converted weights, on the instructions of preprocess_alpaca.sh.
GPUS_PER_NODE=${GPUS_PER_NODE:-1}
DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes 1"

torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \
    --tensor-model-parallel-size ${TP:-1} \
    --num-layers 2 --hidden-size 64 --ffn-hidden-size 176 --num-attention-heads 4 \
    --seq-length 256 --max-position-embeddings 256 \
    --position-embedding-type rope --normalization RMSNorm --norm-epsilon 1e-5 --swiglu \
    --disable-bias-linear --untie-embeddings-and-output-weights \
    --attention-dropout 0.0 --hidden-dropout 0.0 \
    --make-vocab-size-divisible-by 8 \
    --tokenizer-type PretrainedFromHF --tokenizer-name-or-path ${TOKENIZER:-tokenizer} \
    --data-path data/alpaca --is-instruction-dataset --split 100,0,0 \
    --micro-batch-size 2 --global-batch-size 4 --train-iters 4 --lr 1e-3 --lr-decay-style constant --bf16 \
    --load ${CHECKPOINT:-llama-hf} --finetune \
    --save runs/lora --save-interval 2 --log-interval 1 --eval-iters 0 \
    --lora-target-modules query_key_value dense gate_proj dense_h_to_4h dense_4h_to_h \
    --lora-r 8 \
    --lora-alpha 16 \
    --lora-register-forward-hook word_embeddings input_layernorm
