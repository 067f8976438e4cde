// Selects the part of the text that is held out for validation.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace ravine {

// A rule of which text is held out. Documents whose hash is below `threshold` are held out, so equal documents are
// treated alike. With few documents this can miss the share by far. Then the last `tail` bytes of each document with
// hash `cut` are held out too.
struct HeldOut {
  uint64_t threshold = 0;
  uint64_t cut = 0;
  int64_t tail = 0;  // 0: no document is cut
};

struct DocumentSize {
  uint64_t hash;
  int64_t bytes;
};

// Returns the rule by hash alone: threshold = share * 2^64.
HeldOut hold_out_documents(double share);
// Returns the rule by hash and bytes. Used if hold_out_documents(share) holds out less than half or more than twice the
// share. Whole documents are held out by ascending hash, up to the share; of the next one the end is held out.
// documents: in any order, not empty.
HeldOut hold_out_bytes(std::vector<DocumentSize> documents, double share);
// True if `plan` holds out between half and twice the share of these documents.
bool holds_share(const std::vector<DocumentSize>& documents, const HeldOut& plan, double share);

// Returns the byte at which a document is cut if its last `tail` bytes are held out. The cut is after a blank line,
// else after a line, a space or a character; among these, the cut is the nearest to the wanted byte. Between half and
// twice of `tail` bytes follow it. The result is above 0 and below the size; 0 if the document is too short (two
// characters).
int64_t held_out_begin(std::string_view text, int64_t tail);

}  // namespace ravine
