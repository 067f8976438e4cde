"""`ravine plot`: what the pictures show is read back from them and compared with the metrics they were made of."""
import json
import re
import xml.etree.ElementTree as ET

import ravine_run as r

SVG = "{http://www.w3.org/2000/svg}"


def write_run(folder, rows, tail=""):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
    return folder


def curve(steps, scale=1.0):
    return [{"step": s, "loss": scale * (4 - s / 100), "grad_norm": 1 + s % 7, "lr": 1e-3, "tokens_per_second": 100 + s} for s in range(1, steps + 1)]


def plot(*args, status=0):
    return r.run("plot", *args, status=status)


def scale_of(lines, pixel, value):
    """The straight line through the ticks: what the axis says a pixel means."""
    a, b = (pixel(lines[0]), value(lines[0])), (pixel(lines[-1]), value(lines[-1]))
    return lambda p: a[1] + (p - a[0]) * (b[1] - a[1]) / (b[0] - a[0])


def read_chart(group):
    """{series: [(x, y) ..]} of one chart, by its own ticks."""
    texts = group.findall(SVG + "text")
    y_ticks = [t for t in texts if t.get("text-anchor") == "end" and re.fullmatch(r"[-+.e0-9]+", t.text)]
    x_ticks = [t for t in texts if t.get("text-anchor") == "middle" and re.fullmatch(r"[-+.e0-9]+", t.text)]
    x_of = scale_of(x_ticks, lambda t: float(t.get("x")), lambda t: float(t.text))
    y_of = scale_of(y_ticks, lambda t: float(t.get("y")) - 4, lambda t: float(t.text))
    out = {}
    for path in group.findall(SVG + "path"):
        points = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d"))
        out[path.find(SVG + "title").text] = [(x_of(float(x)), y_of(float(y))) for x, y in points]
    return out


def test_values_are_those_of_the_metrics(folder):
    rows = curve(40)
    rows[19]["valid_loss"] = 2.5
    rows[39]["valid_loss"] = 2.0
    rows[10]["loss"] = None  # a step whose loss was not finite leaves a gap
    run = write_run(folder / "a", rows)
    plot(run, "--output", folder / "a.svg")
    root = ET.parse(folder / "a.svg").getroot()
    charts = {g.find(SVG + "svg").find(SVG + "text").text: g.find(SVG + "svg") for g in root.findall(SVG + "g")}
    assert list(charts) == ["loss", "grad_norm", "lr", "tokens_per_second"], list(charts)
    drawn = read_chart(charts["loss"])
    assert set(drawn) == {"loss", "valid_loss"}
    expected = [(row["step"], row["loss"]) for row in rows if row["loss"] is not None]
    assert len(drawn["loss"]) == len(expected)
    for (x, y), (step, loss) in zip(drawn["loss"], expected):  # two digits of a pixel: 1/100 of 640 and of 228 pixels
        assert abs(x - step) < 39 / 640 and abs(y - loss) < 2 / 228, (x, y, step, loss)
    assert [(round(x), round(y, 1)) for x, y in drawn["valid_loss"]] == [(20, 2.5), (40, 2.0)]
    gaps = {p.find(SVG + "title").text: p.get("d").count("M") for p in charts["loss"].findall(SVG + "path")}
    assert gaps == {"loss": 2, "valid_loss": 1}, f"{gaps}: a line joins the steps that have been validated"


def test_a_page_needs_nothing_from_outside(folder):
    a, b = write_run(folder / "a", curve(5)), write_run(folder / "b<&", curve(5, 2.0))
    plot(a, b, "--keys", "loss", "--output", folder / "p.html")
    page = (folder / "p.html").read_text()
    assert page.count("<svg") == 1 and "b&lt;&amp;" in page and "b<&" not in page
    assert not re.search(r"(src|href)=|url\(|@import|<script", page)
    assert re.findall(r"https?://[^\"]*", page) == ["http://www.w3.org/2000/svg"]
    chart = ET.fromstring(re.search(r"<svg.*</svg>", page, re.S).group(0))
    drawn = read_chart(chart)
    assert set(drawn) == {"a", "b<&"} and abs(drawn["b<&"][-1][1] - 7.9) < 0.05


def test_long_runs_keep_their_spikes(folder):
    rows = curve(20000)
    rows[12345]["loss"] = 999.0
    plot(write_run(folder / "a", rows), "--keys", "loss", "--output", folder / "a.svg")
    chart = ET.parse(folder / "a.svg").getroot().find(SVG + "g").find(SVG + "svg")
    points = read_chart(chart)["a"]
    assert len(points) < 2000 and abs(max(y for _, y in points) - 999) < 5, len(points)


def test_values_that_differ_by_rounding(folder):
    """An axis has an end, however near its values lie."""
    rows = [{"step": 1, "lr": 0.001}, {"step": 2, "lr": 0.0010000000000000002}, {"step": 3, "lr": 0.001}]
    plot(write_run(folder / "a", rows), "--keys", "lr", "--output", folder / "a.svg")
    chart = ET.parse(folder / "a.svg").getroot().find(SVG + "g").find(SVG + "svg")
    check_ticks = [t.text for t in chart.findall(SVG + "text")]
    r.check(4 < len(check_ticks) < 40, check_ticks)
    said = plot(write_run(folder / "b\x1b[2J", rows)).stdout
    r.check("\x1b" not in said, "a name reaches the terminal raw")


def test_numbers_without_measure(folder):
    """Losses at the ends of what a double holds end in a picture, within memory and time."""
    for n, losses in enumerate(((1e-200, 1e200), (1e308, 1.0), (-1e308, 1e308), (5e-324, 1.0))):
        run = write_run(folder / str(n), [{"step": s, "loss": loss, "lr": 1} for s, loss in enumerate(losses, 1)])
        for flags in ((), ("--log-scale",)):
            plot(run, *flags, "--output", folder / f"{n}{len(flags)}.svg")
            plot(run, *flags)


def test_terminal(folder):
    run = write_run(folder / "a", curve(50), tail='{"step": 51, "lo')  # a kill cut the last line off
    out = plot(run).stdout
    assert "loss" in out and "grad_norm" in out and "\x1b" not in out
    lines = out.splitlines()
    assert max(len(l) for l in lines) <= 80, max(len(l) for l in lines)
    falling = [l for l in lines[1:13]]
    first = [l.index(c) for l in falling for c in l[12:] if c > "⠀"][:1], falling[-1].rstrip()
    assert first[0] and len(first[1]) >= 75, falling  # the loss falls from the left at the top to the right at the bottom


def test_mistakes(folder):
    run = write_run(folder / "a", curve(3))
    assert "did you mean 'loss'?" in plot(run, "--keys", "los", status=2).stderr
    assert "metrics.jsonl" in plot(folder, status=2).stderr
    assert ".svg or .html" in plot(run, "--output", folder / "a.png", status=2).stderr
    broken = write_run(folder / "c", curve(2), tail='{"loss": 1}\n')
    assert "line 3" in plot(broken, status=2).stderr
    assert "no steps" in plot(write_run(folder / "d", []), status=2).stderr


if __name__ == "__main__":
    r.main(globals())
