// The one door to arithmetic (seam S1): a table of kernels over small argument structs. Backends (ref, cpu, meta) fill it.
//
// Letters: N tokens of a micro batch (ragged, all sequences after another: N = B T for B rows of T tokens), C channels (hidden
// size), H heads, G key/value heads, D head size (E of values, where it differs), F width of the MLP (intermediate size), V
// vocabulary; with experts (moe.h) E experts, K chosen for a token, R rows of experts. Activations are [N, C].
//
// Every argument struct names itself, lists its own tensors with each(f(name, view, access)) and counts its flops(); that makes
// meta, precision rules, fault injection and profiles generic. An absent tensor (rank 0) is optional where said so.
// settings(f(name, number)) lists the numbers of its formula, by which the calls of two runs are told apart in dumps; none that a
// layout changes.
//
// Types: ref takes any mix of f64, f32, bf16, f16. cpu takes f32, bf16, f16 where nothing else is said; statistics (rstd, lse),
// weight gradients and optimizer state are f32 there. Arithmetic is f32 or wider (ref: f64), rounded once on storing.
//
// Rooms above touch the elements of tensors through Ctx::call only, or say "Host work" (tests/e2e/arithmetic_rule.py).
//
// Determinism: same bits for any number of threads. Sums over tokens go in chunks of at most 1024 tokens, in order.
#pragma once
#include <cstdint>
#include <tuple>

#include "config/choices.h"
#include "kernels/activations.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"
#include "kernels/moe.h"
#include "kernels/norms.h"
#include "kernels/products.h"
#include "kernels/updates.h"

namespace ravine {

// An entry: run does the work; workspace says how many bytes of scratch it needs for arguments of this size with so many
// threads (monotone in the number of tokens; independent of where segments begin). Null run: the backend lacks it and the op
// runs its unfused definition.
template <class Args>
struct Kernel {
  void (*run)(const Args& args, void* workspace) = nullptr;
  int64_t (*workspace)(const Args& args, int threads) = nullptr;
};

// Every kernel there is. Each backend has `Kernel<Args>` of each (ref::kernel_of, cpu_kernel): one that is missing does not link.
template <class... Args>
struct KernelList {
  using Table = std::tuple<Kernel<Args>...>;
};
using AllKernels =
    KernelList<EmbeddingForward, EmbeddingBackward, RmsNormForward, RmsNormBackward, LayerNormForward, LayerNormBackward,
               HeadNormForward, HeadNormBackward, RowDot, PartNormForward, PartNormBackward, UnitRowsForward, UnitRowsBackward,
               Matmul, Nf4Matmul, SumRows, GroupedMatmul, RouterChoice, RouterSums, RouterBackward, GatherRows, CombineRows,
               ScaleRows, SigmoidForward, SigmoidBackward, Rope, LatentKeysForward, LatentKeysBackward, AttentionForward,
               AttentionBackward, SoftmaxForward, SoftmaxBackward, SoftCapForward, SoftCapBackward, SwigluForward,
               SwigluBackward, GegluForward, GegluBackward, GeluForward, GeluBackward, Dropout, LossHead, LogSumExp,
               CrossEntropy, Add, Multiply, Cast, Fill, SumSquares, AdamW, Sgd, Lion, Adagrad, WeightedSum, AdamDirection,
               FactoredMoments, FactoredScale, RootScale, Cadam, TimesRoot, LargestRatio, PackSigns, UnpackSigns>;

struct Kernels {
  const char* backend = "";
  const char* instructions = "";  // recorded in checkpoints, since bits depend on them
  AllKernels::Table table;

  // The entry that takes these arguments: kernels.of<Matmul>().
  template <class Args>
  const Kernel<Args>& of() const {
    return std::get<Kernel<Args>>(table);
  }
  template <class Args>
  Kernel<Args>& of() {
    return std::get<Kernel<Args>>(table);
  }
  // f(entry) for each entry.
  template <class F>
  void each(F&& f) {
    std::apply([&](auto&... entry) { (f(entry), ...); }, table);
  }
  template <class F>
  void each(F&& f) const {
    std::apply([&](const auto&... entry) { (f(entry), ...); }, table);
  }
};

// Whether Bf16Products::dot may be asked for. Either way of multiplying takes bf16 and sums in f32; kernels/cpu/bf16_dot.h says
// where bits differ. Products of few rows, in attention too, widen.
bool cpu_has_bf16_dot();
const char* cpu_instruction_set();  // "avx512", "avx2" or "scalar"

Kernels ref_kernels();                                             // plain loops, f64 accumulation: the judge
Kernels cpu_kernels(Bf16Products products = Bf16Products::widen);  // picks the instruction set of this machine
Kernels meta_kernels(const Kernels& like);                         // same entries and workspaces, does nothing

}  // namespace ravine
