#include "train/merged_weights.h"

#include "base/parallel.h"
#include "files/convert.h"

namespace ravine {
namespace {

constexpr std::string_view kDown = ".lora_A.weight", kUp = ".lora_B.weight";

std::vector<double> numbers(const TensorView& v) {
  require(v.contiguous() && v.data, "merge: weights are whole and in one run");
  std::vector<double> out(static_cast<size_t>(v.count()));
  convert(v.dtype, v.data, DType::f64, out.data(), v.count());
  return out;
}

}  // namespace

MergedWeights::MergedWeights(WeightSource& source, const Model& model, const LoraSettings& lora)
    : source_(source), model_(model), specs_(adapter_specs(model, lora)) {}

// Host work, once: the sums of a unit.
void MergedWeights::acquire(const Unit& unit) {
  source_.acquire(unit);
  if (open_ == &unit) return;
  open_ = &unit;
  sums_.clear();
  std::map<std::string, const Param*> by_name;
  for (const Param* p : unit.params) by_name[p->name] = p;
  const Param* down = nullptr;
  for (const Param* p : unit.params) {
    if (!p->name.ends_with(kUp)) continue;
    const std::string module = p->name.substr(0, p->name.size() - kUp.size());
    if (const auto own = by_name.find(module + std::string(kDown)); own != by_name.end()) down = own->second;
    const Param* weight = by_name.at(module + ".weight");  // without an A of its own it shares that of the module before it
    const std::vector<double> a = numbers(source_.master(*down)), b = numbers(source_.master(*p));
    std::vector<double> w = numbers(source_.master(*weight));
    const int64_t rank = p->shape[1], cols = down->shape[1];
    const double scale = specs_.at(module).scale;
    parallel_for(p->shape[0], [&](int64_t r) {
      std::vector<double> row(static_cast<size_t>(cols));
      for (int64_t k = 0; k < rank; ++k) {
        const double by = b[static_cast<size_t>(r * rank + k)];
        for (int64_t c = 0; c < cols; ++c) row[static_cast<size_t>(c)] += by * a[static_cast<size_t>(k * cols + c)];
      }
      for (int64_t c = 0; c < cols; ++c) w[static_cast<size_t>(r * cols + c)] += scale * row[static_cast<size_t>(c)];
    });
    sums_[weight] = std::move(w);
  }
}

TensorView MergedWeights::master(const Param& p) const {
  const auto it = sums_.find(&p);
  if (it == sums_.end()) return source_.master(p);
  return view_of(const_cast<double*>(it->second.data()), DType::f64, p.shape);
}

}  // namespace ravine
