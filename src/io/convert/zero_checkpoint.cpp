#include "io/convert/zero_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "io/convert/torch_elements.h"
#include "io/convert/zero_files.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

using zero::StateFiles;
using zero::Tensors;

// Adds frozen parameters from the model files, where they are whole or (stage 3) split over the ranks.
void read_frozen(const StateFiles& c, Tensors& w) {
  const auto shapes = zero::optional(*c.model[0], "frozen_param_shapes");
  if (!shapes || !c.model[0]->pickle().fields(*shapes)) return;
  for (const zero::Named& n : zero::shapes_of(*c.model[0], *shapes)) {
    // Universal checkpoints of stages 1 and 2 hold them with the others.
    if (c.universal && w.tensors.contains(n.name)) continue;
    std::vector<ElementsPtr> parts;
    for (const zero::File& f : c.model) {
      const auto fragments = zero::optional(*f, "frozen_param_fragments");
      const auto part = fragments ? f->pickle().find(*fragments, n.name) : std::nullopt;
      if (!part)
        throw UserError("missing tensor", f->path(), fmt::format("frozen_param_fragments holds '{}'", printable(n.name)),
                        zero::kWholeCheckpoint);
      parts.push_back(torch_elements(f, *part, n.name));
      if (c.stage < 3) break;
    }
    std::vector<Copy> copies;
    zero::take(parts, 0, n.count(), 0, copies, fmt::format("'{}'", printable(n.name)));
    w.add(n.name, assembled(n.shape, std::move(copies), "frozen"));
  }
}

// Adds buffers as f32, and aliases of shared parameters.
void read_rest(const StateFiles& c, Tensors& w) {
  const TorchFile& model = *c.model[0];
  const Pickle& p = model.pickle();
  const Pickle::Ref module = zero::need(model, p.root(), "module");
  if (const auto names = zero::optional(model, "buffer_names"); names && p.kind(*names) == Pickle::Kind::list)
    for (Pickle::Ref v : p.items(*names)) {
      const auto name = p.text(v);
      const auto value = name ? p.find(module, *name) : std::nullopt;
      if (!value || !c.model[0]->is_tensor(*value) || (c.universal && w.tensors.contains(std::string(*name)))) continue;
      const ElementsPtr e = torch_elements(c.model[0], *value, std::string(*name));
      w.add(std::string(*name), as_type(e, DType::f32));
    }
  if (const auto shared = zero::optional(model, "shared_params"); shared && p.fields(*shared))
    for (size_t i = 0; i < p.fields(*shared)->size(); i += 2) {
      const auto alias = p.text((*p.fields(*shared))[i]), source = p.text((*p.fields(*shared))[i + 1]);
      if (!alias || !source || !w.tensors.contains(std::string(*source)) || w.tensors.contains(std::string(*alias))) continue;
      w.add(std::string(*alias), w.tensors[std::string(*source)]);
    }
}

}  // namespace

std::map<std::string, ElementsPtr> read_zero_weights(const std::string& path) {
  const StateFiles c = zero::open_state_files(path);
  Tensors w;
  const zero::File& f = c.model[0];
  if (c.universal || c.stage > 0) {
    zero::read_trained(c, w, "");
    read_frozen(c, w);
    read_rest(c, w);
    return w.tensors;
  }
  if (const auto whole = zero::whole_optimizer(*f); whole && whole->flat) zero::read_trained(c, w, "");
  const Pickle::Ref module = zero::need(*f, f->pickle().root(), "module");
  const auto state = std::make_shared<TorchStateFile>(f, module, "");
  // The first name of each storage; a tied head has no separate tensor.
  std::map<std::pair<int64_t, int64_t>, std::string> first;
  for (const TensorInfo& t : state->tensors()) {
    const auto v = f->pickle().find(module, t.name);
    if (w.tensors.contains(t.name) && v) {
      const TorchTensor at = f->tensor(*v, t.name);
      first.emplace(std::pair(at.storage_begin, at.offset), t.name);
    }
  }
  for (const TensorInfo& t : state->tensors()) {
    if (w.tensors.contains(t.name)) continue;
    const auto v = f->pickle().find(module, t.name);
    auto it = first.end();
    if (v) {
      const TorchTensor at = f->tensor(*v, t.name);
      it = first.find({at.storage_begin, at.offset});
    }
    w.add(t.name, it != first.end() ? w.tensors.at(it->second) : stored(state, t));
  }
  return w.tensors;
}

std::map<std::string, ElementsPtr> read_zero_state(const std::string& path, const std::string& key) {
  Tensors w;
  zero::read_trained(zero::open_state_files(path), w, key);
  return w.tensors;
}

bool is_zero_checkpoint(const std::string& path) {
  std::error_code error;
  const auto holds = [&](const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().filename().string().ends_with("_model_states.pt")) return true;
    return false;
  };
  if (holds(path)) return true;
  if (!fs::exists(path + "/latest", error) && !fs::exists(path + "/latest_universal", error)) return false;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_directory(error) && holds(entry.path())) return true;
  return false;
}

std::vector<std::string> zero_checkpoint_files(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(zero::tag_folder(path)))
    if (entry.is_regular_file() && entry.path().extension() == ".pt") out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace ravine