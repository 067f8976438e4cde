// Tests of charts against their definition: ticks, positions of points, gaps, thinning, names and colours; and the
// metrics that charts show.
#include "probe/chart.h"

#include <cmath>
#include <limits>
#include <regex>

#include <fmt/format.h>

#include "base/error.h"
#include "probe/run_metrics.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_probe_chart {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Ticks = std::vector<double>;

TEST(Ticks, StepsAreOneTwoOrFive) {
  EXPECT_EQ(round_ticks(0, 7, 7), (Ticks{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(round_ticks(0, 10, 5), (Ticks{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(0, 1, 4), (Ticks{0, 0.5, 1}));
  EXPECT_EQ(round_ticks(0, 56, 7), (Ticks{0, 10, 20, 30, 40, 50}));
  EXPECT_EQ(round_ticks(-3, 3, 3), (Ticks{-2, 0, 2}));
  EXPECT_EQ(round_ticks(410, 990, 3), (Ticks{600, 800}));
  EXPECT_EQ(round_ticks(1, 1, 5), (Ticks{1}));
  EXPECT_EQ(round_ticks(0, std::numeric_limits<double>::infinity(), 5), (Ticks{0}));
}

// Returns the SVG path of the series `name`: points, with "M" before each point that starts a line.
std::string path_of(const std::string& svg, const std::string& name) {
  std::smatch m;
  EXPECT_TRUE(std::regex_search(svg, m, std::regex("<path d=\"([^\"]*)\"[^>]*><title>" + name + "</title>"))) << svg;
  return m[1];
}

constexpr int kWide = 200, kHigh = 100;  // of which the frame takes 64 and 16, 34 and 38
std::string at(const char* pen, double x, double y) { return fmt::format("{}{:.2f} {:.2f}", pen, 64 + 120 * x, 62 - 28 * y); }

TEST(Svg, PointsLieAtTheirValues) {
  const Chart chart{"t", "step", false, {{"a", {10, 20, 30}, {0, 10, 5}}}};
  auto y = [](double v) { return (v + 0.4) / 10.8; };  // a margin of 4 % on both sides
  EXPECT_EQ(path_of(svg_chart(chart, kWide, kHigh), "a"),
            at("M", 0, y(0)) + " h0.01" + at(" L", 0.5, y(10)) + at(" L", 1, y(5)));
}

TEST(Svg, LogarithmsHaveGapsAtZeroAndTicksAtPowersOfTen) {
  const Chart chart{"t", "step", true, {{"a", {0, 1, 2, 3, 4}, {1, 100, 0, -3, 10}}}};
  auto y = [](double v) { return (std::log10(v) + 0.08) / 2.16; };
  const std::string svg = svg_chart(chart, kWide, kHigh);
  EXPECT_EQ(path_of(svg, "a"), at("M", 0, y(1)) + " h0.01" + at(" L", 0.25, y(100)) + at(" M", 1, y(10)) + " h0.01");
  for (double tick : {1, 10, 100})
    EXPECT_NE(
        svg.find(fmt::format(
            "y1=\"{0:.2f}\" y2=\"{0:.2f}\" stroke=\"#dddddd\"/><text x=\"58\" y=\"{1:.2f}\" text-anchor=\"end\">{2}</text>",
            62 - 28 * y(tick), 66 - 28 * y(tick), tick)),
        std::string::npos)
        << tick << "\n"
        << svg;
}

TEST(Svg, ValuesAllAlikeLieInTheMiddle) {
  for (double v : {5.0, 0.0, -2.0})
    EXPECT_EQ(path_of(svg_chart({"t", "step", false, {{"a", {0, 1}, {v, v}}}}, kWide, kHigh), "a"),
              at("M", 0, 0.5) + " h0.01" + at(" L", 1, 0.5))
        << v;
  EXPECT_NE(svg_chart({"t", "step", false, {{"a", {0, 1}, {5, 5}}}}, kWide, kHigh).find(">5.2</text>"), std::string::npos)
      << "5 % around it";
}

TEST(Svg, AGapPartsTheCurve) {
  EXPECT_EQ(path_of(svg_chart({"t", "s", false, {{"a", {0, 1, 2, 3}, {0, kNan, 1, 1}}}}, kWide, kHigh), "a"),
            at("M", 0, 0.04 / 1.08) + " h0.01" + at(" M", 2.0 / 3, 1.04 / 1.08) + " h0.01" + at(" L", 1, 1.04 / 1.08));
}

TEST(Svg, LongSeriesKeepBothExtremesOfAColumnInTheirOrder) {
  Series s{"a", {}, {}};
  for (int i = 0; i < 5000; ++i) s.x.push_back(i), s.y.push_back(0);
  s.y[2500] = 1, s.y[2501] = -1;  // of 120 columns the 60th
  s.y[100] = -1, s.y[101] = 1;    // the second
  s.y[3000] = kNan;               // the first of the 72nd
  const std::string path = path_of(svg_chart({"t", "s", false, {s}}, kWide, kHigh), "a");
  auto point = [](int i, double y) { return at(" L", i / 4999.0, (y + 1.08) / 2.16); };
  EXPECT_NE(path.find(point(2500, 1) + point(2501, -1)), std::string::npos) << path;
  EXPECT_NE(path.find(point(100, -1) + point(101, 1)), std::string::npos) << path;
  EXPECT_EQ(std::count(path.begin(), path.end(), 'M'), 2) << "the gap is kept";
  EXPECT_EQ(std::count(path.begin(), path.end(), 'L') + 2, 121 + 2) << "one of each column, and of two the other extreme";
}

TEST(Svg, NamesStandInTheRowOfTheTitleOrOnAGroundOfTheirOwn) {
  Chart chart{"loss", "step", false, {{"a", {0, 1}, {0, 1}}, {"b<&\"", {0, 1}, {0, 1}}}};
  const std::string row = svg_chart(chart, 720, 300);  // to 704: the last name first
  EXPECT_NE(
      row.find(
          "<line x1=\"688.0\" x2=\"704.0\" y1=\"16\" y2=\"16\" stroke=\"#d55e00\" stroke-width=\"3\"/><text x=\"682.0\" y=\"20\" text-anchor=\"end\">b&lt;&amp;&quot;</text>"),
      std::string::npos)
      << row;
  EXPECT_NE(row.find("<text x=\"612.0\" y=\"20\" text-anchor=\"end\">a</text>"), std::string::npos)
      << "four letters of 7 and 42 before it: " << row;
  EXPECT_EQ(row.find("fill-opacity"), std::string::npos);
  chart.title = std::string(80, 't');
  const std::string below = svg_chart(chart, 720, 300);
  EXPECT_NE(below.find("<rect x=\"638.0\" y=\"36.0\" width=\"64.0\" height=\"38.0\" fill=\"#ffffff\" fill-opacity=\"0.8\"/>"),
            std::string::npos)
      << below;
  EXPECT_NE(below.find("<text x=\"674.0\" y=\"50\" text-anchor=\"end\">a</text>"), std::string::npos) << below;
  EXPECT_NE(below.find("<text x=\"674.0\" y=\"66\" text-anchor=\"end\">b&lt;&amp;&quot;</text>"), std::string::npos) << below;
  chart.series.resize(1);
  EXPECT_EQ(svg_chart(chart, 720, 300).find("text-anchor=\"end\">a</text>"), std::string::npos)
      << "one curve is named by the title";
}

std::string repeated(const std::string& s, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += s;
  return out;
}

TEST(Terminal, AFlatLineIsInItsRow) {
  const Chart chart{"t", "step", false, {{"a", {0, 1}, {0, 0}}}};
  const std::string pad(10, ' ');
  EXPECT_EQ(terminal_chart(chart, 32, 4, false), "t\n         1 ┤\n" + pad + " │\n         0 ┤" + repeated("⠉", 20) +
                                                     "\n        -1 ┤\n" + pad + " └" + repeated("─", 20) + "\n" + pad + "  0" +
                                                     std::string(13, ' ') + "1 step\n");
}

TEST(Terminal, ARiseGoesFromTheFirstDotBelowToTheLastAbove) {
  const std::string text = terminal_chart({"t", "s", false, {{"a", {0, 1}, {0, 1}}}}, 32, 3, false);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    lines.push_back(text.substr(begin, text.find('\n', begin) - begin));
  ASSERT_EQ(lines.size(), 6u);
  const std::string first = lines[3].substr(std::string(11, ' ').size() + 3, 3),
                    last = lines[1].substr(lines[1].size() - 3);  // a frame's sign has three bytes
  EXPECT_TRUE((static_cast<unsigned char>(first[2]) | static_cast<unsigned char>(first[1]) << 6) & 0x40)
      << "the lowest dot of the first column: " << lines[3];
  EXPECT_TRUE(static_cast<unsigned char>(last[2]) & 0x08) << "the highest dot of the last column: " << lines[1];
}

TEST(Terminal, SeveralCurvesHaveNamesAndColours) {
  const Chart chart{"t", "s", false, {{"a", {0, 1}, {0, 0}}, {"b", {0, 1}, {1, 1}}}};
  EXPECT_TRUE(terminal_chart(chart, 40, 3, false).starts_with("t   a   b\n"));
  const std::string colour = terminal_chart(chart, 40, 3, true);
  EXPECT_TRUE(colour.starts_with("t   \x1b[34ma\x1b[0m   \x1b[31mb\x1b[0m\n")) << colour;
  EXPECT_NE(colour.find("\x1b[31m" + repeated("⠉", 28) + "\x1b[0m\n"), std::string::npos) << colour;
  EXPECT_NE(colour.find("\x1b[34m" + repeated("⣀", 28) + "\x1b[0m\n"), std::string::npos) << colour;
}

TEST(Xml, EscapesWhatHasAMeaning) { EXPECT_EQ(xml_escaped("a<b>&\"c\"\t\n\x01\x1b é"), "a&lt;b&gt;&amp;&quot;c&quot;\t\n é"); }

TEST(RunMetrics, AreColumnsOfRows) {
  TemporaryFolder f;
  std::filesystem::create_directory(f / "book");
  spill(
      f / "book/metrics.jsonl",
      "{\"step\":2,\"loss\":1.5,\"note\":\"x\"}\n{\"step\":4,\"loss\":null,\"lr\":0.25}\n{\"step\":6,\"loss\":0.5}\n{\"step\":8,\"lo");
  for (const std::string& path : {f / "book", f / "book/metrics.jsonl", f / "book/"}) {
    const RunMetrics m = read_run_metrics(path);
    EXPECT_EQ(m.name, path.ends_with('/') ? m.name : "book");
    EXPECT_EQ(m.step, (Ticks{2, 4, 6}));
    EXPECT_EQ(m.value.size(), 2u) << "loss and lr: a text is no value";
    const Ticks loss = m.column("loss"), lr = m.column("lr");
    EXPECT_TRUE(loss[0] == 1.5 && std::isnan(loss[1]) && loss[2] == 0.5);
    EXPECT_TRUE(std::isnan(lr[0]) && lr[1] == 0.25 && std::isnan(lr[2])) << "in the row that has it";
    EXPECT_TRUE(m.column("none").size() == 3 && std::isnan(m.column("none")[0]));
  }
  spill(f / "book/metrics.jsonl", "{\"step\":1}\n{\"lo\n{\"step\":2}\n");
  EXPECT_NE(message_of<UserError>([&] { read_run_metrics(f / "book"); }).find("metrics.jsonl, line 2"), std::string::npos);
  spill(f / "book/metrics.jsonl", "{\"step\":1}\n{\"step\":2,\"note\":\"" + std::string(20 << 20, 'a') + "\"}\n{\"step\":3}\n");
  EXPECT_NE(message_of<UserError>([&] { read_run_metrics(f / "book"); }).find("line is too long"), std::string::npos);
}

}  // namespace test_probe_chart
}  // namespace ravine
