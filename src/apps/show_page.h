// Prints a page on stdout. On a terminal: bold headings, lines wrapped at its width, and a pager for a page longer than
// the screen ($PAGER, else less).
#pragma once
#include <string>

namespace ravine {

void show_page(const std::string& page);

// Returns the page for a terminal of `columns` columns: the second column of a table is wrapped within itself. If
// `bold` is true, headings (a line that ends in a colon, or stands alone before indented lines) are bold.
std::string page_on_terminal(const std::string& page, int columns, bool bold);

}  // namespace ravine
