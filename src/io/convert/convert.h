// Weights from one layout into another: recognise, read headers, plan every tensor of the target, then stream.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "config/choice.h"
#include "config/choices.h"
#include "config/config.h"
#include "files/tensor_file.h"
#include "io/convert/expert_names.h"

namespace ravine {

enum class WeightLayout : uint8_t { hf, megatron, deepspeed, mindformers, ravine, trainer };
constexpr auto names_of(WeightLayout) {
  using enum WeightLayout;
  return std::to_array<ValueName<WeightLayout>>({{hf, "hf"},
                                                 {megatron, "megatron"},
                                                 {deepspeed, "deepspeed"},
                                                 {mindformers, "mindformers"},
                                                 {ravine, "ravine"},
                                                 {trainer, "trainer"}});
}

// What can be written.
enum class ConvertTarget : uint8_t {
  hf,
  megatron_legacy,
  megatron_mcore,
  megatron_deepspeed,
  mindformers,
  deepspeed,
  ravine,
  peft
};
constexpr auto names_of(ConvertTarget) {
  using enum ConvertTarget;
  return std::to_array<ValueName<ConvertTarget>>({{hf, "hf"},
                                                  {megatron_legacy, "megatron-legacy"},
                                                  {megatron_mcore, "megatron-mcore"},
                                                  {megatron_deepspeed, "megatron-deepspeed"},
                                                  {mindformers, "mindformers"},
                                                  {deepspeed, "deepspeed"},  // of a Ravine checkpoint
                                                  {ravine, "ravine"},
                                                  {peft, "peft"}});  // of a checkpoint of LoRA
}
inline bool is_megatron(ConvertTarget to) {
  return to == ConvertTarget::megatron_legacy || to == ConvertTarget::megatron_mcore || to == ConvertTarget::megatron_deepspeed;
}

struct Recognised {
  WeightLayout layout;
  std::string what;  // "Megatron checkpoint (one file per tensor and pipeline rank)"
};
// By the names of files, and of tensors where those do not tell. Nothing if it is none of them; a damaged file is a UserError.
std::optional<Recognised> recognise(const std::string& path);

struct ConvertOptions {
  std::string input, output;
  ConvertTarget to = ConvertTarget::hf;
  std::optional<WeightLayout> from;  // none: recognised
  std::string model_config;          // a config.json, or its text; "": what the source has
  std::string tokenizer;             // folder of one, where the source has none beside it
  std::string adapter;               // merged into the weights; "": none
  std::optional<BaseStorage> base;   // beside it: its linear layers as lora.base keeps them; none: as stored
  std::optional<DType> dtype;        // of floating tensors; none: as stored
  int64_t tensor = 1, pipeline = 1, virtual_stages = 1;  // of Megatron; MindFormers: tensor only
  std::vector<int64_t> stage_layers;                     // of Megatron: layers of each stage; empty: as many in each
  int64_t vocabulary_multiple = 0;                       // of Megatron: rows are padded to it times `tensor`; 0: 128
  ExpertNames experts = ExpertNames::grouped;            // of Megatron
  bool fused = false;                                    // MindFormers: q, k, v joined, gate and up too
  bool optimizer = false;                                // to ravine and Megatron: with the moments of the source, and its step
  bool distributed = false;                              // Megatron: these in distrib_optim.pt
  int64_t zero = 2, ranks = 1;                           // DeepSpeed: the stage; it and Megatron: data ranks
  bool universal = false;                                // DeepSpeed: a universal checkpoint
  std::function<double(const Config&, int64_t)> rate;    // of an update (from 0) by a run's options
  int64_t resize_vocabulary = 0;                         // 0: as it is
  std::string upcycle;                                   // as read_upcycling reads it; "": the model stays as it is
  bool dry_run = false, allow_unknown = false;
  std::function<bool()> stop;  // asked between pieces: true ends it with Stopped, and the same call goes on; may be empty
  std::function<std::map<std::string, std::string>(const std::string&)>
      missing_tokenizer_files;  // as in SaveFolder (io/huggingface.h)
};

struct ConvertRow {
  std::string file, name, dtype, shape, rule;
};
struct ConvertReport {
  std::string source;            // what the input is
  std::vector<ConvertRow> rows;  // one per tensor that is written
  std::vector<std::string> notes;
  int64_t bytes = 0;
};

// The weights at `path`, whatever their layout, as the model's family names them in its files. `config`: its config.json, `where`
// for messages.
std::unique_ptr<TensorFile> open_weights_of_any(const std::string& path, const Json& config, const std::string& where);
// What is read there, for people: where a folder holds several checkpoints, the file or folder of the one that is taken.
std::string weights_read_at(const std::string& path);

// Writes the folder `output`, which appears whole or not at all; an existing one that is not empty is a UserError. What a
// killed conversion of the same input and options has completed (output.tmp) is taken up. With dry_run nothing is written.
// `progress` gets bytes written and in all.
ConvertReport convert_weights(const ConvertOptions& options, const std::function<void(int64_t, int64_t)>& progress);

}  // namespace ravine
