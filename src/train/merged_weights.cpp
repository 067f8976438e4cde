#include "train/merged_weights.h"

#include "base/parallel.h"
#include "files/convert.h"

namespace ravine {
namespace {

constexpr std::string_view kDown = ".lora_A.weight", kUp = ".lora_B.weight", kTableDown = ".lora_embedding_A.weight",
                           kTableUp = ".lora_embedding_B.weight";

std::vector<double> numbers(const TensorView& v) {
  require(v.contiguous() && v.data, "merge: weights are whole and in one run");
  std::vector<double> out(static_cast<size_t>(v.count()));
  convert(v.dtype, v.data, DType::f64, out.data(), v.count());
  return out;
}

}  // namespace

MergedWeights::MergedWeights(WeightSource& source, const Model& model, const LoraSettings& lora)
    : source_(source), model_(model), specs_(adapter_specs(model, lora)) {}

// Host work, once: computes the merged weights of a unit.
void MergedWeights::acquire(const Unit& unit) {
  source_.acquire(unit);
  if (open_ == &unit) return;
  open_ = &unit;
  sums_.clear();
  std::map<std::string, const Param*> by_name;
  for (const Param* p : unit.params) by_name[p->name] = p;
  const Param* down = nullptr;
  for (const Param* p : unit.params) {
    const bool table = p->name.ends_with(kTableUp);
    if (!table && !p->name.ends_with(kUp)) continue;
    const std::string module = p->name.substr(0, p->name.size() - (table ? kTableUp : kUp).size());
    if (const auto own = by_name.find(module + std::string(table ? kTableDown : kDown)); own != by_name.end())
      down = own->second;
    // a module without its own A shares the A of the previous module
    const Param* weight = by_name.at(module + ".weight");
    // W + scale * left right, by rows of W. A linear module has B [out, r] and A [r, in]. An embedding has the table A
    // [V, r] and B [C, r], transposed.
    const Param *left = table ? down : p, *right = table ? p : down;
    const std::vector<double> l = numbers(source_.master(*left)), r = numbers(source_.master(*right));
    std::vector<double> w = numbers(source_.master(*weight));
    const int64_t rank = left->shape[1], cols = weight->shape[1];
    const double scale = specs_.at(module).scale;
    parallel_for(left->shape[0], [&](int64_t i) {
      std::vector<double> row(static_cast<size_t>(cols));
      for (int64_t k = 0; k < rank; ++k) {
        const double by = l[static_cast<size_t>(i * rank + k)];
        for (int64_t c = 0; c < cols; ++c)
          row[static_cast<size_t>(c)] += by * r[static_cast<size_t>(table ? c * rank + k : k * cols + c)];
      }
      for (int64_t c = 0; c < cols; ++c) w[static_cast<size_t>(i * cols + c)] += scale * row[static_cast<size_t>(c)];
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
