"""Writes tests/golden/yaml_texts.json: texts, whether PyYAML reads each as itself where it stands without quotes, and each in double quotes.

Usage: python tools/golden/yaml_texts.py > tests/golden/yaml_texts.json
Rows are [text, plain, quoted]; without quotes it must be itself as a value of a map, in brackets and in braces. Every quoted form was read back by PyYAML.
"""
import json
import random

import yaml

WORDS = ["2024-01-01", "2024-1-1", "2001-12-14t21:59:43.10-05:00", "2024-01-01 10:00:00", "2024-01-01T10:00:00Z", "2024-13", "2024-01", "2024-01-01x", "202-01-01", "20240101", "1_000", "0o7", "07", "0x1F", "0b1", "1e3",
         "1e+3", "1.0e+3", "1.e+3", ".5", "5.", "+.5", "-.5", "-.inf", ".inf", ".nan", "+12", "-12", "~", "null", "Null", "on", "On", "off", "yes", "NO", "y", "n", "true", "False", "=", "==", "=a", "<<", "<", ">", "|", "12:30", "12:30:45", "1:2",
         "01:30", "a:b", "a: b", "a:", ":a", ": a", "- a", "-", "--", "---", "-a", "--a", "...", "....", "..", ".", "./a", "/a/b", "a/b.c", "? a", "?", "?a", "# x", "#x", "a #x", "a#x", "%x", "@x", "`x", "!x", "!", "&a", "*a", "[a]", "{a}",
         "a]", "a}", "a,b", ",", "'a'", "\"a\"", "a'b", "a\"b", "\\", "a\\nb", " a", "a ", "  ", " ", "", "a b", "a  b", "a\nb", "\na", "a\n", "a\tb", "\t", "a\rb", "a\x00b", "a\x07b", "a\x1b[2Jb", "a\x7fb", "a\x85b", "a\xa0b", "\u2028",
         "a\u2028b", "a\u2029b", "\ufeffa", "a\ufeffb", "a\ufffeb", "a\uffffb", "caf\u00e9", "\u6570\u636e", "\U0001F600", "a\u200bb", "a\u202eb", "a\u3000b", "1-sqrt", "bf16", "f32", "4.5.6", "1.2.3.4", "1,000", "+", "a+b", "a=b", "key=value",
         "C:\\x", "http://a/b?c=d&e#f", "$HOME/x", "~/x", "a~", "^a$", "0", "00", "1__0", "_1", "_", "1_", "0_", "inf", "nan", "infinity", "0x", "0xg", "1e", "e1", "9" * 40, "0." + "1" * 40, "NULL", "None", "TRUE", "tRUE"]


def reads_as_itself(text):
    try:
        return yaml.safe_load("k: " + text + "\n") == {"k": text} and yaml.safe_load("[" + text + "]") == [text] and yaml.safe_load("{k: " + text + ", l: " + text + "}") == {"k": text, "l": text}
    except (yaml.YAMLError, ValueError):
        return False


def quoted(text):
    """Escapes for what ends the quotes, for control characters and for what a reader refuses, folds or does not show."""
    out = ""
    for c in text:
        n = ord(c)
        short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}.get(c)
        hidden = n < 0x20 or 0x7F <= n <= 0xA0 or n in (0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
        out += short or (f"\\x{n:02X}" if hidden and n < 256 else f"\\u{n:04X}" if hidden else c)
    out = '"' + out + '"'
    assert yaml.safe_load("k: " + out) == {"k": text}, text
    return out


def main():
    draw = random.Random(1)
    texts = list(WORDS)
    texts += ["".join(draw.choices("0123456789-:.eE_+tTzZ aox=<~/", k=draw.randint(1, 10))) for _ in range(400)]
    texts += ["".join(draw.choices("ab01 \t\n-:#[]{},&*!|>'\"%@`?=~\\.\u00e9\u2028\x85", k=draw.randint(1, 6))) for _ in range(200)]
    texts += [f"{draw.randint(1, 9999):04}-{draw.randint(1, 19):02}-{draw.randint(1, 39):02}" + draw.choice(["", "T01:02:03", " 1:02:03", "-x", "_x", ".jsonl"]) for _ in range(40)]
    rows = {t: [t, reads_as_itself(t), quoted(t)] for t in texts}
    print("[\n" + ",\n".join(json.dumps(row) for row in rows.values()) + "\n]")


main()
