#!/usr/bin/env python3
"""Writes tests/golden/megatron_epochs.json: the index arrays of megatron-core's own GPTDataset around the boundaries of epochs.

Usage: make_epochs.py OUT.json        (needs torch, numpy, megatron-core; 0.16.1 was used)

One document set whose tokens are T, for every T, sequence length, extra token or not, and every number of samples up to three epochs: the
md5 of the document, sample and shuffle index. Where an epoch ends with a sample, where one token is missing, and where the last epoch has just
80 % of its samples are all among them.
"""
import hashlib
import json
import os
import sys
import tempfile
from collections import OrderedDict

import numpy as np
import torch
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
from megatron.core.datasets.utils import Split

SEED, LENGTHS = 7, {99: [30, 1, 25, 43], 100: [30, 1, 25, 44], 101: [30, 1, 25, 45]}


class Tokenizer:
    vocab_size, eod = 1000, 0
    unique_identifiers = OrderedDict([("class", "Tokenizer")])


def write(folder, lengths):
    prefix = os.path.join(folder, "d")
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=np.uint16)
    for n in lengths:
        builder.add_document(torch.arange(n), [n])
    builder.finalize(prefix + ".idx")
    return prefix


def main():
    cases = []
    for tokens, lengths in LENGTHS.items():
        assert sum(lengths) == tokens
        for length in (7, 10, 20, 25):
            for extra in (1, 0):
                rows = []
                with tempfile.TemporaryDirectory() as folder:
                    prefix = write(folder, lengths)
                    for samples in range(1, 3 * tokens // length + 2):
                        config = GPTDatasetConfig(random_seed=SEED, sequence_length=length, split="1,0,0", tokenizer=Tokenizer(), reset_position_ids=False, reset_attention_mask=False,
                                                  eod_mask_loss=False, add_extra_token_to_sequence=bool(extra), path_to_cache=os.path.join(folder, "cache"))
                        d = GPTDataset(IndexedDataset(prefix), prefix, np.arange(len(lengths), dtype=np.int32), samples, Split.train, config)
                        arrays = (np.asarray(d.document_index, np.int32), np.asarray(d.sample_index, np.int32), np.asarray(d.shuffle_index, np.uint32))
                        rows.append([hashlib.md5(np.ascontiguousarray(a).tobytes()).hexdigest()[:8] for a in arrays])
                cases.append({"lengths": lengths, "sequence_length": length, "extra": extra, "samples_from_1": rows})
    text = {"seed": SEED, "arrays": ["document_index", "sample_index", "shuffle_index"], "cases": cases}
    open(sys.argv[1], "w").write(json.dumps(text, separators=(",", ":")) + "\n")
    print(sum(len(c["samples_from_1"]) for c in cases), "index sets")


main()
