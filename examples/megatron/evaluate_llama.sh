#!/bin/bash
# BoolQ of the same weights.
python -m torch.distributed.launch --nproc_per_node ${GPUS_PER_NODE:-1} evaluation_llama.py \
    --task boolq --task-data-path ${DATA:-data/boolq} \
    --seq-length 256 --max-new-tokens 1 --evaluation-batch-size 1 --max-position-embeddings 256 \
    --tensor-model-parallel-size ${TP:-1} \
    --num-layers 2 --hidden-size 64 --ffn-hidden-size 176 --num-attention-heads 4 \
    --load ${CHECKPOINT:-ckpt/llama-tp2-pp1} \
    --tokenizer-type PretrainedFromHF --tokenizer-name-or-path ${TOKENIZER:-tokenizer} \
    --bf16 --micro-batch-size 1 --seed 42 | tee eval.log
