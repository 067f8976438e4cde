#!/bin/bash
# Instructions with their answers become token files, the questions masked.
python tools/preprocess_data.py \
    --input data/alpaca.jsonl \
    --output-prefix data/alpaca \
    --tokenizer-type PretrainedFromHF \
    --tokenizer-name-or-path ${TOKENIZER:-tokenizer} \
    --tokenizer-not-use-fast \
    --handler-name GeneralInstructionHandler \
    --append-eod
