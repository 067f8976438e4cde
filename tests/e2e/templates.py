"""Hostile chat templates: an error that names the file, the line and the rule, never a crash or a hang."""
import json
import resource
import subprocess
from pathlib import Path

from ravine_run import check, command, main, rows, run

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "chat"
SHARED = "{% set n = namespace(x=1, y=1) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}\n"
BIG = "{% set b = 'ab' * 15000000 %}\n"
LITERAL = "[" + ",".join(["1"] * 100000) + "]"
TOO_MUCH = {
    "a chain of lists": ("{% set n = namespace(x=1) %}{% for i in range(99999) %}{% set n.x = [n.x] %}{% endfor %}", "values are nested too deeply", 1),
    "a chain of methods": ("{% set n = namespace(x={}) %}{% for i in range(99999) %}{% set n.x = {'a': n.x.get} %}{% endfor %}", "values are nested too deeply", 1),
    "60 calls of a deep tree": ("{% macro f(n) %}\n{{ (f(n - 1)|int + " + " + ".join(["0"] * 460) + ") if n else 0 }}{% endmacro %}{{ f(59) }}", "run too deeply", 2),
    "filters of filters": ("{{ 'a'|map(" + ", ".join(["'map'"] * 1000) + ")|list }}", "too deeply", 1),
    "shared lists ==": (SHARED + "{{ n.x == n.y }}", "too many steps", 2),
    "shared lists <": (SHARED + "{{ n.x < n.y }}", "too many steps", 2),
    "shared lists in": (SHARED + "{{ n.x in [n.y] }}", "too many steps", 2),
    "shared lists sorted": (SHARED + "{{ [n.x, n.y]|sort }}", "too many steps", 2),
    "shared lists written": (SHARED + "{{ n.x }}", "too many steps", 2),
    "shared lists as JSON": (SHARED + "{{ n.x|tojson }}", "too many steps", 2),
    "a long text in a loop": (BIG + "{% for i in range(9999) %}{% if b.upper() %}{% endif %}{% endfor %}", "too much memory", 2),
    "a long text searched": (BIG + "{% for i in range(9999) %}{% if ('b' ~ 'a' * 9999) in b %}{% endif %}{% endfor %}", "too many steps", 2),
    "a long text compared": (BIG + "{% set c = 'ab' * 15000000 %}{% for i in range(9999) %}{% if b == c %}{% endif %}{% endfor %}", "too many steps", 2),
    "a long text cut up": (BIG + "{{ b.split('a')|length }}", "too much memory", 2),
    "a text that doubles": ("{% set n = namespace(s='x' * 1000) %}{% for i in range(60) %}\n{% set n.s = n.s ~ n.s %}{% endfor %}", "too much memory", 2),
    "a product": ("{{ 'x' * 99999999999 }}", "too much text", 1),
    "a long literal in a loop": ("{% for i in range(99999) %}\n{% set x = " + LITERAL + " %}{% endfor %}", "too much memory", 2),
    "a long dict": ("{{ {" + ",".join(f"{i}:1" for i in range(60000)) + "}|length }}", "too many steps", 1),
    "many names": ("".join("{%% set a%d = 1 %%}" % i for i in range(50000)), "too many steps", 1),
}
WRONG = {
    "brackets": ("\n{{ " + "[" * 400000 + "]" * 400000 + " }}", "line 2: nested too deeply"),
    "a chain of sums": ("{{ 1" + "+1" * 300000 + " }}", "line 1: nested too deeply"),
    "filters": ("{{ 1" + "|abs" * 200000 + " }}", "line 1: nested too deeply"),
    "blocks": ("{% if 1 %}\n" * 50000, "line 99: nested too deeply"),
    "too long": ("x" * 1100000, "a template of 1100000 bytes, at most 1048576 are read"),
}


def bounded():
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # a hang ends
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))


def render(path):
    line = json.dumps({"messages": [{"role": "user", "content": "Hi"}]}) + "\n"
    return subprocess.run(command("tokenizer", "render", "--template", path, "--jsonl"), input=line, capture_output=True, text=True, preexec_fn=bounded)


def test_too_much(folder):
    path = folder / "t.jinja"
    for name, (text, rule, line) in rows(TOO_MUCH.items(), 3, "each limit is of the same interpreter"):
        path.write_text(text)
        done = render(path)
        check(done.returncode == 0, f"{name}: exit status {done.returncode}\n{done.stderr[:400]}")
        said = json.loads(done.stdout).get("error", "no error")
        check(rule in said and said.endswith(f", line {line} of {path}"), f"{name}: {said[:400]}")


def test_wrong(folder):
    path = folder / "t.jinja"
    for name, (text, rule) in WRONG.items():
        path.write_text(text)
        done = render(path)
        check(done.returncode == 2 and f"wrong chat template ({path}): {rule}" in done.stderr, f"{name}: exit status {done.returncode}\n{done.stderr[:400]}")


def test_a_data_set_with_such_a_template(folder):
    path, data = folder / "t.jinja", folder / "a.json"
    data.write_text(json.dumps([{"instruction": "Why?", "output": "It is."}]))
    for name in ("a chain of lists", "shared lists <", "a text that doubles"):
        text, rule, line = TOO_MUCH[name]
        path.write_text(text)
        done = run("info", data, "--tokenizer", GOLDEN, "--template", path, status=2, preexec_fn=bounded)
        check(rule in done.stderr and f", line {line} of {path}" in done.stderr, done.stderr)


if __name__ == "__main__":
    main(globals())
