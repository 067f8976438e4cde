#!/bin/bash
# Answers of the weights that convert_llama.sh made, as their ranks have them.
python -m torch.distributed.launch --nproc_per_node ${GPUS_PER_NODE:-1} inference_llama.py \
    --tensor-model-parallel-size ${TP:-1} \
    --load ${CHECKPOINT:-ckpt/llama-tp2-pp1} \
    --tokenizer-type PretrainedFromHF --tokenizer-name-or-path ${TOKENIZER:-tokenizer} \
    --max-new-tokens 8 \
    --bf16
