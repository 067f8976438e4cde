#include "probe/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace ravine {
namespace {

// Eight colours that colour-blind readers can distinguish (Okabe and Ito, 2008).
constexpr std::array<const char*, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#000000", "#999999"};
constexpr std::array<int, 8> kTerminalColours = {34, 31, 32, 35, 33, 36, 39, 90};

// An axis: maps values to positions from 0 to 1.
struct ChartAxis {
  double low = 0, high = 1;
  bool logarithmic = false;

  double axis_position(double v) const {
    if (logarithmic) return v > 0 ? (std::log10(v) - std::log10(low)) / (std::log10(high) - std::log10(low)) : std::nan("");
    return (v - low) / (high - low);
  }
};

// A larger or smaller value is a gap, so that the ends of an axis stay far from infinity and 0.
constexpr double kMostDrawn = 1e100;
bool is_drawn(double y, bool logarithmic) {
  return std::isfinite(y) && std::abs(y) <= kMostDrawn && (!logarithmic || y >= 1 / kMostDrawn);
}

ChartAxis axis_over(const Chart& chart, bool y) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Series& s : chart.series)
    for (size_t i = 0; i < s.y.size(); ++i) {
      const double v = y ? s.y[i] : s.x[i];
      if (!is_drawn(s.y[i], chart.logarithmic) || std::abs(v) > kMostDrawn) continue;
      low = std::min(low, v);
      high = std::max(high, v);
    }
  if (low > high) low = high = 1;
  if (y && chart.logarithmic) return {low, high > low ? high : 10 * low, true};
  if (high - low > 1e-9 * std::max(std::abs(low), std::abs(high)))
    return {low, high, false};  // smaller ranges are rounding differences
  const double around = low == 0 ? 1 : std::abs(low) * 0.05;
  return {low - around, high + around, false};
}

std::vector<double> axis_ticks(const ChartAxis& axis, int count) {
  if (!axis.logarithmic || axis.high < 10 * axis.low) return round_ticks(axis.low, axis.high, count);
  std::vector<double> ticks;
  for (double p = std::ceil(std::log10(axis.low) - 1e-9); p <= std::log10(axis.high) + 1e-9; ++p)
    ticks.push_back(std::pow(10.0, p));
  if (ticks.size() < 2) return round_ticks(axis.low, axis.high, count);
  return ticks;
}

std::string tick_text(double v) { return fmt::format("{:.6g}", std::abs(v) < 1e-12 ? 0.0 : v); }

// A point of a curve; a y that is not finite is a gap.
struct ChartPoint {
  double x, y;  // 0 to 1
};

std::vector<ChartPoint> thinned(const Series& s, const ChartAxis& ax, const ChartAxis& ay, int columns) {
  std::vector<ChartPoint> all, out;
  for (size_t i = 0; i < s.y.size(); ++i)
    all.push_back({ax.axis_position(s.x[i]), is_drawn(s.y[i], ay.logarithmic) ? ay.axis_position(s.y[i]) : std::nan("")});
  if (all.size() <= 2 * static_cast<size_t>(columns)) return all;
  for (size_t i = 0; i < all.size();) {
    const int column = static_cast<int>(all[i].x * columns);
    size_t end = i, low = i, high = i;
    bool gap = false;
    for (; end < all.size() && static_cast<int>(all[end].x * columns) == column; ++end) {
      if (!std::isfinite(all[end].y)) {
        gap = true;
        continue;
      }
      if (!std::isfinite(all[low].y) || all[end].y < all[low].y) low = end;
      if (!std::isfinite(all[high].y) || all[end].y > all[high].y) high = end;
    }
    out.push_back(all[std::min(low, high)]);
    if (low != high) out.push_back(all[std::max(low, high)]);
    if (gap && std::isfinite(out.back().y)) out.push_back({out.back().x, std::nan("")});
    i = end;
  }
  return out;
}

std::string utf8(char32_t c) {  // returns a character of the Braille block: three bytes
  return {static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3f)),
          static_cast<char>(0x80 | (c & 0x3f))};
}

// A picture of dots, two columns and four rows per character cell. A cell has the colour of the last curve drawn in it.
class DotScreen {
 public:
  DotScreen(int columns, int rows)
      : columns_(columns),
        rows_(rows),
        dots_(static_cast<size_t>(columns) * static_cast<size_t>(rows)),
        owner_(dots_.size(), -1) {}

