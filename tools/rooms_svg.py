"""The picture of the rooms, docs/rooms.svg: who includes whom.

    python3 tools/rooms_svg.py           writes it
    python3 tools/rooms_svg.py --check   exit status 1 where docs/rooms.svg is not the picture that would be written

Levels come from cmake/rooms.cmake, arrows from the lines `#include "room/..."` of src/, the purpose of a room from its heading in docs/tour.md,
"### room: purpose". Of the arrows only those are drawn that do not follow from others (the transitive reduction): whoever can reach a room along
arrows may include it, and all that are left out are such. A room without files is not drawn.
"""
import itertools
import os
import re
import sys
from html import escape

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SVG = os.path.join("docs", "rooms.svg")
BOX_WIDTH, BOX_HEIGHT, GAP, ROW_GAP, MARGIN, LABEL = 216, 54, 32, 44, 16, 58
LINE = 34  # letters of a line in a box


def read(root, *path):
    with open(os.path.join(root, *path), encoding="utf-8") as f:
        return f.read()


def levels_of(root):
    """Room to level, in the order of cmake/rooms.cmake."""
    text = read(root, "cmake", "rooms.cmake")
    words = [re.search(rf"set\(RAVINE_{name} ([^)]*)\)", text).group(1).split() for name in ("ROOMS", "LEVELS")]
    if len(words[0]) != len(words[1]):
        sys.exit(f"cmake/rooms.cmake: {len(words[0])} rooms, {len(words[1])} levels")
    return dict(zip(words[0], map(int, words[1])))


def includes_of(root, levels):
    """Room to the other rooms whose headers its files include. A room that has no file is left out."""
    edges = {}
    for room in levels:
        for folder, _, names in sorted(os.walk(os.path.join(root, "src", room))):
            for name in sorted(names):
                if name.endswith((".h", ".cpp", ".inc")):
                    found = re.findall(r'^\s*#\s*include "(\w+)/', read(root, folder, name), re.M)
                    edges.setdefault(room, set()).update(set(found) & set(levels) - {room})
    for room, others in edges.items():
        for other in sorted(others):
            if levels[other] >= levels[room]:
                sys.exit(f"src/{room} (level {levels[room]}) includes {other}/ (level {levels[other]}): only rooms of a lower level may be included")
    return edges


def reduced(edges):
    """The arrows that do not follow from others."""
    reach = {}

    def reached(room):
        if room not in reach:
            reach[room] = set().union(*({other} | reached(other) for other in edges.get(room, ())))
        return reach[room]

    return {room: {b for b in others if not any(b in reached(other) for other in others)} for room, others in edges.items()}


def purposes_of(root):
    return dict(re.findall(r"^### `?(\w+)`?: (.+)$", read(root, "docs", "tour.md"), re.M))


