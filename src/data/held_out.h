// Selects the part of the text that is held out for validation.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace ravine {

// A rule that selects the text held out for validation. A document whose hash is below `threshold` is held out, so
// equal documents are treated alike. With few documents this can miss the wanted share by far. Then the last `tail`
// bytes of each document with hash `cut` are held out too.
struct HeldOut {
  uint64_t threshold = 0;
  uint64_t cut = 0;
  int64_t tail = 0;  // 0: no document is cut
};

struct DocumentSize {
  uint64_t hash;
  int64_t bytes;
};

// Returns the rule that holds out whole documents by their hash alone: threshold = share * 2^64. share: the wanted
// share of the text, 0 to 1.
HeldOut hold_out_documents(double share);
// Returns the rule that holds out a share of the bytes of these documents. Used if hold_out_documents(share) holds out
// less than half or more than twice the share. Whole documents are held out by ascending hash, as long as they fit in
// the share. Of the next document, only the end is held out. documents: in any order, at least one.
HeldOut hold_out_bytes(std::vector<DocumentSize> documents, double share);
// True if `plan` holds out between half and twice the share of these documents.
bool holds_share(const std::vector<DocumentSize>& documents, const HeldOut& plan, double share);

// Returns the byte offset at which a document is cut if about its last `tail` bytes are held out. The cut is after a
// blank line, else after a line, a space or a character. Of several such offsets, the nearest to size - tail is taken.
// Between tail / 2 and 2 tail bytes follow the cut. The result is above 0 and below the size. The result is 0 if there
// is no such offset, for example in a document of one character.
int64_t held_out_begin(std::string_view text, int64_t tail);

}  // namespace ravine