  void line(ChartPoint a, ChartPoint b, int series) {
    const int steps = 1 + static_cast<int>(std::max(std::abs(b.x - a.x) * 2 * columns_, std::abs(b.y - a.y) * 4 * rows_));
    for (int i = 0; i <= steps; ++i) dot(a.x + (b.x - a.x) * i / steps, a.y + (b.y - a.y) * i / steps, series);
  }
  void dot(double x, double y, int series) {
    const int column = std::clamp(static_cast<int>(std::lround(x * (2 * columns_ - 1))), 0, 2 * columns_ - 1);
    const int row = std::clamp(static_cast<int>(std::lround((1 - y) * (4 * rows_ - 1))), 0, 4 * rows_ - 1);
    static constexpr int kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const size_t cell = cell_at(row / 4, column / 2);
    dots_[cell] |= static_cast<uint8_t>(kBits[row % 4][column % 2]);
    owner_[cell] = series;
  }
  std::string row(int r, bool colour) const {
    std::string out;
    int now = -1;
    for (int c = 0; c < columns_; ++c) {
      const size_t cell = cell_at(r, c);
      if (colour && owner_[cell] >= 0 && owner_[cell] != now)
        out += fmt::format("\x1b[{}m", kTerminalColours[static_cast<size_t>(now = owner_[cell]) % kTerminalColours.size()]);
      out += dots_[cell] ? utf8(0x2800 + dots_[cell]) : " ";
    }
    return out + (now >= 0 ? "\x1b[0m" : "");
  }

 private:
  size_t cell_at(int row, int column) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }
  int columns_, rows_;
  std::vector<uint8_t> dots_;
  std::vector<int> owner_;
};

// Returns the legend: in the row of the title, or, if that is too narrow, one name per line on a white box.
std::string legend(const Chart& chart, double left, double right, double top) {
  auto wide = [](const std::string& text) { return 7.0 * static_cast<double>(text.size()); };
  double all = 0, widest = 0;
  for (const Series& s : chart.series) all += wide(s.name) + 42, widest = std::max(widest, wide(s.name));
  const bool row = all + 1.3 * wide(chart.title) + 16 < right - left;
  std::string out;
  if (!row)
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#ffffff\" fill-opacity=\"0.8\"/>\n",
        right - widest - 38, top + 2, widest + 36, 16.0 * static_cast<double>(chart.series.size()) + 6);
  double x = right;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const size_t s = row ? chart.series.size() - 1 - i : i;
    const double y = row ? 20 : top + 16 + 16.0 * static_cast<double>(s), end = row ? x : right - 8;
    out += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"3\"/><text x=\"{:.1f}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
        end - 16, end, y - 4, y - 4, kColours[s % kColours.size()], end - 22, y, xml_escaped(chart.series[s].name));
    x -= wide(chart.series[s].name) + 42;
  }
  return out;
}

// Returns the axis with a margin, so that curves do not touch the frame.
ChartAxis with_margin(ChartAxis a) {
  constexpr double kMargin = 0.04;
  if (a.logarithmic) {
    const double factor = std::pow(a.high / a.low, kMargin);
    return {a.low / factor, a.high * factor, true};
  }
  const double more = kMargin * (a.high - a.low);
  return {a.low - more, a.high + more, false};
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  const double rough = (high - low) / std::max(1, count);
  if (!(rough > 0) || !std::isfinite(rough)) return {low};
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double part = rough / power, step = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
  const double first = std::ceil(low / step - 1e-9);
  std::vector<double> ticks;
  for (int i = 0; i <= 2 * count && (first + i) * step <= high + 1e-9 * step; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

std::string terminal_chart(const Chart& chart, int columns, int rows, bool colour) {
  const ChartAxis ax = axis_over(chart, false), ay = axis_over(chart, true);
  constexpr int kLabel = 10;
  const int width = std::max(10, columns - kLabel - 2);
  rows = std::max(3, rows);
  DotScreen screen(width, rows);
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const std::vector<ChartPoint> points = thinned(chart.series[s], ax, ay, 2 * width);
    for (size_t i = 0; i < points.size(); ++i) {
      if (!std::isfinite(points[i].y)) continue;
      const bool joined = i > 0 && std::isfinite(points[i - 1].y);
      joined ? screen.line(points[i - 1], points[i], static_cast<int>(s))
             : screen.dot(points[i].x, points[i].y, static_cast<int>(s));
    }
  }
  std::vector<std::string> labels(static_cast<size_t>(rows));
  for (double t : axis_ticks(ay, std::max(2, rows / 3)))
    if (double at = ay.axis_position(t); at >= -1e-9 && at <= 1 + 1e-9)
      labels[static_cast<size_t>(std::clamp(static_cast<int>(std::lround((1 - at) * (rows - 1))), 0, rows - 1))] = tick_text(t);
  std::string out = chart.title;
  if (chart.series.size() > 1)
    for (size_t s = 0; s < chart.series.size(); ++s)
      out += colour ? fmt::format("   \x1b[{}m{}\x1b[0m", kTerminalColours[s % kTerminalColours.size()], chart.series[s].name)
                    : "   " + chart.series[s].name;
  out += "\n";
  for (int r = 0; r < rows; ++r) {
    std::string line = fmt::format("{:>{}} {}{}", labels[static_cast<size_t>(r)], kLabel,
                                   labels[static_cast<size_t>(r)].empty() ? "│" : "┤", screen.row(r, colour));
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  const std::string first = tick_text(ax.low), last = fmt::format("{} {}", tick_text(ax.high), chart.x_label);
  const int space = std::max(1, width - static_cast<int>(first.size() + last.size()));
  std::string base;
  for (int c = 0; c < width; ++c) base += "─";
  return out + fmt::format("{:>{}} └{}\n{:>{}}  {}{:>{}}{}\n", "", kLabel, base, "", kLabel, first, "", space, last);
}

std::string xml_escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\n')
      out += c;
  }
  return out;
}

