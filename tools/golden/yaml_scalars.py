"""Writes tests/golden/yaml_scalars.json: plain scalars as PyYAML's safe loader resolves them.

Usage: python tools/golden/yaml_scalars.py > tests/golden/yaml_scalars.json
Each row is [text, kind, value]; kind is the YAML tag, "error" where PyYAML fails. Infinities and NaN are written as text.
"""
import itertools
import json
import math
import random

import yaml

WORDS = """y Y n N yes Yes YES yEs no No NO true True TRUE tRUE false False FALSE on On ON oN off Off OFF null Null NULL nULL ~ ~~
none None 0 00 000 07 08 09 010 0o10 0_7 0_8 1 -1 +1 12 1_000 1__0 _1 1_ -0 +0 --1 0x0 0xff 0XFF 0x1_F 0x 0xg 0x_ -0x1F +0xA 0b0
0b101 0b1_0 0b 0b2 -0b11 +0b1 0b_ 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809
99999999999999999999999 0x7fffffffffffffff 0x8000000000000000 0777777777777777777777 1.0 1. .5 -.5 +.5 . .. ._ .5_5 1_0.0_1 -1.5 +1.5
08.5 0.1 0.30000000000000004 1e5 1E5 1e-5 1e+5 1.5e5 1.5e-5 1.5E+5 1.e5 1.e+5 .5e-3 .5e3 1.5e 1e 1e+ e5 1.5e+05 1_0.5e-3 1e400 1.0e+400
1.0e-400 4.9e-324 2.2250738585072014e-308 1.7976931348623157e+308 .inf .Inf .INF .iNF +.inf -.inf -.Inf inf nan .nan .NaN .NAN
-.nan +.nan 1:30 01:30 1:60 1:5 1:05 1:30:30 -1:30 +1:30 190:20:30 1:30.5 01:30.5 190:20:30.15 1:2_0 1:2_ 0:0 0:0.0 :30 1: 1:30:
1:30.5_5 12:30.5e+3 2001-12-14 2001-12-14t21:59:43.10-05:00 2001-13 = << 1-sqrt f32 bf16 a.b 3.4.5 1.2.3.4 +  1,000 1e1_0 1_e5 0.0 -0.0
0x1p3 1f 0_ 0__ +08 -09 00.5 1:-3 1.:3""".split()


def main():
    draw = random.Random(1)
    texts = list(WORDS)
    for n in (1, 2):
        texts += ["".join(t) for t in itertools.product("01789._:eE+-xbfi~", repeat=n)]
    texts += ["".join(draw.choices("0123456789_.:eE+-xbafn", k=draw.randint(3, 9))) for _ in range(3000)]
    rows = {}
    for text in texts:
        try:
            node = yaml.compose("[" + text + "]", Loader=yaml.SafeLoader)
        except yaml.YAMLError:
            continue
        if len(node.value) != 1 or not isinstance(node.value[0], yaml.ScalarNode) or node.value[0].value != text:
            continue
        kind = node.value[0].tag.rsplit(":", 1)[1]
        value = None
        if kind in ("bool", "int", "float"):
            try:
                value = yaml.safe_load("[" + text + "]")[0]
            except ValueError:
                kind = "error"
            if isinstance(value, float) and not math.isfinite(value):
                value = str(value)
            if isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
        rows[text] = [text, kind, value]
    plain = [row for row in rows.values() if row[1] == "str"]
    other = [row for row in rows.values() if row[1] != "str"]
    keep = set(WORDS)
    plain = [row for i, row in enumerate(plain) if row[0] in keep or i % 6 == 0]
    print("[\n" + ",\n".join(json.dumps(row) for row in other + plain) + "\n]")


main()
