#include "io/convert/kept_matrix.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "files/convert.h"
#include "kernels/nf4.h"

namespace ravine {

// The last matrix read, in blocks; `owner` is its source.
struct Nf4Matrices::Last {
  std::mutex mutex;
  const Elements* owner = nullptr;
  std::vector<std::byte> bytes;
  Nf4View blocks;

  // Host work: encodes `w` and keeps its blocks.
  void hold(const Elements& w) {
    if (owner == &w) return;
    owner = nullptr;
    const auto n = static_cast<size_t>(w.count());
    std::vector<std::byte> stored(n * static_cast<size_t>(size_of(w.dtype())));
    std::vector<float> whole(n);
    w.read(0, stored);
    convert(w.dtype(), stored.data(), DType::f32, whole.data(), w.count());
    blocks = nf4_box(w.shape(), w.shape(), {0, 0});
    bytes.assign(static_cast<size_t>(blocks.byte_count()), {});
    blocks.bytes = view_of(bytes.data(), DType::u8, {blocks.byte_count()});
    if (!nf4_encode(whole.data(), blocks))
      throw UserError("values that are not finite", w.where(), "blocks of 4 bits are scaled by the largest value of each",
                      "use a base whose weights are finite");
    owner = &w;
  }
};

namespace {

class Nf4Values : public Elements {
 public:
  template <class Read>
  Nf4Values(ElementsPtr w, Read&& read) : Elements(DType::f32, w->shape()), w_(std::move(w)), read_(std::forward<Read>(read)) {}
  void read(int64_t begin, std::span<std::byte> into) const override { read_(*w_, begin, into); }
  std::string where() const override { return fmt::format("{} in blocks of 4 bits", w_->where()); }
  void files(std::set<std::string>& paths) const override { w_->files(paths); }

 private:
  ElementsPtr w_;
  std::function<void(const Elements& w, int64_t begin, std::span<std::byte> into)> read_;
};

}  // namespace

Nf4Matrices::Nf4Matrices() : last_(std::make_shared<Last>()) {}

ElementsPtr Nf4Matrices::values(ElementsPtr w) const {
  return std::make_shared<Nf4Values>(std::move(w), [last = last_](const Elements& w, int64_t begin, std::span<std::byte> into) {
    const std::lock_guard lock(last->mutex);
    last->hold(w);
    const int64_t cols = w.shape()[1], end = begin + static_cast<int64_t>(into.size() / sizeof(float));
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t at = begin; at < end;) {  // by rows; the first and the last may be partial
      const int64_t first = at % cols, n = std::min(cols - first, end - at);
      nf4_decode(last->blocks, at / cols, 1, first, n, row.data(), cols);
      std::memcpy(into.data() + (at - begin) * static_cast<int64_t>(sizeof(float)), row.data(),
                  static_cast<size_t>(n) * sizeof(float));
      at += n;
    }
  });
}

}  // namespace ravine
