// The capabilities of a terminal.
#pragma once

namespace ravine {

// True if escape codes work on this descriptor: it is a terminal, and TERM is not "dumb".
bool takes_escape_codes(int fd);
// True if escape codes work and the user allows colours: NO_COLOR is not set (https://no-color.org).
bool shows_colour(int fd);

}  // namespace ravine
