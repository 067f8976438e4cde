#include "step/arithmetic.h"

#include <algorithm>

#include "base/error.h"

namespace ravine {

Arithmetic choose_arithmetic(const PrecisionOptions& options, Backend backend, const CpuArithmetic& cpu) {
  Arithmetic out;
  const bool own = backend == Backend::cpu;
  if (!options.compute) {
    const bool bf16 = own && cpu.bf16_faster && options.bf16_products != Bf16Products::widen;
    out.compute = bf16 ? DType::bf16 : DType::f32;
    if (own) out.why = cpu.why;
  } else {
    out.compute = *options.compute;
  }
  check_computes(backend, out.compute);
  if (!own || options.bf16_products == Bf16Products::widen) return out;
  if (!options.bf16_products) {
    if (out.compute != DType::bf16) return out;
    out.products = cpu.products;
    out.why = cpu.why;
    return out;
  }
  if (!cpu.bf16_dot)
    throw UserError("precision.bf16_products=dot", "precision.bf16_products",
                    "this machine has no bf16 dot product (AVX512_BF16)", "choose auto or widen");
  out.products = Bf16Products::dot;
  return out;
}

CpuArithmetic common_arithmetic(const Group& all) {
  CpuArithmetic mine = cpu_arithmetic(cpu_id());
  if (all.size() == 1) return mine;
  const std::vector<int64_t> dots = gather_integers(all, mine.bf16_dot),
                             chosen = gather_integers(all, mine.products == Bf16Products::dot),
                             faster = gather_integers(all, mine.bf16_faster);
  const std::vector<std::string> whys = gather_texts(all, mine.why);
  auto every = [](const std::vector<int64_t>& v) { return std::all_of(v.begin(), v.end(), [](int64_t x) { return x != 0; }); };
  // If ranks differ, the reason is taken from the first rank without dot: it holds for all ranks.
  auto least = std::find(chosen.begin(), chosen.end(), 0);
  return {.bf16_dot = every(dots),
          .products = every(chosen) ? Bf16Products::dot : Bf16Products::widen,
          .bf16_faster = every(faster),
          .why = whys[least == chosen.end() ? 0 : static_cast<size_t>(least - chosen.begin())]};
}

}  // namespace ravine
