// The folder of a DeepSpeed checkpoint while it is written. deepspeed_fields.cpp has the fields of its pickles,
// deepspeed_write.cpp its files.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "io/checkpoint.h"
#include "io/convert/deepspeed_state.h"
#include "io/convert/ravine_checkpoint.h"
#include "io/convert/torch_fields.h"

namespace ravine::deepspeed {

inline constexpr const char* kZeroVersion = "0.19.8";  // DeepSpeed version of the layout

// A parameter of the model with its states.
struct Trained {
  std::string name;
  bool decays = true;
  ElementsPtr master;
  std::vector<ElementsPtr> states;  // in order of keys_
};

// A rank's range of the flat vector of a parameter group of `count` elements. The vector is padded to a multiple of 2
// elements per rank.
struct Partition {
  Partition(int64_t count, int64_t ranks, int64_t rank) {
    size = round_up(count, 2 * ranks) / ranks;
    begin = rank * size;
    lean = std::clamp<int64_t>(count - begin, 0, size);
  }
  int64_t begin = 0, size = 0, lean = 0;  // lean: size without padding
};

int64_t count_of(const std::vector<Trained>& group);  // elements of all parameters
std::vector<const Trained*> pointers(const std::vector<Trained>& group);

// Writes a checkpoint of Ravine as a folder of DeepSpeed: weights, masters and moments in DeepSpeed's groups and order.
class StateFolder {
 public:
  StateFolder(const std::string& folder, const Json& model, const std::string& where, const DeepSpeedState& s);

  void write(TargetFolder& folder, const std::function<void(int64_t)>& progress);

 private:
  // True if the checkpoint has the state `kind` ("m/", "v/") for any parameter.
  bool any(const std::string& kind) const {
    const auto& all = g_.model->params().params();
    return std::any_of(all.begin(), all.end(), [&](const Param& p) { return reader_.has(kind + p.name); });
  }
  const Json& scalars() const { return reader_.scalars(); }
  int64_t count(const char* key, int64_t otherwise) const { return field_or(scalars(), key, where_, otherwise); }
  int64_t step() const { return reader_.step(); }
  int64_t updates() const { return count("optimizer_steps", step()); }
  std::string tag() const { return fmt::format("global_step{}{}", step(), s_.universal ? "_universal" : ""); }
  bool sixteen_bits() const { return s_.compute != DType::f32; }

  void check() const;
  Json scale_state() const;
  void put_scaler(TorchFields& w) const;
  void put_param_groups(TorchFields& w, const std::vector<std::vector<int64_t>>& numbers) const;
  std::vector<std::vector<std::vector<const Trained*>>> sub_groups() const;  // for each group
  std::vector<ElementsPtr> column(const std::vector<const Trained*>& of, size_t key) const;
  void put_scheduler(TorchFields& w) const;
  void put_state(TorchFields& w, const std::function<ElementsPtr(size_t)>& of_key) const;
  void put_ds_config(TorchFields& w) const;
  void write_model(TargetFolder& folder, const std::string& file, int64_t rank, const std::function<void(int64_t)>& progress);
  void put_optimizer(TorchFields& w);  // stage 0
  void write_shard(TargetFolder& folder, const std::string& file, int64_t rank, const std::function<void(int64_t)>& progress);
  void write_universal(TargetFolder& folder, const std::function<void(int64_t)>& progress);
  void write_companion_files(TargetFolder& folder, const std::function<void(int64_t)>& progress);

  const DeepSpeedState& s_;
  std::string where_;
  Geometry g_;
  CheckpointReader reader_;
  Weights weights_;
  std::vector<std::string> keys_, order_, frozen_;
  std::vector<Trained> groups_[2];  // parameters with weight decay, and the others
  std::vector<std::vector<Trained>*> filled_;
  std::vector<std::pair<std::string, std::string>> aliases_;  // (tied head, embedding)
};

}  // namespace ravine::deepspeed
