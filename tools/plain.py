"""Counts what makes the sentences of the code hard to read, room by room, and refuses more than the kept count.

  tools/plain.py             today's table, beside the kept one
  tools/plain.py --check     exit status 1 where a room has more than it may (scripts/lint runs this)
  tools/plain.py --keep      writes today's counts, where they are smaller, to tools/plain.json
  tools/plain.py --show ROOM the places of one room, one line each
  tools/plain.py FILE...     the places of these files
  tools/plain.py --draw SEED     sixty declarations of headers, twenty help texts and twenty messages, drawn at random, for a reader who has no code
  tools/plain.py --wrap FILE...  breaks comment lines of more than 120 columns; the rest of a broken line begins the next one

docs/howto/write-plainly.md has the rules. Counted are, in C++ files:
  opening   a comment that begins with What, Of, Where, Whether, Who, Whose or Which
  long      a sentence of more than 30 words
  wide      a comment line of more than 120 columns
  pronoun   a pronoun whose noun is not in the sentence: those of `PRONOUNS`
  help      the text of an option or flag of more than 100 characters
"""
import json
import random
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tools" / "plain.json"
KINDS = ("opening", "long", "wide", "pronoun", "help")
OPENINGS = re.compile(r"(What|Of|Where|Whether|Who|Whose|Which)\b")
VERBS = r"(is|are|was|were|has|have|had|does|do|did|can|may|must|will|would|takes?|makes?|gives?|needs?|stands?|comes?|goes|holds?|says?|reads?|writes?|runs?)"
PRONOUNS = [
    re.compile(rf"^(It|They|That|Those|Such|This|These) {VERBS}\b"),  # a sentence that needs the one before it
    re.compile(r"\b(that|those) of\b"),
    re.compile(r"\bnone but\b"),
    re.compile(r"\bthe ones?\b(?! (more|less|hand|side))"),
    re.compile(r"\b(of|for|to|from|by|with|in|than|as) (those|such|that|what)(?=$|[.,;:])"),
    re.compile(r"\bwhat of\b"),
]
COMMENT = re.compile(r"^(?P<before>.*?)//(?P<slashes>/*)(?P<text>.*)$")
DIRECTIVE = re.compile(r"\s*(NOLINT|clang-format|namespace\b|https?:)")


def comment_of(line):
    """(column, text) of the comment in a line of C++; None without one. A // within a string is none."""
    inside, i = False, 0
    while i < len(line) - 1:
        c = line[i]
        if c == "\\" and inside:
            i += 2
            continue
        if c == '"' and not (i and line[i - 1] == "'"):
            inside = not inside
        if not inside and line[i : i + 2] == "//":
            text = line[i:].lstrip("/").rstrip()
            return i, ("\n" if not text or text.startswith("  ") else "") + text.strip()  # a line of a table stands alone
        i += 1
    return None


def comments(path):
    """Yields (number of its first line, text of the comment, [(line, width)]): lines of one column that follow each other are one comment."""
    number, start, column, words, wide = 0, 0, None, [], []
    raw = False
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if raw:
            raw = ')"' not in line and ")END" not in line
            continue
        found = comment_of(line)
        if re.search(r'R"\w*\(', line) and not re.search(r'R"(\w*)\(.*\)\1"', line):
            raw = True
        alone = found and not line[: found[0]].strip()
        if found and words and alone and found[0] == column:
            words.append(found[1])
        else:
            if words:
                yield start, " ".join(words), wide
            words, wide = [], []
            if found and not DIRECTIVE.match(found[1]):
                start, column, words = number, found[0], [found[1]]
        if found and words and len(line) > 120:
            wide.append((number, len(line)))
    if words:
        yield start, " ".join(words), wide


def sentences(text):
    """The sentences of a text: they end with . ! ? or ; before a blank and at its end."""
    return [s for s in re.split(r"(?<=[.!?;])\s+|\n", text.strip()) if s.strip()]


def places(path):
    """Yields (kind, line, words) for each place of a C++ file."""
    for line, text, wide in comments(path):
        for at, width in wide:
            yield "wide", at, f"{width} columns"
        if OPENINGS.match(text):
            yield "opening", line, text[:100]
        for s in sentences(text):
            if len([w for w in s.split() if re.search(r"\w", w)]) > 30:
                yield "long", line, s[:100]
            for p in PRONOUNS:
                if p.search(s):
                    yield "pronoun", line, s[:100]
                    break
    yield from help_places(path)


HELP = re.compile(r'\bv\(\s*"([^"]+)",\s*[^,()"]+,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')


def help_places(path):
    """Yields (kind, line, words) for each option or flag that a file declares with a text that is too long."""
    source = path.read_text(errors="replace")
    for found in HELP.finditer(source):
        text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found[2])).replace('\\"', '"')
        if len(text) > 100:
            yield "help", source.count("\n", 0, found.start()) + 1, f"{found[1]}: {len(text)} characters"


def room_of(path):
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


def files():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "src", "tests", "bench", "tools"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / f for f in listed.stdout.splitlines() if f.endswith((".h", ".cpp", ".cu", ".def")) and "/golden/" not in f and (ROOT / f).exists()]


def counts():
    """{room: {kind: count}} of today; `comments` counts all of them."""
    out = {}
    for path in files():
        row = out.setdefault(room_of(path), dict.fromkeys((*KINDS, "comments"), 0))
        row["comments"] += sum(1 for _ in comments(path))
        for kind, _, _ in places(path):
            row[kind] += 1
    return out


