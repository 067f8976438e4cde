// What this process does when its streams break, when a limit on file sizes is met, and when a file that it has mapped is cut
// short.
#pragma once

namespace ravine {

// Once, before anything is opened:
// - of the descriptors 0, 1 and 2 those that are closed become /dev/null, opened the wrong way round: no file of ours lands
//   there, and using them stays the error that it was;
// - SIGXFSZ is ignored: a write past `ulimit -f` fails as on a full disk;
// - a mapped file that is cut short ends the process with a line that names it (files/mapped_file.h);
// - SIGPIPE ends the process, as it ends other filters, where stdout is what broke, and is ignored where it was stderr or a
//   socket.
void prepare_streams();

// From now on a broken stdout ends nothing either: for commands whose work is what they write to disk.
void outlive_streams();

// Flushes stdout. A reader that went away ends the process quietly, by SIGPIPE as coreutils end; anything else that was lost is
// an Error. Of a lasting command only what it had to say is lost, its work is done: where the reader went away that is said on
// stderr, and is no failure.
void finish_output(bool lasting);

}  // namespace ravine
