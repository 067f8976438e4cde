// A page of text on stdout. A terminal gets bold headings, lines wrapped at its width, and a pager for a page that is
// longer than the screen ($PAGER, else less).
#pragma once
#include <string>

namespace ravine {

void show_page(const std::string& page);

// Returns the page for a terminal of so many columns: the second column of a table is wrapped within itself. bold:
// headings (a line that ends in a colon, or stands alone before lines that are indented) are bold.
std::string page_on_terminal(const std::string& page, int columns, bool bold);

}  // namespace ravine