std::string svg_chart(const Chart& chart, int width, int height) {
  const ChartAxis ax = axis_over(chart, false), ay = with_margin(axis_over(chart, true));
  const double left = 64, right = width - 16.0, top = 34, bottom = height - 38.0;
  auto px = [&](double x) { return left + x * (right - left); };
  auto py = [&](double y) { return bottom - y * (bottom - top); };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n<text x=\"{2}\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{3}</text>\n",
      width, height, left, xml_escaped(chart.title));
  for (double t : axis_ticks(ay, 5)) {
    const double y = py(ay.axis_position(t));
    out += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"#dddddd\"/><text x=\"{}\" y=\"{:.2f}\" text-anchor=\"end\">{}</text>\n",
        left, right, y, y, left - 6, y + 4, tick_text(t));
  }
  for (double t : axis_ticks(ax, 7)) {
    const double x = px(ax.axis_position(t));
    out += fmt::format(
        "<line x1=\"{:.2f}\" x2=\"{:.2f}\" y1=\"{}\" y2=\"{}\" stroke=\"#888888\"/><text x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
        x, x, bottom, bottom + 4, x, bottom + 18, tick_text(t));
  }
  out += fmt::format(
      "<text x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888888\"/>\n",
      (left + right) / 2, height - 6, xml_escaped(chart.x_label), left, top, right - left, bottom - top);
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const char* colour = kColours[s % kColours.size()];
    std::string path;
    bool pen = false;
    for (const ChartPoint& p : thinned(chart.series[s], ax, ay, static_cast<int>(right - left))) {
      if (std::isfinite(p.y)) path += fmt::format("{}{:.2f} {:.2f}", pen ? " L" : " M", px(p.x), py(p.y));
      if (std::isfinite(p.y) && !pen) path += fmt::format(" h0.01");  // makes a single point visible
      pen = std::isfinite(p.y);
    }
    out += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\" stroke-linecap=\"round\"><title>{}</title></path>\n",
        path.empty() ? "" : path.substr(1), colour, xml_escaped(chart.series[s].name));
  }
  if (chart.series.size() > 1) out += legend(chart, left, right, top);
  return out + "</svg>\n";
}

namespace {

constexpr int kPageWidth = 720, kPageHeight = 300;  // of one chart

}  // namespace

std::string svg_page(const std::vector<Chart>& charts) {
  std::string out =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n",
                  kPageWidth, kPageHeight * static_cast<int>(charts.size()));
  for (size_t i = 0; i < charts.size(); ++i)
    out += fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", kPageHeight * static_cast<int>(i),
                       svg_chart(charts[i], kPageWidth, kPageHeight));
  return out + "</svg>\n";
}

std::string html_page(const std::string& title, const std::vector<Chart>& charts) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>body{{font-family:sans-serif;margin:1em;background:#fff;color:#000}}svg{{max-width:100%;height:auto}}</style></head>\n<body><h1>{0}</h1>\n",
      xml_escaped(title));
  for (const Chart& c : charts) out += svg_chart(c, kPageWidth, kPageHeight);
  return out + "</body></html>\n";
}

}  // namespace ravine
