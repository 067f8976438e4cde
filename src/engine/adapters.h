// The LoRA adapters (Hu et al. 2021, as PEFT defines them) that the layers of a model declare. Also: the rows of a
// batch that use the adapters of another model.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ravine {

struct Param;
class WeightSource;

// The LoRA adapters of one linear layer. Each A is [r, in]; all A are joined in memory. Each B is [out, r], for one of
// the layer's joined weights.
struct LoraAdapters {
  struct Up {
    size_t adapter;  // index of its A in `a`
    Param* b;
    size_t weight;  // index in the layer's joined weights: B adds to the outputs of this weight
  };
  std::vector<Param*> a;
  std::vector<double> scale;    // the factor of each adapter: alpha / rank, or alpha / sqrt(rank)
  std::vector<Up> ups;          // in the order of the adapters
  std::vector<double> dropout;  // probability for each A
};

// The LoRA adapters of all linear layers of a model, by the name of the layer's weight (of joined weights: the first).
// The address of an entry does not change.
class AdapterSet {
 public:
  const LoraAdapters& add(const Param& weight, LoraAdapters adapters);
  const LoraAdapters* adapters_of(const Param& weight) const;  // the adapters of the layer; null: none
  size_t parameters() const;                                   // number of A and B in all layers
  const std::map<std::string, LoraAdapters>& layers() const { return layers_; }

 private:
  std::map<std::string, LoraAdapters> layers_;
};

// Rows of a generation batch that use the LoRA adapters of another model. The model that runs has no adapters; apart
// from these the two models are equal.
struct AdapterRows {
  int64_t begin = 0, count = 0;              // rows among the batch's tokens
  int64_t logit_begin = 0, logit_count = 0;  // rows among the batch's logit_rows
  const AdapterSet* adapters = nullptr;
  const WeightSource* weights = nullptr;  // weights of the other model, all resident
};

}  // namespace ravine
