#!/bin/bash
# A small Llama, begun anew, as launch scripts of Megatron-LM and ModelLink write it. Read and never executed: ravine megatron --script
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=${GPUS_PER_NODE:-1}
NNODES=1
TP=${TP:-1}
PP=1
MBS=2
GBS=$((MBS * 2))

TOKENIZER=${TOKENIZER:-tokenizer}
DATA_PATH=data/books_text_document
CHECKPOINTS=runs/small-llama

DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES"

GPT_ARGS="
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size $PP
    --num-layers 2
    --hidden-size 64
    --ffn-hidden-size 176
    --num-attention-heads 4
    --seq-length 64
    --max-position-embeddings 256
    --position-embedding-type rope
    --normalization RMSNorm
    --norm-epsilon 1e-5
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --make-vocab-size-divisible-by 8
    --tokenizer-type PretrainedFromHF
    --tokenizer-name-or-path $TOKENIZER
"

TRAIN_ARGS="
    --micro-batch-size $MBS
    --global-batch-size $GBS
    --train-iters 6
    --lr 1e-3
    --lr-decay-style cosine
    --lr-warmup-fraction 0.34
    --min-lr 1e-4
    --weight-decay 1e-1
    --adam-beta1 0.9
    --adam-beta2 0.95
    --clip-grad 1.0
    --bf16
    --use-flash-attn
    --use-distributed-optimizer
"

DATA_ARGS="--data-path $DATA_PATH --split 90,10,0"
OUTPUT_ARGS="--log-interval 1 --save-interval 3 --eval-interval 3 --eval-iters 1 --save $CHECKPOINTS"

torchrun $DISTRIBUTED_ARGS pretrain_gpt.py $GPT_ARGS $TRAIN_ARGS $DATA_ARGS $OUTPUT_ARGS | tee train.log
