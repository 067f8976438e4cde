// Compares one short training on many layouts with one rank: losses, gradient norms and final weights. Both must be
// equal bit for bit. Tensor parallelism splits sums: with it the difference must be within the bound of reordered sums.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "config/config.h"
#include "kernels/backend.h"

namespace ravine {

// A fault that a test injects in one layout, which check_layouts() must detect. sum: two micro batches swap places in
// the tree of leaves. cut: two weights swap places. mask: one label is ignored.
enum class LayoutFault : uint8_t { sum, cut, mask };
constexpr auto names_of(LayoutFault) {
  using enum LayoutFault;
  return std::to_array<ValueName<LayoutFault>>({{sum, "sum"}, {cut, "cut"}, {mask, "mask"}});
}

// The options of check_layouts, which compares short trainings on several layouts with one rank.
struct LayoutsOptions {
  int64_t steps = 3;
  std::optional<LayoutFault> inject;  // adds a case with this fault, which must differ
};

// The comparison of one layout with the run of one rank: a result of check_layouts().
struct LayoutResult {
  std::string name;                                  // "data 2 x pipeline 2, ZeRO 1"
  bool bitwise = true;                               // true if equal bits are required
  bool losses = true, norms = true, weights = true;  // true if equal bit for bit
  // Relative difference in the first step: the larger one of loss and gradient norm.
  double difference = 0;
  double bound = 0;   // largest allowed `difference` if not `bitwise`
  std::string first;  // the first difference, as text
  bool kept() const { return bitwise ? losses && norms && weights : difference <= bound; }
};

// Runs a short training with `config` on one rank and on many layouts of ranks, and compares each layout with one rank.
// All ranks of `world` call it together; null: one process, which has few layouts. A layout uses the first ranks, and
// the others wait. A batch has eight micro batches and eight leaves. Rank 0 has the results, and calls `done` after
// each layout. Without data.train the tokens are random. Layouts that do not fit the model are not run.
std::vector<LayoutResult> check_layouts(const Config& config, Backend backend, World* world, const LayoutsOptions& options,
                                        const std::function<void(const LayoutResult&)>& done);

}  // namespace ravine