def declarations(path):
    """Yields (line, comment and declaration) for each commented declaration of a header."""
    lines = path.read_text(errors="replace").splitlines()
    for i, line in enumerate(lines):
        if not re.match(r"\s*//", line) or (i and re.match(r"\s*//", lines[i - 1])) or i == 0:
            continue
        end = i
        while end < len(lines) and re.match(r"\s*//", lines[end]):
            end += 1
        last = end
        while last < len(lines) - 1 and last < end + 6 and not re.search(r"[;{]\s*(//.*)?$", lines[last]):
            last += 1
        if end < len(lines) and lines[end].strip() and not lines[end].startswith("#"):
            yield i + 1, "\n".join(lines[i : last + 1])


MESSAGE = re.compile(r'UserError\((?:[^;"]|"(?:[^"\\]|\\.)*")*;')


def messages(path):
    """Yields (line, text) for each UserError of a file: its string literals, in order."""
    source = path.read_text(errors="replace")
    for found in MESSAGE.finditer(source):
        parts = re.findall(r'"((?:[^"\\]|\\.)+)"', found[0])
        if len(parts) >= 3:
            yield source.count("\n", 0, found.start()) + 1, " | ".join(parts)


def draw(seed):
    """Prints the hundred texts of a seed, each with its place in the last line of its block."""
    source = [f for f in files() if f.is_relative_to(ROOT / "src")]
    kinds = [
        (60, "declaration", [(f, *d) for f in source if f.suffix == ".h" for d in declarations(f)]),
        (20, "help", [(f, f.read_text().count("\n", 0, m.start()) + 1, m[1] + ": " + "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', m[2]))) for f in source for m in HELP.finditer(f.read_text())]),
        (20, "message", [(f, *m) for f in source if f.suffix == ".cpp" for m in messages(f)]),
    ]
    rng, number = random.Random(seed), 0
    for count, kind, there in kinds:
        for path, line, text in rng.sample(sorted(there, key=lambda x: (str(x[0]), x[1])), count):
            number += 1
            print(f"[{number}] {kind}\n{text}\n@ {path.relative_to(ROOT)}:{line}\n")


def wrap(path):
    """Breaks the comment lines of a file that are too wide. A comment behind code stays as it is."""
    lines, out, rest = path.read_text().split("\n"), [], ""
    for i, line in enumerate(lines):
        before, text = re.fullmatch(r"(\s*// ?)?(.*)", line).groups()
        if rest:
            goes_on = before == prefix and text and not re.match(r"(\s|[-*] |\d+\. |NOLINT|clang-format)", text)
            if goes_on:
                text = rest + " " + text
            else:
                out.append(prefix + rest)
            rest = ""
        if before and before.endswith("// ") and len(before + text) > 120 and " " in text[: 120 - len(before)]:
            prefix, cut = before, text.rfind(" ", 0, 121 - len(before))
            text, rest = text[:cut], text[cut + 1 :]
            while len(prefix + rest) > 120:
                out.append(prefix + text)
                cut = rest.rfind(" ", 0, 121 - len(prefix))
                text, rest = rest[:cut], rest[cut + 1 :]
        out.append((before or "") + text)
    path.write_text("\n".join(out))


def table(now, kept):
    print(f"{'room':10} {'comments':>9} " + " ".join(f"{k:>15}" for k in KINDS))
    total = dict.fromkeys((*KINDS, "comments"), 0)
    for room in sorted(now):
        for k in total:
            total[k] += now[room][k]
        print(f"{room:10} {now[room]['comments']:9} " + " ".join(f"{now[room][k]:7} of {kept.get(room, {}).get(k, 0):4}" for k in KINDS))
    print(f"{'all':10} {total['comments']:9} " + " ".join(f"{total[k]:7} of {sum(r.get(k, 0) for r in kept.values()):4}" for k in KINDS))


def main(args):
    if args[:1] == ["--wrap"]:
        for name in args[1:]:
            wrap(Path(name))
        return 0
    if args and not args[0].startswith("--"):
        for name in args:
            for kind, line, words in sorted(places(Path(name).resolve()), key=lambda p: p[1]):
                print(f"{name}:{line}: {kind}: {words}")
        return 0
    if args[:1] == ["--draw"] and len(args) == 2:
        draw(args[1])
        return 0
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if args[:1] == ["--show"] and len(args) == 2:
        for path in [f for f in files() if room_of(f) == args[1]]:
            for kind, line, words in sorted(places(path), key=lambda p: p[1]):
                print(f"{path.relative_to(ROOT)}:{line}: {kind}: {words}")
        return 0
    now = counts()
    if args == ["--keep"]:
        less = {room: {k: min(row[k], kept.get(room, {}).get(k, row[k])) for k in KINDS} for room, row in sorted(now.items())}
        KEPT.write_text("{\n" + ",\n".join(f"  {json.dumps(room)}: {json.dumps(row)}" for room, row in less.items()) + "\n}\n")
        return 0
    if args == ["--check"]:
        more = [f"plain: {room} has {row[k]} of kind {k}, and may have {kept.get(room, {}).get(k, 0)}; tools/plain.py --show {room}" for room, row in sorted(now.items()) for k in KINDS if row[k] > kept.get(room, {}).get(k, 0)]
        print("\n".join(more), file=sys.stderr, end="\n" if more else "")
        return 1 if more else 0
    if args:
        print(__doc__, file=sys.stderr)
        return 2
    table(now, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
