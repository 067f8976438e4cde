#include "io/convert/merge_adapter.h"

#include "files/convert.h"
#include "io/adapter_source.h"
#include "io/adapter_weights.h"
#include "io/convert/elements_file.h"
#include "io/convert/finite.h"
#include "io/convert/kept_matrix.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

std::vector<double> numbers(const Elements& e) {
  std::vector<std::byte> bytes(static_cast<size_t>(e.count() * size_of(e.dtype())));
  e.read(0, bytes);
  std::vector<double> out(static_cast<size_t>(e.count()));
  convert(e.dtype(), bytes.data(), DType::f64, out.data(), e.count());
  return out;
}

// Host work: w [out, in] + scale * b [out, r] a [r, in], in f64, rounded to `to`. a and b are small and read at once.
class LowRankSum : public Elements {
 public:
  LowRankSum(ElementsPtr w, const ElementsPtr& a, const ElementsPtr& b, double scale, DType to)
      : Elements(to, w->shape()), w_(std::move(w)), a_(numbers(*a)), b_(numbers(*b)), rank_(a->shape()[0]), scale_(scale) {
    a->files(files_), b->files(files_);
  }
  void read(int64_t begin, std::span<std::byte> into) const override {
    const int64_t n = static_cast<int64_t>(into.size()) / size_of(dtype()), cols = shape()[1];
    std::vector<std::byte> stored(static_cast<size_t>(n * size_of(w_->dtype())));
    w_->read(begin, stored);
    std::vector<double> sum(static_cast<size_t>(n)), row(static_cast<size_t>(cols));
    convert(w_->dtype(), stored.data(), DType::f64, sum.data(), n);
    for (int64_t at = begin; at < begin + n;) {
      const int64_t r = at / cols, first = at % cols, end = std::min(cols, first + begin + n - at);
      std::fill(row.begin() + first, row.begin() + end, 0.0);
      for (int64_t k = 0; k < rank_; ++k) {
        const double b = b_[static_cast<size_t>(r * rank_ + k)];
        const double* a = a_.data() + k * cols;
        for (int64_t c = first; c < end; ++c) row[static_cast<size_t>(c)] += b * a[c];
      }
      for (int64_t c = first; c < end; ++c)
        sum[static_cast<size_t>(at - begin + c - first)] += scale_ * row[static_cast<size_t>(c)];
      at += end - first;
    }
    convert(DType::f64, sum.data(), dtype(), into.data(), n);
  }
  std::string where() const override { return fmt::format("{} + {} B A", w_->where(), scale_); }
  void files(std::set<std::string>& paths) const override {
    w_->files(paths);
    paths.insert(files_.begin(), files_.end());
  }

 private:
  ElementsPtr w_;
  std::vector<double> a_, b_;
  int64_t rank_;
  double scale_;
  std::set<std::string> files_;
};

ElementsPtr in_range(const ElementsPtr& merged) {
  return finite(merged,
                fmt::format("with the adapter it is beyond the range of {}, the type of the base", name(merged->dtype())),
                "check that the adapter is one of this base, and lora_alpha in its adapter_config.json");
}

constexpr std::string_view kTable = ".lora_embedding_A.weight";

// Separates a tied head from the embedding because of an adapter: the head gets its own weights, `table`.
void untie(Weights& weights, const ElementsPtr& table) {
  if (weights.tensors.contains(kHead)) return;
  weights.add(kHead, table);
  weights.config["tie_word_embeddings"] = false;
  weights.notes.push_back("the head, which was tied to the embedding, is stored beside it: the adapter makes them differ");
}

void merge_embedding(Weights& weights, const Weights& parts, const std::string& module,
                     const std::map<std::string, AdapterSpec>& specs, DType type) {
  ElementsPtr& table = weights.tensors.at(module + ".weight");
  table = in_range(std::make_shared<LowRankSum>(table, transposed(parts.tensors.at(module + ".lora_embedding_B.weight")),
                                                parts.tensors.at(module + std::string(kTable)), specs.at(module).scale, type));
}

