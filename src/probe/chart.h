// Line charts: as text for a terminal (Braille dots, 2 x 4 per cell), and as SVG without outside resources.
#pragma once
#include <string>
#include <vector>

namespace ravine {

// One curve of a chart.
struct Series {
  std::string name;
  std::vector<double> x, y;  // the points: both have the same length, x ascends; a y that is not finite is a gap
};

// A chart with several curves.
struct Chart {
  std::string title, x_label;
  bool logarithmic = false;  // true: the y axis is logarithmic, and values of 0 and below are gaps
  std::vector<Series> series;
};

// Returns about `count` round numbers in [low, high] for the ticks of an axis. Their distance is 1, 2 or 5 times a
// power of ten.
std::vector<double> round_ticks(double low, double high, int count);

// Returns a chart as text for a terminal, ending in a newline. columns: width in characters, with the labels of the y
// axis. rows: height in lines, without title and x axis. colour: true gives the curves ANSI colours.
std::string terminal_chart(const Chart& chart, int columns, int rows, bool colour);

// Returns a chart as one <svg> element of this size in pixels. Long curves are reduced to the lowest and highest value
// of each pixel column.
std::string svg_chart(const Chart& chart, int width, int height);

// Return all charts, one below the other: svg_page as the text of an .svg file, html_page as an HTML page without
// outside resources.
std::string svg_page(const std::vector<Chart>& charts);
std::string html_page(const std::string& title, const std::vector<Chart>& charts);

// Returns the text with the special characters of XML escaped.
std::string xml_escaped(const std::string& text);

}  // namespace ravine
