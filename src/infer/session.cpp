#include "infer/session.h"

#include <filesystem>

#include "base/log.h"
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

Session open_session(const std::string& folder, DType compute, const std::string& backend, Bf16Products products) {
  check_model_folder(folder);
  if (compute == DType::f64 && backend != "ref")
    throw UserError("precision.compute=f64", "precision.compute", "f64 is computed by the ref backend only",
                    "add --backend ref");
  Session s;
  s.folder = folder;
  s.kernels = backend_kernels(backend, products);
  s.types = Types::of(compute);
  s.model = open_model(folder);

  int64_t bytes = ResidentStore(s.model->params(), s.types, DeviceKind::meta).weight_bytes(), free = available_memory();
  if (bytes > free)
    throw UserError(fmt::format("the weights need {}", human_bytes(static_cast<double>(bytes))), folder,
                    fmt::format("this machine has {} free", human_bytes(static_cast<double>(free))),
                    "use a smaller model or a larger machine");
  s.store = std::make_unique<ResidentStore>(s.model->params(), s.types, DeviceKind::cpu);
  load_weights(folder, *s.model, *s.store);
  HeapArena arena;
  Ctx c(s.setup(arena));
  s.store->refresh_copies(c);
  return s;
}

}  // namespace ravine
