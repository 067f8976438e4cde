#!/usr/bin/env python3
"""Makes tests/golden/files/records.parquet and .json: rows of every kind of column that training data has, written by pyarrow, and the
objects they mean."""
import datetime
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

rows = [
    {"text": "plain", "id": 1, "score": 0.5, "good": True, "tags": ["a", "b"], "messages": [{"role": "user", "content": "Hi"}], "meta": {"source": "x", "n": -3}, "big": 2**62, "day": None},
    {"text": "中文 \"quoted\" \\ and\nline\ttab\u0001", "id": None, "score": None, "good": False, "tags": [], "messages": [], "meta": None, "big": -1, "day": datetime.date(2024, 2, 29)},
    {"text": None, "id": -7, "score": 1e300, "good": None, "tags": None, "messages": [{"role": "a", "content": None}, {"role": None, "content": ""}], "meta": {"source": None, "n": 0}, "big": None, "day": None},
    {"text": "", "id": 0, "score": -0.25, "good": True, "tags": [None, "c"], "messages": None, "meta": {"source": "", "n": None}, "big": 0, "day": None},
]
schema = pa.schema([
    ("text", pa.large_string()), ("id", pa.int32()), ("score", pa.float64()), ("good", pa.bool_()), ("tags", pa.list_(pa.string())),
    ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))), ("meta", pa.struct([("source", pa.dictionary(pa.int8(), pa.string())), ("n", pa.int64())])),
    ("big", pa.int64()), ("day", pa.date32()),
])
folder = Path(__file__).resolve().parents[2] / "tests" / "golden" / "files"
rows = rows * 3
pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "records.parquet", row_group_size=5, compression="zstd", store_schema=False)
json.dump(rows, open(folder / "records.json", "w"), ensure_ascii=False, indent=1, default=str)
