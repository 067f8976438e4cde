// What a terminal can show.
#pragma once

namespace ravine {

// Whether escape codes mean something on this descriptor: it is a terminal, and TERM does not call it dumb.
bool takes_escape_codes(int fd);
// And whether its user wants colours (NO_COLOR, https://no-color.org, is not set).
bool shows_colour(int fd);

}  // namespace ravine
