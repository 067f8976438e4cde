#include "data/held_out.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ravine {

HeldOut hold_out_documents(double share) { return {.threshold = static_cast<uint64_t>(std::ldexp(share, 64))}; }

namespace {

double bytes_of(const std::vector<DocumentSize>& documents) {
  double all = 0;
  for (const DocumentSize& d : documents) all += static_cast<double>(d.bytes);
  return all;
}

}  // namespace

bool holds_share(const std::vector<DocumentSize>& documents, const HeldOut& plan, double share) {
  double held = 0;
  for (const DocumentSize& d : documents)
    if (d.hash < plan.threshold) held += static_cast<double>(d.bytes);
  const double wanted = share * bytes_of(documents);
  return 2 * held >= wanted && held <= 2 * wanted;
}

HeldOut hold_out_bytes(std::vector<DocumentSize> documents, double share) {
  std::sort(documents.begin(), documents.end(), [](const DocumentSize& a, const DocumentSize& b) { return a.hash < b.hash; });
  double left = share * bytes_of(documents);
  for (size_t i = 0; i < documents.size();) {
    size_t end = i;  // equal documents are treated alike
    double bytes = 0;
    for (; end < documents.size() && documents[end].hash == documents[i].hash; ++end)
      bytes += static_cast<double>(documents[end].bytes);
    if (bytes > left) {
      const auto tail = static_cast<int64_t>(std::llround(left / static_cast<double>(end - i)));
      return {.threshold = documents[i].hash, .cut = documents[i].hash, .tail = std::max<int64_t>(1, tail)};
    }
    left -= bytes;
    i = end;
  }
  return {.threshold = documents.back().hash};
}

int64_t held_out_begin(std::string_view text, int64_t tail) {
  const auto size = static_cast<int64_t>(text.size());
  if (size < 2) return 0;
  const int64_t wanted = std::clamp<int64_t>(size - tail, 1, size - 1);
  const int64_t first = std::max<int64_t>(1, size - 2 * tail), last = std::min(size - 1, size - (tail + 1) / 2);
  auto at = [&](int64_t i) { return text[static_cast<size_t>(i)]; };
  int64_t best = 0;
  int best_kind = 0;
  for (int64_t i = first; i <= last; ++i) {
    int kind = 0;
    if (at(i - 1) == '\n')
      kind = i > 1 && (at(i - 2) == '\n' || (at(i - 2) == '\r' && i > 2 && at(i - 3) == '\n')) ? 4 : 3;
    else if (at(i - 1) == ' ')
      kind = 2;
    else if ((static_cast<unsigned char>(at(i)) & 0xc0) != 0x80)
      kind = 1;
    if (kind > best_kind || (kind == best_kind && kind > 0 && std::llabs(i - wanted) < std::llabs(best - wanted)))
      best = i, best_kind = kind;
  }
  return best;
}

}  // namespace ravine
