// The files of a ZeRO checkpoint, opened, and its dicts, for the readers of this room: zero_tensors.cpp (what is trained),
// zero_run.cpp (what a run was) and zero_checkpoint.cpp (weights).
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/torch_file.h"
#include "io/convert/elements.h"

namespace ravine::zero {

using File = std::shared_ptr<const TorchFile>;
inline constexpr const char* kWholeCheckpoint = "use a complete checkpoint";

// By name, none twice.
struct Tensors {
  std::map<std::string, ElementsPtr> tensors;
  void add(const std::string& name, const ElementsPtr& e) {
    if (!tensors.emplace(name, e).second)
      throw UserError("tensor is stored twice", e->where(), fmt::format("'{}' has one value", printable(name)),
                      kWholeCheckpoint);
  }
};

struct Named {
  std::string name;
  Shape shape;
  int64_t count() const { return shape.count(); }
};

struct StateFiles {
  std::string folder;
  std::vector<File> optimizer, model;  // by data rank; one model file below stage 3
  int64_t stage = 0;
  File universal;  // zero/optimizer_state.pt; null: not a universal checkpoint
};

// The folder that `latest` names, or the path itself.
std::string tag_folder(const std::string& path);
// Errors: a UserError where ranks are missing, or of several tensor ranks.
StateFiles open_state_files(const std::string& path);

Pickle::Ref need(const TorchFile& f, Pickle::Ref dict, const char* key);       // a UserError without it
std::optional<Pickle::Ref> optional(const TorchFile& f, const char* key);      // of the root; None is nothing
std::vector<Named> shapes_of(const TorchFile& f, Pickle::Ref dict);            // a dict of names and shapes, in order
std::vector<Pickle::Ref> numbered_values(const Pickle& p, Pickle::Ref dict);   // of a dict whose keys are numbers, by these
std::vector<Pickle::Ref> optimizer_states(const TorchFile& f, int64_t stage);  // of the torch optimizer inside, by group

// Stage 0: what the module's file holds of the optimizer. That of torch has states per parameter, by numbers; of runs in 16
// bits (FP16_Optimizer) there are flat groups.
struct WholeOptimizer {
  Pickle::Ref torch;                // "state", "param_groups"
  std::optional<Pickle::Ref> flat;  // fp32_groups_flat
};
std::optional<WholeOptimizer> whole_optimizer(const TorchFile& f);

// Elements [begin, begin + count) of parts in a row, as copies to element `to`.
void take(const std::vector<ElementsPtr>& parts, int64_t begin, int64_t count, int64_t to, std::vector<Copy>& copies,
          const std::string& what);
// Masters (no key) or a state, as far as the optimizer has them. (zero_tensors.cpp)
void read_trained(const StateFiles& files, Tensors& tensors, const std::string& key);

}  // namespace ravine::zero
