"""The Chinese pages say what the English ones say: docs/zh against docs/howto, README.zh-CN.md against README.md.

Prose cannot be compared, its frame can: headings, blocks, code, tables, words in backticks, numbers and links are the same, section by section.
"""
import re
from collections import Counter
from pathlib import Path

import ravine_run as r

ROOT = Path(__file__).resolve().parents[2]
HOWTO, ZH = ROOT / "docs" / "howto", ROOT / "docs" / "zh"
WITHOUT_COMMENTS = ("cpp", "diff", "json")  # languages in which # begins no comment
CHINESE = re.compile(r"[\u4e00-\u9fff]")
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Section:
    def __init__(self, level, title):
        self.level, self.title = level, title
        self.blocks = []  # (kind, detail): item and its marker, table and its shape, code and its text, paragraph
        self.prose = []   # text of each block that is not code, code spans included


def without_comment(line):
    return re.sub(r"(^|\s)#.*$", "", line).rstrip()


def row_cells(line):
    return len(re.findall(r"(?<!\\)\|", SPAN.sub("x", line.strip()))) - 1


def parsed(text):
    """The sections of a page in order; what stands before the first heading is a section of level 0."""
    sections = [Section(0, "")]
    lines = text.split("\n")
    i, blank = 0, True
    open_block = False  # the last block is a paragraph or an item that the next line goes on with
    while i < len(lines):
        line, here = lines[i], sections[-1]
        fence = re.fullmatch(r"( *)(`{3,})(\w*) *", line)
        if fence:
            end = next((j for j in range(i + 1, len(lines)) if lines[j].strip() == fence[2]), None)
            r.check(end is not None, f"line {i + 1}: a code block without an end")
            code = lines[i + 1:end]
            if fence[3] not in WITHOUT_COMMENTS:
                code = [without_comment(x) for x in code]
            here.blocks.append(("code", fence[3] + "\n" + "\n".join(code)))
            i, blank, open_block = end + 1, False, False
            continue
        if blank and line.startswith("    ") and line.strip():
            end = i
            while end < len(lines) and lines[end].startswith("    "):
                end += 1
            here.blocks.append(("code", "\n".join(without_comment(x) for x in lines[i:end])))
            i, blank, open_block = end, False, False
            continue
        heading = re.fullmatch(r"(#{1,6}) (.+)", line)
        item = re.match(r" *([-*]|\d+\.) ", line)
        if not line.strip():
            open_block = False
        elif heading:
            sections.append(Section(len(heading[1]), heading[2]))
            sections[-1].prose.append(heading[2])
            open_block = False
        elif line.startswith("|"):
            end = i
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            rows = [row_cells(x) for x in lines[i:end]]
            r.check(len(set(rows)) == 1, f"line {i + 1}: a table whose rows have {sorted(set(rows))} columns")
            here.blocks.append(("table", f"{len(rows)} x {rows[0]}"))
            here.prose += lines[i:end]
            i, blank, open_block = end, False, False
            continue
        elif item:
            here.blocks.append(("item", item[1]))
            here.prose.append(line)
            open_block = True
        elif open_block:
            here.prose[-1] += "\n" + line
        else:
            here.blocks.append(("paragraph", ""))
            here.prose.append(line)
            open_block = True
        blank = not line.strip()
        i += 1
    return sections


def spans(section):
    return Counter(" ".join(m[2].split()) for text in section.prose for m in SPAN.finditer(text))


def numbers(section):
    return Counter(n for text in section.prose for n in re.findall(r"\d+(?:\.\d+)*", LINK.sub("", SPAN.sub("", text))))


def links(section):
    return [m[1] for text in section.prose for m in LINK.finditer(SPAN.sub("", text))]


def anchors(sections):
    """The names GitHub gives the headings of a page."""
    seen, names = Counter(), []
    for s in sections[1:]:
        name = re.sub(r"[^\w\- ]", "", s.title.lower()).replace(" ", "-")
        names.append(name + (f"-{seen[name]}" if seen[name] else ""))
        seen[name] += 1
    return names


def english_of(path):
    """The English page or folder that a Chinese one belongs to; any other path is its own."""
    if path == ROOT / "README.zh-CN.md":
        return ROOT / "README.md"
    return HOWTO / path.relative_to(ZH) if path.is_relative_to(ZH) else path


def target(page, link):
    """(path, number of the heading or None) that a link of `page` leads to, None for one into the net; says what is wrong with it."""
    if re.match(r"[a-z]+:", link):
        return None
    name, _, anchor = link.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists():
        raise AssertionError(f"{page.relative_to(ROOT)}: the link {link} leads nowhere")
    if not anchor:
        return path, None
    names = anchors(parsed(path.read_text(encoding="utf-8")))
    if anchor not in names:
        raise AssertionError(f"{page.relative_to(ROOT)}: the link {link} names no heading of {path.relative_to(ROOT)}")
    return path, names.index(anchor)


def wrong_links(page, sections):
    """Links of one page that lead nowhere, or, on a Chinese page, to English where there is a Chinese page."""
    wrong = []
    for link in (x for s in sections for x in links(s)):
        try:
            found = target(page, link)
        except AssertionError as why:
            wrong.append(str(why))
            continue
        chinese = page != english_of(page)
        if found and chinese and found[0].suffix == ".md" and found[0].parent == HOWTO and (ZH / found[0].name).exists():
            wrong.append(f"{page.relative_to(ROOT)}: the link {link} leads to the English page")
    return wrong


