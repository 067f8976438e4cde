"""docs/tour.md is true: its levels are those of cmake/rooms.cmake, its picture is that of today's includes, each room has a short section, and every
path and every quoted line is there."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES, LONGEST = 8, 140
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import rooms_svg  # noqa: E402

tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
levels = rooms_svg.levels_of(ROOT)


def table_of_levels(text):
    return {room: int(level) for level, rooms in re.findall(r"^\| (\d+) \| (`[a-z`, ]+) \|$", text, re.M) for room in re.findall(r"`(\w+)`", rooms)}


def wrong_lengths(text):
    return [f"line {i}: {len(line)} characters, at most {LONGEST}" for i, line in enumerate(text.split("\n"), 1) if len(line) > LONGEST]


def wrong_rooms(text, rooms):
    """Each room of src/ has one section, and it is short."""
    sections = re.findall(r"^### (\w+): .*\n((?:(?!^#).*\n)*)", text, re.M)
    names = [name for name, _ in sections]
    wrong = [f"'{room}' has {names.count(room)} sections, not one" for room in rooms if names.count(room) != 1]
    wrong += [f"'{name}' has a section, and is no room of src/" for name in names if name not in rooms]
    for name, body in sections:
        lines = [line for line in body.split("\n") if line.strip()]
        if not 1 <= len(lines) <= MOST_LINES:
            wrong.append(f"the section of '{name}' has {len(lines)} lines, 1 to {MOST_LINES} are allowed")
    return wrong


def code_of(line):
    """Without leading blanks and a comment behind the code: the tour has its own."""
    return re.sub(r"\s*//.*$", "", line).strip()


def wrong_quotes(text, source_of):
    """Every block of C++ names its file in the first line. Its lines are there in that order, one behind the other but where `...` leaves some out."""
    wrong = []
    for block in re.findall(r"^```cpp\n(.*?)^```$", text, re.M | re.S):
        head, *lines = block.rstrip("\n").split("\n")
        path = head.removeprefix("// ")
        source = source_of(path) if head.startswith("// ") else None
        if source is None:
            wrong.append(f"a block begins with '{head}', which is not '// ' and the path of a file")
            continue
        have = [code for code in map(code_of, source.split("\n")) if code]
        runs = [[]]
        for line in lines:
            if line.strip() == "...":
                runs.append([])
            elif code_of(line):
                runs[-1].append(code_of(line))
        if not all(runs):
            wrong.append(f"{path}: a run of quoted lines is empty")
        begin = 0
        for run in filter(None, runs):
            at = next((i for i in range(begin, len(have) - len(run) + 1) if have[i:i + len(run)] == run), None)
            if at is None:
                wrong.append(f"{path} does not have, behind the lines quoted before: {' / '.join(run)}")
                break
            begin = at + len(run)
    return wrong


def source_of(path):
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.is_file() else None


def paths_of(text):
    """What is named outside of blocks: links, and words in backticks that are paths."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    named = {f"docs/{link}" for link in re.findall(r"\]\(([^)#]+)[^)]*\)", prose) if "://" not in link}
    for span in re.findall(r"`([^`\n]+)`", prose):
        if span.startswith("build/"):
            continue
        program = re.fullmatch(r"unit_(\w+) --file (\w+)", span)
        if program:
            named.add(f"tests/unit/{program[1]}/{program[2]}.cpp")
        named.update(word for word in span.split() if re.fullmatch(r"[\w.-]+(/[\w.-]+)+/?", word) and not word.startswith("."))
    return named


def is_there(path):
    """From the root or from src/; a part in capitals stands for any name."""
    pattern = re.sub(r"(?<![A-Za-z])(NAME|ROOM|AREA)(?![A-Za-z])", "*", path).rstrip("/")
    return any(next(iter(base.glob(pattern)), None) for base in (ROOT, ROOT / "src"))


def check(wrong, what):
    assert not wrong, f"{what}:\n  " + "\n  ".join(wrong)


def main():
    rooms = [d.name for d in sorted((ROOT / "src").iterdir()) if d.is_dir()]
    assert len(rooms) > 15, "the rooms of src/ are looked at"
    stated = table_of_levels(tour)
    check([f"'{r}' has level {stated.get(r)} in the tour, {levels.get(r)} in cmake/rooms.cmake" for r in sorted({*stated, *levels}) if stated.get(r) != levels.get(r)],
          "docs/tour.md, the table of levels")
    check(wrong_lengths(tour), "docs/tour.md")
    check(wrong_rooms(tour, rooms), "docs/tour.md, the rooms")
    assert len(re.findall(r"^```cpp$", tour, re.M)) > 12, "blocks of code are found"
    check(wrong_quotes(tour, source_of), "docs/tour.md, quoted code")
    assert len(paths_of(tour)) > 150, "paths are found"
    check([f"no such path: {path}" for path in sorted(paths_of(tour)) if not is_there(path)], "docs/tour.md")
    picture = subprocess.run([sys.executable, "-B", str(ROOT / "tools" / "rooms_svg.py"), "--check"], capture_output=True, text=True)
    assert picture.returncode == 0, picture.stderr

    # Each check finds its fault.
    assert table_of_levels("| 3 | `a`, `b` |\n") == {"a": 3, "b": 3}
    assert wrong_lengths("x" * (LONGEST + 1)) and not wrong_lengths("x" * LONGEST)
    section = "### a: one\n\n" + "line\n" * MOST_LINES
    assert not wrong_rooms(section, ["a"]) and wrong_rooms(section + "line\n", ["a"]) and wrong_rooms(section, ["a", "b"]) and wrong_rooms(section, [])
    quote = "```cpp\n// f.cpp\n  a = b;   // [N,C]\n  ...\n  d;\n```\n"
    assert not wrong_quotes(quote, {"f.cpp": "a = b;  // x\nc;\nd;\n"}.get)
    for other in ("a = c;\nd;\n", "d;\na = b;\n", "a = b;\n"):
        assert wrong_quotes(quote, {"f.cpp": other}.get), other
    assert wrong_quotes(quote.replace("  ...\n", ""), {"f.cpp": "a = b;\nc;\nd;\n"}.get) and wrong_quotes(quote, {}.get)
    assert paths_of("`a/b.h` [x](y.md) `unit_c --file d` `--e`") == {"a/b.h", "docs/y.md", "tests/unit/c/d.cpp"}
    assert is_there("src/base") and is_there("tests/e2e/NAME.py") and not is_there("src/base/no_such_file.h")
    print("ok")


main()
