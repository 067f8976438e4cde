"""No arithmetic outside kernels: a file above the room `kernels` that touches elements of tensors says "Host work" and what it is. Moving bytes is none.
Numbers of a file that were converted into a vector of their own are not seen: there the rule is kept by whoever reads the change."""
import re
import sys
from pathlib import Path

import ravine_run as r
from ravine_run import check

SOURCE = Path(__file__).resolve().parents[2] / "src"
ROOMS = "engine", "model", "optim", "parallel", "io", "data", "train", "infer", "probe", "apps"
# view.as<float>(), view.row<T>(i), and a cast of view.data to numbers.
ELEMENTS = re.compile(r"\.(?:template )?(?:as|row)<(?!(?:const )?(?:std::byte|char)\b)|_cast<(?!(?:const )?(?:std::byte|char)\b)[^<>]*\*>\([^()]*\.data\b(?!\()")


def unnamed(text):
    """Lines that touch elements in functions above which no 'Host work' stands (or in whose body)."""
    found, named = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if "Host work" in line:
            named = True
        elif re.match(r"^\}|^  \}$", line):
            named = False
        code = line.split("//")[0]
        if ELEMENTS.search(code) and not named:
            found.append(number)
    return found


def test_elements_are_touched_by_kernels_only(folder):
    files = [p for room in ROOMS for p in sorted((SOURCE / room).rglob("*")) if p.suffix in (".cpp", ".h")]
    check(len(files) > 150, f"{len(files)} files were read")
    found = [f"{p.relative_to(SOURCE)}:{n}" for p in files for n in unnamed(p.read_text())]
    check(not found, f"these lines touch elements of tensors: a kernel does that through Ctx::call, or the function says 'Host work: ...': {found}")


def test_what_the_rule_sees(folder):
    for line in ("  sum += losses.view().as<double>()[i];", "  y.row<float>(r)[c] *= 2;", "  auto* p = view.template as<T>();", "  auto* p = static_cast<float*>(view.data) + 3;"):
        check(unnamed(f"void f() {{\n{line}\n}}\n") == [2], f"not seen: {line}")
        check(unnamed(f"// Host work: a sum.\nvoid f() {{\n{line}\n}}\nvoid g() {{\n{line}\n}}\n") == [6], f"one function is named, not the next: {line}")
    for line in ("  v.data = from.as<std::byte>() + 3;", "  // x.as<float>()", "  std::memcpy(to, from.row<char>(2), n);", "  auto* p = reinterpret_cast<const From*>(memory.data());"):
        check(unnamed(f"void f() {{\n{line}\n}}\n") == [], f"no arithmetic: {line}")


if __name__ == "__main__":
    sys.exit(r.main(globals()))
