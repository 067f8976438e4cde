#include "io/convert/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/counted.h"
#include "base/text.h"

namespace ravine {
namespace {

// Returns the smallest magnitude that rounds to infinity; infinity itself if no finite value does.
double beyond_of(DType from, DType to) {
  if (to == DType::f16) return 65520;                                                           // 2^16 - 2^4
  if (to == DType::bf16 && from != DType::bf16) return std::ldexp(2 - std::ldexp(1, -8), 127);  // 2^128 - 2^119
  if (to == DType::f32 && from == DType::f64) return std::ldexp(2 - std::ldexp(1, -24), 127);
  return std::numeric_limits<double>::infinity();
}

// Calls f(index, magnitude) for each element whose magnitude is not below `limit` (NaN included).
template <class F>
void each_beyond(DType type, std::span<const std::byte> bytes, double limit, F&& f) {
  visit_float(type, [&](auto zero) {
    using T = decltype(zero);
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto count = static_cast<int64_t>(bytes.size() / sizeof(T));
    for (int64_t i = 0; i < count; ++i) {
      T x;
      std::memcpy(&x, bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
      const auto size = static_cast<double>(std::fabs(static_cast<Wide>(x)));
      if (!(size < limit)) f(i, size);
    }
  });
}

class FiniteElements : public Elements {
 public:
  FiniteElements(ElementsPtr from, std::string rule, std::string fix)
      : Elements(from->dtype(), from->shape()), from_(std::move(from)), rule_(std::move(rule)), fix_(std::move(fix)) {}
  void read(int64_t begin, std::span<std::byte> into) const override {
    from_->read(begin, into);
    each_beyond(dtype(), into, std::numeric_limits<double>::infinity(), [&](int64_t i, double size) {
      throw UserError(fmt::format("element {} is {}", begin + i, std::isnan(size) ? "NaN" : "infinite"), from_->where(), rule_,
                      fix_);
    });
  }
  std::string where() const override { return from_->where(); }
  void files(std::set<std::string>& paths) const override { from_->files(paths); }

 private:
  ElementsPtr from_;
  std::string rule_, fix_;
};

}  // namespace

class CountedElements : public Elements {
 public:
  CountedElements(ElementsPtr from, DType written, LostNumbers& lost)
      : Elements(from->dtype(), from->shape()), from_(std::move(from)), written_(written), lost_(lost) {}
  void read(int64_t begin, std::span<std::byte> into) const override {
    from_->read(begin, into);
    int64_t bad = 0, beyond = 0;
    each_beyond(dtype(), into, beyond_of(dtype(), written_),
                [&](int64_t, double size) { ++(std::isfinite(size) ? beyond : bad); });
    if (bad + beyond > 0) lost_.add(from_->where(), written_, bad, beyond);
  }
  std::string where() const override { return from_->where(); }
  void files(std::set<std::string>& paths) const override { from_->files(paths); }

 private:
  ElementsPtr from_;
  DType written_;
  LostNumbers& lost_;
};

ElementsPtr finite(ElementsPtr from, const std::string& rule, const std::string& fix) {
  return is_float(from->dtype()) ? std::make_shared<FiniteElements>(std::move(from), rule, fix) : from;
}

ElementsPtr LostNumbers::counted(ElementsPtr from, DType written) {
  return is_float(from->dtype()) && is_float(written) ? std::make_shared<CountedElements>(std::move(from), written, *this)
                                                      : from;
}

void LostNumbers::add(const std::string& where, DType written, int64_t bad, int64_t beyond) {
  std::lock_guard lock(mutex_);
  for (auto [count, n] : {std::pair{&bad_, bad}, {beyond > 0 ? &beyond_[written] : nullptr, beyond}}) {
    if (n == 0) continue;
    count->numbers += n;
    if (count->seen.size() < 1000) count->seen.insert(where);  // enough for a message
  }
}

std::vector<std::string> LostNumbers::notes() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  auto of = [](const Count& c) {
    return fmt::format("{} of {}{}, the first {}", ravine::counted(c.numbers, "number"),
                       c.seen.size() < 1000 ? "" : "at least ", ravine::counted(static_cast<int64_t>(c.seen.size()), "tensor"),
                       *c.seen.begin());
  };
  if (bad_.numbers > 0) out.push_back(fmt::format("NaN or infinite in the input, and written so: {}", of(bad_)));
  for (const auto& [type, count] : beyond_)
    out.push_back(fmt::format("beyond the range of {}, and infinite now: {}{}", name(type), of(count),
                              type == DType::f16 ? "; bf16 has room for them" : ""));
  return out;
}

}  // namespace ravine