def lines_of(text):
    """The words in lines of at most LINE letters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > LINE:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def places_of(rows, arrows):
    """Room to the centre (x, y) of its box. The order within a row makes arrows short; equal ones keep the order of cmake/rooms.cmake."""
    widest = max(len(row) for row in rows)
    width = widest * (BOX_WIDTH + GAP) - GAP

    def centres(row, y):
        begin = LABEL + (width - len(row) * (BOX_WIDTH + GAP) + GAP) / 2 + BOX_WIDTH / 2
        return {room: (begin + i * (BOX_WIDTH + GAP), y) for i, room in enumerate(row)}

    ys = [MARGIN + BOX_HEIGHT / 2 + i * (BOX_HEIGHT + ROW_GAP) for i in range(len(rows))]
    at = {}
    for row, y in zip(rows, ys):
        at.update(centres(row, y))
    pairs = [(a, b) for a, to in sorted(arrows.items()) for b in sorted(to)]
    for _ in range(4):
        for row, y in zip(rows, ys):
            cost = lambda order: sum(abs({**at, **order}[a][0] - {**at, **order}[b][0]) for a, b in pairs if a in order or b in order)
            at.update(min((centres(order, y) for order in itertools.permutations(row)), key=cost))
    return at, LABEL + width + MARGIN, ys[-1] + BOX_HEIGHT / 2 + MARGIN


def path_of(a, b, rows, at, used):
    """An arrow from the lower side of box a to the upper side of box b, between the boxes of the rows that lie in between."""
    (ax, ay), (bx, by) = at[a], at[b]
    points = [(ax, ay + BOX_HEIGHT / 2)]
    for row in rows:
        y = at[row[0]][1]
        if not ay < y < by:
            continue
        wanted = ax + (bx - ax) * (y - ay) / (by - ay)
        free = [wanted] + [at[r][0] + side * (BOX_WIDTH / 2 + off) for r in row for side in (-1, 1) for off in (6, 11, 16, 21, 26)]
        clear = [x for x in free if LABEL - GAP + 6 < x and all(abs(x - at[r][0]) >= BOX_WIDTH / 2 + 6 for r in row) and all(abs(x - u) >= 5 for u in used.get(y, ()))]
        x = min(clear or free, key=lambda x: (abs(x - wanted), x))
        used.setdefault(y, []).append(x)
        points += [(x, y - BOX_HEIGHT / 2), (x, y + BOX_HEIGHT / 2)]
    points.append((bx, by - BOX_HEIGHT / 2 - 5))
    d = f"M{points[0][0]:.0f},{points[0][1]:.0f}"
    for (x, y), (u, v) in zip(points, points[1:]):
        d += f" L{u:.0f},{v:.0f}" if x == u else f" C{x:.0f},{(y + v) / 2:.0f} {u:.0f},{(y + v) / 2:.0f} {u:.0f},{v:.0f}"
    return d


def picture(root):
    levels = levels_of(root)
    edges = includes_of(root, levels)
    arrows, purposes = reduced(edges), purposes_of(root)
    missing = [room for room in edges if room not in purposes]
    if missing:
        sys.exit(f"docs/tour.md has no heading '### ROOM: purpose' for {', '.join(missing)}")
    rows = [[room for room in levels if levels[room] == level and room in edges] for level in sorted(set(levels.values()), reverse=True)]
    rows = [row for row in rows if row]
    at, width, height = places_of(rows, arrows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" font-family="Helvetica, Arial, sans-serif">',
        "<title>The rooms of src/ and who includes whom</title>",
        "<!-- made by tools/rooms_svg.py -->",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#5b6b7f"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#f7f8fa"/>',
    ]
    used = {}
    for row in rows:
        for a in row:
            for b in sorted(arrows[a], key=lambda b: (at[b][1], at[b][0])):
                out.append(f'<path d="{path_of(a, b, rows, at, used)}" fill="none" stroke="#5b6b7f" stroke-width="1.3" marker-end="url(#tip)"><title>{a} includes {b}</title></path>')
    for row in rows:
        out.append(f'<text x="{MARGIN}" y="{at[row[0]][1] + 4:.0f}" font-size="12" fill="#5b6b7f">{levels[row[0]]}</text>')
        for room in row:
            x, y = at[room]
            out.append(f'<rect x="{x - BOX_WIDTH / 2:.0f}" y="{y - BOX_HEIGHT / 2:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="#ffffff" stroke="#2f5d8a" stroke-width="1.3"/>')
            out.append(f'<text x="{x:.0f}" y="{y - 10:.0f}" font-size="14" font-weight="bold" fill="#16324f" text-anchor="middle">{room}</text>')
            words = lines_of(purposes[room])
            if len(words) > 2:
                sys.exit(f"docs/tour.md: the purpose of {room} is longer than two lines of {LINE} letters: {purposes[room]}")
            for i, line in enumerate(words):
                out.append(f'<text x="{x:.0f}" y="{y + 6 + 14 * i:.0f}" font-size="11.5" fill="#2b3440" text-anchor="middle">{escape(line)}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: python3 tools/rooms_svg.py [--check]")
    text = picture(ROOT)
    path = os.path.join(ROOT, SVG)
    if sys.argv[1:]:
        if not os.path.exists(path) or read(ROOT, SVG) != text:
            sys.exit(f"{SVG} is not the picture of today's rooms: run python3 tools/rooms_svg.py")
        return
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
