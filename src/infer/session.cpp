#include "infer/session.h"

#include <filesystem>

#include "base/log.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "io/huggingface.h"

namespace ravine {

Ctx::Setup Session::setup(Arena& arena) const {
  Ctx::Setup s;
  s.kernels = &kernels;
  s.arena = &arena;
  s.store = store.get();
  s.types = types;
  return s;
}

void check_model_folder(const std::string& folder) {
  if (!std::filesystem::is_directory(folder))
    throw UserError("no model folder", folder, "it must be a folder with config.json and weights", "correct the path");
}

namespace {

Session declare(const std::string& path, DType compute, const std::string& backend, Bf16Products products) {
  if (compute == DType::f64 && backend != "ref")
    throw UserError("precision.compute=f64", "precision.compute", "f64 is computed by the ref backend only",
                    "add --backend ref");
  Session s;
  s.folder = path;
  s.kernels = backend_kernels(backend, products);
  s.types = Types::of(compute);
  s.model = open_model(path);
  return s;
}

// Makes the store, if the machine has the memory.
template <class Store>
Store& hold(Session& s) {
  int64_t bytes = Store(s.model->params(), s.types, DeviceKind::meta).weight_bytes(), free = available_memory();
  if (bytes > free)
    throw UserError(fmt::format("the weights need {}", human_bytes(static_cast<double>(bytes))), s.folder,
                    fmt::format("this machine has {} free", human_bytes(static_cast<double>(free))),
                    "use a smaller model or a larger machine");
  auto store = std::make_unique<Store>(s.model->params(), s.types, DeviceKind::cpu);
  Store& held = *store;
  s.store = std::move(store);
  return held;
}

void settle(Session& s) {
  HeapArena arena;
  Ctx c(s.setup(arena));
  s.model->settle(c);
}

}  // namespace

Session open_session(const std::string& folder, DType compute, const std::string& backend, OpenFor use, Bf16Products products) {
  check_model_folder(folder);
  Session s = declare(folder, compute, backend, products);
  if (use == OpenFor::running) {
    s.stored_names = load_weights(folder, *s.model, hold<InferenceStore>(s));
    settle(s);
    return s;
  }
  s.trainable = &hold<FlatStore>(s);
  s.stored_names = load_weights(folder, *s.model, *s.trainable);
  HeapArena arena;
  Ctx c(s.setup(arena));
  s.trainable->refresh_copies(c);
  return s;
}

Session open_random_session(const std::string& config, DType compute, const std::string& backend, Bf16Products products) {
  Session s = declare(config, compute, backend, products);
  InferenceStore& store = hold<InferenceStore>(s);
  // One run of normal numbers again and again: drawing each would take longer than the measurement.
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
      parallel_for(ceil_div(v.count(), kRun), [&](int64_t i) {
        std::copy_n(run.data(), std::min(kRun, v.count() - i * kRun), v.as<T>() + i * kRun);
      });
    });
  }
  settle(s);
  return s;
}

}  // namespace ravine
