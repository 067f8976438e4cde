#!/bin/bash
# Weights of Hugging Face in the folders of two tensor ranks.
python tools/ckpt_convert/llama/convert_weights_from_huggingface.py \
    --input-model-dir ${MODEL:-llama-hf} \
    --output-model-dir ${OUTPUT:-ckpt/llama-tp2-pp1} \
    --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 1 \
    --type 7B
