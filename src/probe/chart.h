// Line charts: as text for a terminal (Braille dots, 2 x 4 to a cell) and as SVG that needs nothing from outside.
#pragma once
#include <string>
#include <vector>

namespace ravine {

struct Series {
  std::string name;
  std::vector<double> x, y;  // of one length, x ascending; a y that is not finite leaves a gap
};

struct Chart {
  std::string title, x_label;
  bool logarithmic = false;  // y; values of 0 and below leave a gap
  std::vector<Series> series;
};

// Round numbers that cover [low, high], about `count` of them: steps of 1, 2 or 5 times a power of ten.
std::vector<double> round_ticks(double low, double high, int count);

// `columns` wide with the labels of the y axis, `rows` high without title and x axis. Ends with a newline. colour: ANSI colours
// of the series.
std::string terminal_chart(const Chart& chart, int columns, int rows, bool colour);

// One <svg> element of that many pixels. Long series are thinned to the lowest and highest value of each pixel column.
std::string svg_chart(const Chart& chart, int width, int height);

// All charts below one another as one .svg file, or as a page of HTML that needs nothing from outside.
std::string svg_page(const std::vector<Chart>& charts);
std::string html_page(const std::string& title, const std::vector<Chart>& charts);

// Text as XML shows it.
std::string xml_escaped(const std::string& text);

}  // namespace ravine
