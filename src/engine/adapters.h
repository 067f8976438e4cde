// Adapters (Hu et al. 2021, as PEFT defines them) as the layers of a model declare them, and which rows of a batch go through
// those of a model beside it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ravine {

struct Param;
class WeightSource;

// The adapters of one linear layer. A is [r, in] each, side by side in memory; B is [out, r] for each run of outputs.
struct LoraAdapters {
  struct Up {
    size_t adapter;  // whose A it goes with
    Param* b;
    size_t weight;  // of the layer's joined weights: the outputs that it adds to
  };
  std::vector<Param*> a;
  std::vector<double> scale;  // of each A
  std::vector<Up> ups;        // in order of the adapters
  std::vector<double> dropout;
};

// Those of all linear layers of a model, by the name of the layer's weight (of joined weights the first). They stay where they
// are.
class AdapterSet {
 public:
  const LoraAdapters& add(const Param& weight, LoraAdapters adapters);
  const LoraAdapters* beside(const Param& weight) const;  // null: none
  size_t parameters() const;                              // A and B of all
  const std::map<std::string, LoraAdapters>& layers() const { return layers_; }

 private:
  std::map<std::string, LoraAdapters> layers_;
};

// Rows of a batch for generation that go through the adapters of another model than the one that runs: it has none, and is the
// same otherwise.
struct AdapterRows {
  int64_t begin = 0, count = 0;              // of the batch's tokens
  int64_t logit_begin = 0, logit_count = 0;  // of its logit_rows
  const AdapterSet* adapters = nullptr;
  const WeightSource* weights = nullptr;  // of that model, resident
};

}  // namespace ravine
