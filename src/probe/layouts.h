// One short training on many layouts of ranks, compared with one rank: losses, gradient norms and final weights, bit for bit
// where that is promised, within the bound of reordered sums where tensor parallelism cuts sums in pieces.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "config/config.h"
#include "kernels/backend.h"

namespace ravine {

// Two micro batches trade places in the tree of leaves; two weights trade places; one label is left out.
enum class LayoutFault : uint8_t { sum, cut, mask };
constexpr auto names_of(LayoutFault) {
  using enum LayoutFault;
  return std::to_array<ValueName<LayoutFault>>({{sum, "sum"}, {cut, "cut"}, {mask, "mask"}});
}

struct LayoutsOptions {
  int64_t steps = 3;
  std::optional<LayoutFault> inject;  // one more case with this fault, which must differ
};

struct LayoutResult {
  std::string name;                                  // "data 2 x pipeline 2, ZeRO 1"
  bool bitwise = true;                               // what is promised
  bool losses = true, norms = true, weights = true;  // equal bit for bit
  double difference = 0;                             // of the first step's loss and norm, relative, the larger
  double bound = 0;                                  // without `bitwise`: what reordered sums may come to
  std::string first;                                 // what differs first, in words
  bool kept() const { return bitwise ? losses && norms && weights : difference <= bound; }
};

// All ranks of the world call it (null: one process alone, which has little to compare); cases use the first ranks and the
// others wait. The batch is eight micro batches, eight leaves. Results are those of rank 0, which gets `done` after each case.
// Without data.train the tokens are random. Layouts that the model does not fit are left out.
std::vector<LayoutResult> check_layouts(const Config& config, Backend backend, World* world, const LayoutsOptions& options,
                                        const std::function<void(const LayoutResult&)>& done);

}  // namespace ravine
