// Which part of a text is held out for validation.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace ravine {

// Documents whose hash is below `threshold` are held out, so that equal documents go the same way. Where documents are few that
// share may be missed by far; then documents of hash `cut` give their ends too, `tail` bytes each.
struct HeldOut {
  uint64_t threshold = 0;
  uint64_t cut = 0;
  int64_t tail = 0;  // 0: no document is cut
};

struct DocumentSize {
  uint64_t hash;
  int64_t bytes;
};

// By hash alone: share * 2^64.
HeldOut hold_out_documents(double share);
// For documents of which those below hold_out_documents(share) are less than half or more than twice `share` of the bytes:
// whole documents by ascending hash as far as the share goes, of the next one the end. `documents` may come in any order; not
// empty.
HeldOut hold_out_bytes(std::vector<DocumentSize> documents, double share);
// Whether what documents of these sizes hold out by `plan` is within half and twice the share.
bool holds_share(const std::vector<DocumentSize>& documents, const HeldOut& plan, double share);

// Where a document whose last `tail` bytes are held out is cut: behind a blank line, else a line, a space or a character,
// whichever of these is nearest to that place, with half to twice as much behind it. Above 0 and below the size; 0 if the
// document is too short to be cut (two characters).
int64_t held_out_begin(std::string_view text, int64_t tail);

}  // namespace ravine
