"""A room that includes a room of its own or a higher level must not compile; and no room of today does. Within the room text no circles; within the others
none but those that are listed."""
import os, re, subprocess, sys, tempfile

root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
build = os.path.dirname(os.path.abspath(sys.argv[1]))
text = open(os.path.join(root, "cmake", "rooms.cmake")).read()
rooms = re.search(r"set\(RAVINE_ROOMS ([^)]*)\)", text).group(1).split()
levels = dict(zip(rooms, map(int, re.search(r"set\(RAVINE_LEVELS ([^)]*)\)", text).group(1).split())))


# Files that reach each other, a header and its .cpp counted as one. A line may be taken away here, none may be added.
CIRCLES = [
    "config/likely_number config/option",
    "data/instruct/chat_records data/instruct/chat_set data/instruct/instruction_files data/records/open_records data/source",
    "files/fd files/mapped_file",
    "model/decoder model/families/families model/model",
]


def compiles(room, include):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "probe.cpp")
        open(path, "w").write(f'#include "{include}"\n')
        return subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-I", os.path.join(build, "include", room), path], capture_output=True).returncode == 0


def includes(room):
    """Of each file of the room (a header and its .cpp are one, without their endings): what it includes of this program."""
    found = {}
    for folder, _, names in os.walk(os.path.join(root, "src", room)):
        for name in names:
            if name.endswith((".h", ".cpp")):
                path = os.path.join(folder, name)
                key = os.path.splitext(os.path.relpath(path, os.path.join(root, "src")))[0]
                found.setdefault(key, set()).update(re.findall(r'#include "(\w+/[^".]+)', open(path).read()))
    return found


def circles(graph):
    """The sets of two or more that all reach each other, in the order of their names."""
    def reached(a):
        seen, todo = set(), [a]
        while todo:
            for b in graph.get(todo.pop(), ()):
                if b in graph and b not in seen:
                    seen.add(b)
                    todo.append(b)
        return seen
    reach = {a: reached(a) for a in graph}
    found = {" ".join(sorted({a} | {b for b in reach[a] if a in reach[b]})) for a in graph}
    return sorted(c for c in found if " " in c)


def main():
    files = includes("text")
    assert len(files) > 30, "the room text is looked at"
    assert {b.split("/")[0] for to in files.values() for b in to} == {"base", "files", "text"}, "text knows base and files only"
    assert not circles(files), circles(files)
    folders = {}
    for a, to in files.items():
        folders.setdefault(os.path.dirname(a), set()).update(os.path.dirname(b) for b in to)
    assert not circles(folders), circles(folders)
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "a"}, "d": {"a", "e"}, "e": {"e"}}) == ["a b c"], "circles are found"
    remain = [c for room in rooms for c in circles(includes(room))]
    assert set(remain) <= set(CIRCLES), f"files that reach each other: {sorted(set(remain) - set(CIRCLES))}"
    assert set(CIRCLES) <= set(remain), f"these are gone, so their lines go: {sorted(set(CIRCLES) - set(remain))}"
    assert compiles("engine", "kernels/kernels.h"), "a lower room must be visible"
    assert not compiles("engine", "model/model.h"), "engine must not see model"
    assert not compiles("optim", "parallel/flat_store.h"), "rooms of one level must not see each other"
    assert not compiles("base", "device/device.h"), "base sees nobody"
    for room in rooms:  # the generated folders hold what the rule says, no more
        folder = os.path.join(build, "include", room)
        if os.path.isdir(folder):
            for other in os.listdir(folder):
                assert other == room or levels[other] < levels[room], f"{room} can see {other}"
    print("ok")


main()
