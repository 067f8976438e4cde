#!/bin/bash
# The data step of pretrain_llama.sh: texts of data/books.jsonl become data/books_text_document.bin and .idx.
TOKENIZER=${TOKENIZER:-tokenizer}

python tools/preprocess_data.py \
    --input data/books.jsonl \
    --json-keys text \
    --tokenizer-type PretrainedFromHF \
    --tokenizer-name-or-path $TOKENIZER \
    --output-prefix data/books \
    --append-eod \
    --workers 2
