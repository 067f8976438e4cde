// Opens the files of a ZeRO checkpoint and reads their dicts, for zero_tensors.cpp (trained tensors), zero_run.cpp
// (facts of the run) and zero_checkpoint.cpp (weights).
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

// Tensors by name; duplicates are a UserError.
struct Tensors {
  std::map<std::string, ElementsPtr> tensors;
  void add(const std::string& name, const ElementsPtr& e) {
    if (!tensors.emplace(name, e).second)
      throw UserError("tensor is stored twice", e->where(), fmt::format("'{}' has one value", printable(name)),
                      kWholeCheckpoint);
  }
};

// The name and shape of a parameter.
struct Named {
  std::string name;
  Shape shape;
  int64_t count() const { return shape.count(); }
};

// The open files of a ZeRO checkpoint; the result of open_state_files.
struct StateFiles {
  std::string folder;
  std::vector<File> optimizer, model;  // by data rank; one model file below stage 3
  int64_t stage = 0;
  File universal;  // zero/optimizer_state.pt; null: not a universal checkpoint
};

// Returns the folder of the tag that the file `latest` in `path` names; `path` itself if there is no such file.
std::string tag_folder(const std::string& path);
// Opens the files of the ZeRO checkpoint at `path`. Missing ranks, or several tensor ranks, are a UserError.
StateFiles open_state_files(const std::string& path);

// Returns the value of `key` in a dict; a UserError if it is absent.
Pickle::Ref need(const TorchFile& f, Pickle::Ref dict, const char* key);
// Returns the value of `key` in the root dict of a file; nothing if it is absent or None.
std::optional<Pickle::Ref> optional(const TorchFile& f, const char* key);
std::vector<Named> shapes_of(const TorchFile& f, Pickle::Ref dict);  // names and shapes of a dict, in order
// Returns the values of a dict with integer keys, sorted by key.
std::vector<Pickle::Ref> numbered_values(const Pickle& p, Pickle::Ref dict);
// Returns the states of the inner torch optimizer, one for each parameter group.
std::vector<Pickle::Ref> optimizer_states(const TorchFile& f, int64_t stage);

// The optimizer in the model states file of ZeRO stage 0; the result of whole_optimizer. Torch's has states per
// parameter, by numbers; 16-bit runs (FP16_Optimizer) have flat groups.
struct WholeOptimizer {
  Pickle::Ref torch;                // "state", "param_groups"
  std::optional<Pickle::Ref> flat;  // fp32_groups_flat
};
std::optional<WholeOptimizer> whole_optimizer(const TorchFile& f);

// Appends to `copies` the elements [begin, begin + count) of the concatenated `parts`, to be copied to element `to` of
// a result. `what` names the result in messages.
void take(const std::vector<ElementsPtr>& parts, int64_t begin, int64_t count, int64_t to, std::vector<Copy>& copies,
          const std::string& what);
// Adds to `tensors` the f32 masters (empty key) or the optimizer state `key` of all trained parameters.
// (zero_tensors.cpp)
void read_trained(const StateFiles& files, Tensors& tensors, const std::string& key);

}  // namespace ravine::zero
