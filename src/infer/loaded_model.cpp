#include "infer/loaded_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/narrow_option.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "io/adapter_weights.h"
#include "io/huggingface.h"
#include "io/model_folder.h"
#include "io/stored_model.h"
#include "model/adapters.h"
#include "model/decoder.h"
#include "model/vocabulary.h"
#include "parallel/overlay_store.h"

namespace ravine {

Ctx::Setup LoadedModel::setup(Arena& arena) const {
  Ctx::Setup s;
  s.kernels = &kernels;
  s.arena = &arena;
  s.store = store.get();
  s.grads = trainable;
  s.types = types;
  s.sequence = trainable && spread.options.sequence;
  for (Axis axis : kAxes) s.groups[static_cast<size_t>(axis)] = &ranks().along(axis);
  return s;
}

namespace {

LoadedModel declare(const std::string& path, DType compute, Backend backend, Bf16Products products,
                    const InferenceLayout& spread, const std::string& adapter = "", std::optional<BaseStorage> base = {}) {
  check_computes(backend, compute);
  LoadedModel s;
  s.folder = path;
  s.kernels = backend_kernels(backend, products);
  s.types = Types::of(compute);
  s.model = open_stored_model(path);
  if (!adapter.empty()) {
    s.adapter = adapter;
    s.model = with_adapter_of(adapter, *s.model);
  } else if (base) {
    for (Param& p : s.model->params().params()) p.policy.trainable = false;
  }
  if (base) keep_base(*s.model, *base);
  s.spread = spread;
  const int stages = s.ranks().mesh().pipeline;
  s.parts =
      split_model(*s.model, stages > 1 ? narrow_option<int>(stages * spread.options.virtual_stages, "parallel.virtual") : 1,
                  stages > 1 ? spread.options.stage_layers : std::vector<int64_t>());
  return s;
}

// Stores the store that make(device) returns. Throws a UserError if the machine does not have the memory.
template <class Make>
auto& hold(LoadedModel& s, Make&& make) {
  int64_t bytes = make(DeviceKind::meta)->weight_bytes(), free = available_memory() / s.spread.ranks_per_host;
  if (bytes > free)
    throw UserError(
        fmt::format("the weights need {}", human_bytes(static_cast<double>(bytes))), s.folder,
        fmt::format("this {} has {} free", s.ranks().size() > 1 ? "rank" : "machine", human_bytes(static_cast<double>(free))),
        s.ranks().size() > 1 ? "use more ranks, or a larger machine" : "use a smaller model or a larger machine");
  auto store = make(DeviceKind::cpu);
  auto& held = *store;
  s.store = std::move(store);
  return held;
}

InferenceStore& hold_for_running(LoadedModel& s) {
  return hold(s, [&](DeviceKind device) {
    return std::make_unique<InferenceStore>(s.model->params(), s.types, device, s.ranks(), s.stages());
  });
}

// kernels: the kernels of `s`, or kernels that do no work.
void prepare_weights(LoadedModel& s, const Kernels& kernels) {
  if (!s.last_stage()) return;  // only the head has work here
  HeapArena arena;
  Ctx::Setup setup = s.setup(arena);
  setup.kernels = &kernels;
  Ctx c(setup);
  s.model->prepare_weights(c);
}

// Returns the adapters if each of them is an adapter of a linear layer; else null. Null also with trained embeddings,
// tables or norms, and with an adapter on kv_b_proj. The input of kv_b_proj is the cache, not rows of the batch.
const AdapterSet* adapters_by_row(const Model& model, const OverlayStore& store) {
  const AdapterSet& all = model.params().adapters();
  const bool latent = model.decoder() && model.decoder()->attention.latent;
  const bool keys = latent && std::any_of(all.layers().begin(), all.layers().end(), [](const auto& layer) {
                      return layer.first.find(".kv_b_proj.") != std::string::npos;
                    });
  return store.owned() == all.parameters() && !keys ? &all : nullptr;
}

}  // namespace

LoadedModel load_model(const std::string& folder, DType compute, Backend backend, OpenFor use, Bf16Products products,
                       const InferenceLayout& spread, const std::string& adapter, std::optional<BaseStorage> base) {
  check_model_folder(folder, "--model");
  if (base && adapter.empty() && use == OpenFor::gradients)
    throw UserError("lora.base without an adapter", "lora.base", "it sets how the base weights of an adapter are stored",
                    "add --adapter, or leave it out");
  LoadedModel s = declare(folder, compute, backend, products, spread, adapter, base);
  const ParallelOptions& o = spread.options;
  const bool divided = o.zero == 3 && s.ranks().mesh().data > 1;
  if (use == OpenFor::running && !divided && base != BaseStorage::nf4) {
    InferenceStore& store = hold_for_running(s);
    s.stored_names = load_weights(folder, *s.model, store);
    if (!adapter.empty()) load_adapter(adapter, *s.model, store);
    prepare_weights(s, s.kernels);
    return s;
  }
  s.spread.options.sequence = use == OpenFor::gradients && o.sequence;
  const FlatLayout layout{.stages = s.stages(),
                          .zero = narrow_option<int>(o.zero, "parallel.zero"),
                          .whole_below = o.whole_below(),
                          .stays_up_to = o.zero_threshold,
                          .sequence = s.spread.options.sequence,
                          .ranks = &s.ranks()};
  s.trainable =
      &hold(s, [&](DeviceKind device) { return std::make_unique<FlatStore>(s.model->params(), s.types, device, layout); });
  s.stored_names = load_weights(folder, *s.model, *s.trainable);
  if (!adapter.empty()) load_adapter(adapter, *s.model, *s.trainable);
  HeapArena arena;
  Ctx c(s.setup(arena));
  s.trainable->refresh_copies(c);
  return s;
}

LoadedModel load_on_base(const LoadedModel& base, const std::string& adapter) {
  require(base.adapter.empty(), "load_beside: an adapter beside an adapter");
  LoadedModel s;
  s.folder = base.folder, s.adapter = adapter;
  s.kernels = base.kernels, s.types = base.types;
  s.spread = base.spread, s.parts = base.parts;
  s.trainable = base.trainable;
  s.model = with_adapter_of(adapter, *base.model);
  OverlayStore& store = hold(s, [&](DeviceKind device) {
    return std::make_unique<OverlayStore>(s.model->params(), base.model->params(), *base.store, s.types, device, s.ranks(),
                                          s.stages());
  });
  s.stored_names = load_weights(s.folder, *s.model, store);
  load_adapter(adapter, *s.model, store);
  s.base = &base, s.adapters = adapters_by_row(*s.model, store);
  if (s.trainable) return s;
  // The head of the base is already prepared; kernels that do no work only inform the model.
  const Param* head = s.model->params().find(kHead);
  prepare_weights(s, head && store.owns(*head) ? s.kernels : meta_kernels(s.kernels));
  return s;
}

LoadedModel load_random_model(const std::string& config, DType compute, Backend backend, Bf16Products products) {
  LoadedModel s = declare(config, compute, backend, products, {});
  InferenceStore& store = hold_for_running(s);
  // Host work, once per model: one run of normal numbers is repeated, because drawing every weight would take longer
  // than the measurement.
  constexpr int64_t kRun = 65521;  // a prime: rows are not equal
  for (const Param& p : s.model->params().params()) {
    if (p.tied) continue;
    const TensorView v = store.master(p);
    visit_float(v.dtype, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> run(static_cast<size_t>(kRun), T(p.init.kind == Init::ones ? 1.0f : 0.0f));
      for (size_t i = 0; p.init.kind == Init::normal && i < run.size(); ++i) {
        const auto w = philox(42, {static_cast<uint32_t>(i), 0, 0, 0});
        run[i] = static_cast<T>(static_cast<float>(p.init.std * normal_pair(w[0], w[1])[0]));
      }
      parallel_for(ceil_div(v.count(), kRun),
                   [&](int64_t i) { std::copy_n(run.data(), std::min(kRun, v.count() - i * kRun), v.as<T>() + i * kRun); });
    });
  }
  prepare_weights(s, s.kernels);
  return s;
}

}  // namespace ravine