def aims(page, section):
    found = []
    for link in links(section):
        try:
            there = target(page, link)
        except AssertionError:
            continue  # wrong_links names it
        found.append((str(english_of(there[0])), there[1]) if there else (link, None))
    return Counter(found)


def untranslated(section):
    """Prose of more than five words without a Chinese sign."""
    for text in section.prose:
        plain = LINK.sub("", SPAN.sub("", text))
        if not text.startswith("|") and not CHINESE.search(plain) and len(re.findall(r"[A-Za-z]{2,}", plain)) > 5:
            yield text


def differences(english, english_text, chinese, chinese_text):
    """One line for everything in which the frames of two pages differ, by the kind of what differs."""
    a, b = parsed(english_text), parsed(chinese_text)
    where = str(chinese.relative_to(ROOT))
    if [s.level for s in a] != [s.level for s in b]:
        return [f"{where}: headings: levels {[s.level for s in b][1:]} instead of {[s.level for s in a][1:]}"]
    out = []
    for x, y in zip(a, b):
        place = f"{where}, '{y.title}' ('{x.title}')"
        if [k for k, _ in x.blocks] != [k for k, _ in y.blocks]:
            out.append(f"{place}: blocks: {[k for k, _ in y.blocks]} instead of {[k for k, _ in x.blocks]}")
        else:
            out += [f"{place}: {k}: {q!r} instead of {p!r}" for (k, p), (_, q) in zip(x.blocks, y.blocks) if p != q]
        more, less = spans(y) - spans(x), spans(x) - spans(y)
        if more or less:
            out.append(f"{place}: words in backticks: too many {sorted(more.elements())}, missing {sorted(less.elements())}")
        more, less = numbers(y) - numbers(x), numbers(x) - numbers(y)
        if more or less:
            out.append(f"{place}: numbers: too many {sorted(more.elements())}, missing {sorted(less.elements())}")
        if aims(english, x) != aims(chinese, y):
            out.append(f"{place}: links: {links(y)} where the English page has {links(x)}")
        out += [f"{place}: not translated: {text!r}" for text in untranslated(y)]
    return out


def pairs():
    return [(p, ZH / p.name) for p in sorted(HOWTO.glob("*.md"))] + [(ROOT / "README.md", ROOT / "README.zh-CN.md")]


def read(path):
    return path.read_text(encoding="utf-8")


def test_every_page_in_both_languages(folder):
    english, chinese = ({p.name for p in d.iterdir()} for d in (HOWTO, ZH))
    r.check(english, "docs/howto has no page")
    r.check(not english - chinese, f"not in docs/zh: {sorted(english - chinese)}")
    r.check(not chinese - english, f"in docs/zh, but not in docs/howto: {sorted(chinese - english)}")


def test_same_frame(folder):
    out = [d for e, c in pairs() for d in differences(e, read(e), c, read(c))]
    r.check(not out, "\n".join(out))


def test_links_resolve(folder):
    out = [w for pair in pairs() for p in pair for w in wrong_links(p, parsed(read(p)))]
    r.check(not out, "\n".join(out))


def spoiled(text, old, new):
    r.check(old in text, f"the page to spoil has no {old!r}")
    return text.replace(old, new, 1)


def test_what_differs_is_named(folder):
    """One fault of each kind, put into the Chinese text in memory."""
    def one(page, old, new, kind):
        e, c = HOWTO / page, ZH / page
        out = differences(e, read(e), c, spoiled(read(c), old, new))
        r.check(len(out) == 1 and f": {kind}: " in out[0], f"{page}: {old!r} made {new!r} gives {out}")

    one("parallel.md", "\n## ", "\n### ", "headings")
    one("parallel.md", "\n## ", "\n另一段。\n\n## ", "blocks")
    one("parallel.md", "\n- ", "\n", "blocks")
    one("parallel.md", "\n- ", "\n* ", "item")
    one("parallel.md", "    mpirun -n 4 ravine train", "    mpirun -n 8 ravine train", "code")
    one("data.md", "printf 'id,body", "printf 'id, body", "code")
    one("data.md", "```yaml", "```", "code")
    one("convert.md", "\n| MindFormers", "\n| 另一种 | 是 | 否 | 读 |\n| MindFormers", "table")
    one("convert.md", "`--dry-run`", "`--dry`", "words in backticks")
    one("convert.md", "`--dry-run`", "--dry-run", "words in backticks")
    one("data.md", "(add-a-handler.md)", "(add-an-op.md)", "links")
    one("generate.md", "(parallel.md#在多个-rank-上运行模型)", "(parallel.md)", "links")
    one("parallel.md", "0.3 %", "0.4 %", "numbers")
    text = read(ZH / "add-an-op.md").split("\n\n")[1]
    one("add-an-op.md", text, "An op is one page, and `gelu` is the example.", "not translated")

    page = ZH / "generate.md"
    for link, kind in (("none.md", "leads nowhere"), ("parallel.md#none", "names no heading"), ("../howto/parallel.md", "leads to the English page")):
        out = wrong_links(page, parsed(spoiled(read(page), "parallel.md#在多个-rank-上运行模型", link)))
        r.check(len(out) == 1 and kind in out[0], f"{link}: {out}")
    try:
        parsed("| a | b |\n|---|---|\n| 1 |\n")
    except AssertionError as why:
        r.check("columns" in str(why), str(why))
    else:
        r.check(False, "a table with a short row is taken")
    comment = "```sh\nravine info x  # 注释\n```\n"
    r.check(parsed(comment)[0].blocks == [("code", "sh\nravine info x")], "a comment behind a command counts")


if __name__ == "__main__":
    r.main(globals())