// Replaces the matrices of linear layers by their values under `base`; returns the type that each tensor is rounded to.
std::map<std::string, DType> keep(Weights& weights, Model& model, std::optional<BaseStorage> base, std::optional<DType> type) {
  std::map<std::string, DType> types;
  for (const auto& [name, e] : weights.tensors) types[name] = type && size_of(*type) > size_of(e->dtype()) ? *type : e->dtype();
  if (!base) return types;
  keep_base(model, *base);
  const Nf4Matrices blocks;
  for (const Param& p : model.params().params()) {
    const auto at = weights.tensors.find(p.name);
    if (at == weights.tensors.end()) continue;
    if (p.policy.kept == Kept::nf4) at->second = blocks.values(at->second);
    if (p.policy.kept == Kept::bf16) at->second = as_type(at->second, DType::bf16);
  }
  return types;
}

}  // namespace

void merge_adapter(Weights& weights, const Geometry& g, const std::string& adapter, std::optional<BaseStorage> base,
                   std::optional<DType> type) {
  const LoraSettings lora = adapter_settings(adapter, *g.model);
  const std::unique_ptr<Model> model = with_adapter_of(adapter, *g.model);
  Weights parts;
  const std::shared_ptr<const TensorFile> file = std::move(open_adapter(adapter, *g.model).files[0]);
  const std::string rule = "weights are finite numbers";
  for (const TensorInfo& t : file->tensors())
    parts.add(t.name, finite(elements_of(file, t), rule, "take a checkpoint of the adapter from before its training failed"));
  for (auto& [name, e] : weights.tensors) e = finite(e, rule, "use a base whose weights are whole");
  from_files(parts, adapter_files_in(*file, *model), adapter);
  if (const int64_t rows = model->facts().vocabulary; rows != g.vocabulary)
    set_vocabulary(weights.config, g.spec().implied, rows);
  std::map<std::string, AdapterSpec> specs = adapter_specs(*g.model, lora);
  const ElementsPtr table = weights.tensors.at(kEmbedding);
  const auto stored = parts.tensors.find(kEmbedding);  // a table that stays tied next to the adapter is also the head's
  if (parts_tables(*g.model, lora))
    untie(weights,
          stored != parts.tensors.end() && is_tied(*model) ? in_range(as_type(stored->second, table->dtype())) : table);
  const std::map<std::string, DType> types = keep(weights, *model, base, type);
  ElementsPtr down;
  for (const Param& p : model->params().params()) {
    constexpr std::string_view kUp = ".lora_B.weight", kDown = ".lora_A.weight";
    const auto found = parts.tensors.find(p.name);
    if (found == parts.tensors.end()) continue;
    if (!p.adapter) {
      weights.tensors[p.name] = in_range(as_type(found->second, weights.tensors.at(p.name)->dtype()));
      continue;
    }
    if (p.name.ends_with(kTable)) {
      merge_embedding(weights, parts, p.name.substr(0, p.name.size() - kTable.size()), specs,
                      types.at(p.name.substr(0, p.name.size() - kTable.size()) + ".weight"));
      continue;
    }
    if (!p.name.ends_with(kUp)) continue;
    const std::string module = p.name.substr(0, p.name.size() - kUp.size());
    if (const auto own = parts.tensors.find(module + std::string(kDown)); own != parts.tensors.end()) down = own->second;
    // Without its own A it shares the A of the module before it.
    ElementsPtr& w = weights.tensors.at(module + ".weight");
    w = in_range(std::make_shared<LowRankSum>(w, down, found->second, specs.at(module).scale, types.at(module + ".weight")));
  }
  for (const auto& [name, type] : types) {
    ElementsPtr& e = weights.tensors.at(name);
    if (e->dtype() != type) e = as_type(e, type);
  }
  weights.adapter = adapter;
}

}  // namespace ravine
