#include "train/resolve.h"

#include <fmt/format.h>

#include "config/count_steps.h"
#include "plan/choose_recompute.h"
#include "plan/decide.h"
#include "plan/estimate.h"
#include "runs/adapter.h"
#include "step/arithmetic.h"

namespace ravine {
namespace {

// Chooses precision.compute, precision.bf16_products and checkpoint.model_dtype. Set options come first, then the
// values of the checkpoint, then the CPUs of all ranks and the type of the initial weights.
void choose_types(RunSpec& spec, const RunFacts& facts) {
  PrecisionOptions& p = spec.options.precision;
  const PrecisionOptions given = p;
  if (facts.was) keep_choices(spec.options, *facts.was, facts.backend, facts.cpu);
  const bool kept = p.compute != given.compute || p.bf16_products != given.bf16_products;
  const Arithmetic chosen = choose_arithmetic(p, facts.backend, facts.cpu);
  p.compute = chosen.compute;
  if (chosen.compute == DType::bf16 && facts.backend == Backend::cpu) p.bf16_products = chosen.products;
  spec.types = Types::of(chosen.compute, p.gradients);
  if (kept || !chosen.why.empty())
    spec.why =
        fmt::format("{}{}: {}", name(chosen.compute),
                    chosen.compute == DType::bf16 ? fmt::format(", products by {}", name_or(p.bf16_products, kAuto)) : "",
                    kept ? "as in " + facts.was->checkpoint : chosen.why);
  if (!spec.options.checkpoint.model_dtype) {
    const std::optional<DType> type = facts.weights_type;
    spec.options.checkpoint.model_dtype = type && (type == DType::bf16 || type == DType::f16) ? *type : DType::f32;
  }
  spec.kernels = backend_kernels(facts.backend, chosen.products);
}

}  // namespace

RunSpec resolve_types(const Config& requested, const RunFacts& facts) {
  RunSpec spec{.options = requested, .backend = facts.backend};
  choose_types(spec, facts);
  return spec;
}

RunSpec resolve(const Config& requested, const RunFacts& facts) {
  RunSpec spec{.options = requested, .backend = facts.backend};
  Config& options = spec.options;
  count_steps(options, facts.samples);
  if (requested.train.epochs > 0 && facts.samples > 0) validate(options);  // with the number of steps that epochs give
  if (facts.lora && !options.lora.path.empty()) keep_in_config(*facts.lora, options);
  spec.layout = run_layout(options, facts.ranks, *facts.model, facts.was ? facts.was->sum_leaves : std::nullopt);
  choose_types(spec, facts);
  spec.config_text = to_yaml(options);
  spec.record = recorded_options(options, spec.layout.mesh.data, spec.layout.sum_leaves);
  if (!facts.columns) return spec;
  if (options.parallel.split == StageSplit::cost && spec.layout.mesh.pipeline > 1)
    options.parallel.stage_layers = layers_by_cost(*facts.model, options, spec.types, spec.kernels, *facts.columns);
  choose_recompute(options, [&](const Config& candidate) {
    const int64_t bytes = plan_ranks(*facts.model, candidate, spec.layout, spec.types, spec.kernels, *facts.columns).bytes;
    return facts.of_ranks ? facts.of_ranks(bytes) : bytes;
  });
  return spec;
}

}  // namespace ravine
