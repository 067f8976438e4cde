// Seam S1: a table of kernels over small argument structs. All arithmetic on tensors runs through it. Backends (ref,
// cpu, meta) fill it.
//
// Letters: N tokens of a micro batch (ragged, all sequences concatenated: N = B T for B rows of T tokens); C channels
// (hidden size); H heads, G key/value heads, D head size, E head size of values if it differs; F width of the MLP
// (intermediate size), V vocabulary. With experts (moe.h): E experts, K experts chosen for a token, R rows of experts.
// Activations are [N, C].
//
// Every argument struct has a name, lists its tensors with each(f(name, view, access)) and counts its flops(). So meta,
// precision rules, fault injection and profiles work for all kernels. An absent tensor (rank 0) is allowed only if the
// struct's comment says that it is optional. settings(f(name, number)) lists the numbers of the formula. A dump
// compares the calls of two runs by them; numbers that depend on the layout are not listed.
//
// Types: ref takes any mix of f64, f32, bf16, f16. cpu takes f32, bf16, f16, unless a struct says otherwise; its
// statistics (rstd, lse), weight gradients and optimizer state are f32. Arithmetic is in f32 or wider (ref: f64),
// rounded once when stored.
//
// Rooms above this one touch the elements of tensors only through Ctx::call, or have a comment with "Host work"
// (tests/e2e/arithmetic_rule.py).
//
// Determinism: results have the same bits for any number of threads. Sums over tokens run in chunks of at most 1024
// tokens, in order.
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

// The functions of one kernel in a backend: run, and the size of its workspace. workspace returns the bytes of scratch
// memory for arguments of this size and this number of threads. The number is monotone in the number of tokens, and
// does not depend on segments. If run is null, the backend has no such kernel, and the op runs its unfused definition.
template <class Args>
struct Kernel {
  void (*run)(const Args& args, void* workspace) = nullptr;
  int64_t (*workspace)(const Args& args, int threads) = nullptr;
};

// The type of the table of all kernels. Each backend defines `Kernel<Args>` for each (ref::kernel_of, cpu_kernel); a
// missing kernel does not link.
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

  // Returns the kernel for an argument struct: kernels.of<Matmul>().
  template <class Args>
  const Kernel<Args>& of() const {
    return std::get<Kernel<Args>>(table);
  }
  template <class Args>
  Kernel<Args>& of() {
    return std::get<Kernel<Args>>(table);
  }
  // Calls f(kernel) for each kernel of the table.
  template <class F>
  void each(F&& f) {
    std::apply([&](auto&... entry) { (f(entry), ...); }, table);
  }
  template <class F>
  void each(F&& f) const {
    std::apply([&](const auto&... entry) { (f(entry), ...); }, table);
  }
};

// True if this CPU has the dot product of bf16, so that Bf16Products::dot is possible. Both ways of multiplying take
// bf16 and sum in f32; kernels/cpu/bf16_dot.h says where bits differ. Products with few rows always widen, in attention
// too.
bool cpu_has_bf16_dot();
const char* cpu_instruction_set();  // "avx512", "avx2" or "scalar"

Kernels ref_kernels();                                             // the reference: plain loops, f64 accumulation
Kernels cpu_kernels(Bf16Products products = Bf16Products::widen);  // picks the instruction set of this machine
// Returns the kernels of the meta device: the same entries and workspace sizes as `like`, without arithmetic.
Kernels meta_kernels(const Kernels& like);

}  // namespace ravine
