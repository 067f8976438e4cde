// Converts weights from one layout into another: recognizes the source, reads its headers, plans each tensor of the
// target, then streams the data.
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

// The layouts of weights that can be read.
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

// The layouts of weights that can be written: the values of `ravine convert --to`.
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
                                                  {deepspeed, "deepspeed"},  // from a Ravine checkpoint
                                                  {ravine, "ravine"},
                                                  {peft, "peft"}});  // from a LoRA checkpoint
}
inline bool is_megatron(ConvertTarget to) {
  return to == ConvertTarget::megatron_legacy || to == ConvertTarget::megatron_mcore || to == ConvertTarget::megatron_deepspeed;
}

// The result of recognise: the layout of a path, and a description of it.
struct Recognised {
  WeightLayout layout;
  std::string what;  // "Megatron checkpoint (one file per tensor and pipeline rank)"
};
// Returns the layout of the weights at `path`, recognized from file names, and from tensor names if these do not
// decide. Returns nothing for any other path; a damaged file is a UserError.
std::optional<Recognised> recognise(const std::string& path);

// The options of `ravine convert`.
struct ConvertOptions {
  std::string input, output;
  ConvertTarget to = ConvertTarget::hf;
  std::optional<WeightLayout> from;  // none: recognized from the input
  std::string model_config;          // path of a config.json, or its text; "": from the source
  std::string tokenizer;             // folder of a tokenizer, used if the source has none
  std::string adapter;               // merged into the weights; "": none
  // For the base of an adapter: storage of its linear layers, as lora.base; none: as stored.
  std::optional<BaseStorage> base;
  std::optional<DType> dtype;                            // type of floating tensors in the output; none: as stored
  int64_t tensor = 1, pipeline = 1, virtual_stages = 1;  // ranks of the Megatron output; MindFormers uses only tensor
  std::vector<int64_t> stage_layers;                     // Megatron: layers of each stage; empty: equal parts
  // Megatron: the rows of the vocabulary are padded to a multiple of this times `tensor`; 0: 128.
  int64_t vocabulary_multiple = 0;
  ExpertNames experts = ExpertNames::grouped;  // Megatron: names of experts
  bool fused = false;                          // MindFormers: q, k, v joined, and gate and up joined
  // To ravine and Megatron: true writes Adam moments and the step of the source too.
  bool optimizer = false;
  bool distributed = false;     // Megatron: write the optimizer states to distrib_optim.pt
  int64_t zero = 2, ranks = 1;  // DeepSpeed: ZeRO stage; DeepSpeed and Megatron: data ranks
  bool universal = false;       // DeepSpeed: a universal checkpoint
  std::function<double(const Config&, int64_t)>
      rate;                       // returns the learning rate of update n (from 0) of a run with these options
  int64_t vocabulary = 0;         // Megatron input: rows of the vocabulary, if its files do not say it; 0: not known
  int64_t resize_vocabulary = 0;  // rows of embedding and head in the output; 0: unchanged
  std::string upcycle;            // text for read_upcycling; "": no upcycling
  bool dry_run = false, allow_unknown = false;
  // Called between pieces of the conversion; may be empty. If it returns true, the conversion throws Stopped; the same
  // call continues it later.
  std::function<bool()> stop;
  std::function<std::map<std::string, std::string>(const std::string&)>
      missing_tokenizer_files;  // as in SaveFolder (io/huggingface.h)
};

// A tensor of a conversion: its file, name, type and shape in the output, and the rule that made it.
struct ConvertRow {
  std::string file, name, dtype, shape, rule;
};
// The result of convert_weights.
struct ConvertReport {
  std::string source;            // description of the input
  std::vector<ConvertRow> rows;  // one per written tensor
  std::vector<std::string> notes;
  int64_t bytes = 0;
};

// Opens the weights at `path` in any layout, under the names of the model family's files. `config` is the model's
// config.json, `where` its name in messages.
std::unique_ptr<TensorFile> open_weights_of_any(const std::string& path, const Json& config, const std::string& where);
// Returns the path that is read at `path`, for messages: in a folder of several checkpoints, the chosen file or folder.
std::string weights_read_at(const std::string& path);

// Converts weights by `options`. Writes the folder `output`, which appears complete or not at all; an existing folder
// that is not empty is a UserError. Files that an interrupted conversion of the same input and options completed
// (output.tmp) are used again. With dry_run nothing is written. `progress` is called with (bytes written, all bytes).
ConvertReport convert_weights(const ConvertOptions& options, const std::function<void(int64_t, int64_t)>& progress);

}  // namespace ravine
