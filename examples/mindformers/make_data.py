#!/usr/bin/env python3
"""data.mindrecord for the configs of this folder, without MindSpore: samples of 33 token ids below 256 that count up in steps, in the column input_ids."""
import json
import random
import struct
from pathlib import Path

HEADER, PAGE = 16384, 1 << 25  # bytes


def packed(ids):
    """Numbers in as few bytes as each needs, as MindSpore keeps them: how many there are, two bits for the width of each, the bytes."""
    widths = [next(k for k in range(4) if -(1 << (8 << k) - 1) <= v < 1 << (8 << k) - 1) for v in ids]
    bits = bytearray((len(ids) + 3) // 4)
    for i, k in enumerate(widths):
        bits[i // 4] |= k << 2 * (3 - i % 4)
    return struct.pack(">I", len(ids)) + bytes(bits) + b"".join(v.to_bytes(1 << k, "little", signed=True) for v, k in zip(ids, widths))


def save_mindrecord(file, rows, column="input_ids"):
    """A MindRecord of one column of int32."""
    body = b"".join(struct.pack("<Q", len(row)) + row for row in map(packed, rows))
    page = {"page_id": 0, "page_type": "BLOB_DATA", "page_size": len(body), "start_row_id": 0, "end_row_id": len(rows)}
    header = {"header_size": HEADER, "page_size": PAGE, "compression_size": 1, "page": [page], "shard_addresses": [Path(file).name], "version": "3.0",
              "schema": [{"blob_fields": [column], "schema": {column: {"type": "int32", "shape": [-1]}}}]}
    text = json.dumps(header).encode()
    Path(file).write_bytes((struct.pack("<Q", len(text)) + text).ljust(HEADER, b"\0") + body)


def main():
    draw, rows = random.Random(1), []
    for _ in range(16):
        first, step = draw.randrange(1, 64), draw.randrange(1, 6)
        rows.append([first + step * i for i in range(33)])
    save_mindrecord("data.mindrecord", rows)


if __name__ == "__main__":
    main()
