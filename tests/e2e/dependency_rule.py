"""A room that includes a room of its own or a higher level must not compile; and no room of today does."""
import os, re, subprocess, sys, tempfile

root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
build = os.path.dirname(os.path.abspath(sys.argv[1]))
text = open(os.path.join(root, "cmake", "rooms.cmake")).read()
rooms = re.search(r"set\(RAVINE_ROOMS ([^)]*)\)", text).group(1).split()
levels = dict(zip(rooms, map(int, re.search(r"set\(RAVINE_LEVELS ([^)]*)\)", text).group(1).split())))


def compiles(room, include):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "probe.cpp")
        open(path, "w").write(f'#include "{include}"\n')
        return subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-I", os.path.join(build, "include", room), path], capture_output=True).returncode == 0


def main():
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
