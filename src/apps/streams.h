// How this process handles broken streams, the limit on file sizes, and mapped files that are cut.
#pragma once

namespace ravine {

// Sets up the process. Called once, before anything is opened:
// - closed descriptors among 0, 1 and 2 become /dev/null in the wrong direction: no file gets their number, and a use
//   of them stays an error;
// - SIGXFSZ is ignored: a write beyond `ulimit -f` fails as on a full disk;
// - a mapped file that is cut ends the process with a line that names it (files/mapped_file.h);
// - SIGPIPE ends the process if stdout is broken, as in other filters. For stderr or a socket SIGPIPE is ignored.
void prepare_streams();

// Lets the process continue after stdout is broken. Called by commands whose result is on the disk.
void outlive_streams();

// Flushes stdout. If its reader is gone, the process ends by SIGPIPE without a message, like coreutils. Other lost
// output is an Error. If `lasting` is true (the result is on the disk), a reader that is gone is no failure: a line on
// stderr says so.
void finish_output(bool lasting);

}  // namespace ravine
