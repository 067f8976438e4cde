#!/usr/bin/env python3
"""Makes tests/golden/files/records.parquet and .json: rows of every kind of column that training data has, written by pyarrow, and the
objects they mean. And chat_*.parquet and .jsonl: conversations in the forms that sets are published in; tests/golden/dpo/*.parquet: the pairs of
answers that lie there as lines. Needs pyarrow."""
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


# Conversations: the same records as a table, where every field is in every row, and as lines, where null fields are left out.
def bare(x):
    if isinstance(x, dict):
        return {k: bare(v) for k, v in x.items() if v is not None}
    return [bare(v) for v in x] if isinstance(x, list) else x


def chats(name, rows, schema):
    table = pa.Table.from_pylist(rows, schema=pa.schema(schema))
    pq.write_table(table, folder / f"chat_{name}.parquet", row_group_size=7, compression="zstd", store_schema=False)
    with open(folder / f"chat_{name}.jsonl", "w", encoding="utf-8") as out:
        out.writelines(json.dumps(bare(r), ensure_ascii=False) + "\n" for r in table.to_pylist())


words = ["a ravine", "\u5c71\u8c37", "the river", "stones \"and\" sand", "line\nline", "x" * 40]
say = lambda i, n: " ".join(words[(i + k) % len(words)] for k in range(1 + i % n))
chats("alpaca", [{"instruction": f"What is {say(i, 3)}?", "input": [None, "", say(i, 2)][i % 3], "output": f"It is {say(i, 5)}.", "system": None if i % 4 else "Be brief.",
                  "history": [["Hello", "Hello, who is it?"]] if i % 5 == 0 else None} for i in range(20)],
      [("instruction", pa.string()), ("input", pa.string()), ("output", pa.string()), ("system", pa.large_string()), ("history", pa.list_(pa.list_(pa.string())))])
turns = lambda i, names: [(names[k % 2], say(i + k, 4)) for k in range(2 + 2 * (i % 3))]
chats("sharegpt", [{"id": i, "conversations": [{"from": a, "value": b} for a, b in turns(i, ("human", "gpt"))], "system": None} for i in range(20)],
      [("id", pa.int64()), ("conversations", pa.list_(pa.struct([("from", pa.dictionary(pa.int8(), pa.string())), ("value", pa.string())]))), ("system", pa.string())])
chats("messages", [{"messages": [{"role": a, "content": b, "name": None, "weight": [None, 0, 1][(i + k) % 3] if a == "assistant" and i % 3 == 2 and k < 3 else None}
                                 for k, (a, b) in enumerate(turns(i, ("user", "assistant")))]} for i in range(20)],
      [("messages", pa.large_list(pa.struct([("role", pa.string()), ("content", pa.string()), ("name", pa.string()), ("weight", pa.int32())])))])

# Calls of tools: the columns of the table are what the rows make of them, as datasets has it, so that each row has the members of all. The
# lines have what was written: null members of the table's filling are not in them; a default of null (in all rows) and a null of an enum are.
tool = lambda name, properties, required: {"type": "function", "function": {"name": name, "description": f"to {name}", "parameters": {"type": "object", "properties": properties, "required": required}}}
call = lambda name, arguments: {"id": "call00001", "type": "function", "function": {"name": name, "arguments": arguments}}
called = [
    {"tools": [tool("weather", {"city": {"type": "string", "description": "of the world"}, "unit": {"type": "string", "enum": ["c", "f", None], "default": None}}, ["city"])],
     "messages": [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": "", "tool_calls": [call("weather", {"city": "Paris"})]}, {"role": "tool", "content": "no", "tool_call_id": "call00001"}, {"role": "assistant", "content": "No."}]},
    {"tools": [tool("search", {"words": {"type": "array", "items": {"type": "string"}}, "most": {"type": "integer", "default": 3}}, [])],
     "messages": [{"role": "user", "content": "Find it"}, {"role": "assistant", "content": "", "tool_calls": [call("search", {"words": ["a", "b"], "most": 2}), call("search", {"words": []})]}]},
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]},
]
pq.write_table(pa.Table.from_pylist(called), folder / "chat_tools.parquet", compression="zstd")
with open(folder / "chat_tools.jsonl", "w", encoding="utf-8") as out:
    out.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in called)

# Pairs of answers: the records of tests/golden/dpo as tables, with a column that nobody asks for.
message = pa.list_(pa.struct([("content", pa.string()), ("role", pa.dictionary(pa.int8(), pa.string()))]))
pairs = folder.parent / "dpo"
for name, kind in (("texts", pa.large_string()), ("chats", message)):
    rows = [{**json.loads(line), "score": i / 2} for i, line in enumerate((pairs / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())]
    schema = pa.schema([("score", pa.float64()), ("rejected", kind), ("prompt", kind), ("chosen", kind)])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), pairs / f"{name}.parquet", row_group_size=4, compression="zstd", store_schema=False)
