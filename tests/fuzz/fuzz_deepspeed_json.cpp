// Any bytes as a DeepSpeed config give a UserError, or values that are equal after writing and reading. Its keys are
// accepted or refused; accepted keys are translated without a failure.
#include <cstdlib>

#include "base/error.h"
#include "config/yaml_json.h"
#include "dialects/deepspeed_json.h"
#include "dialects/trainer.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TrainerLine line;
  YamlNode::Ptr root;
  try {
    root = parse_deepspeed_json(text, "ds.json", line.notices);
  } catch (const UserError&) {
    return 0;
  }
  const std::string written = json_of(*root).dump();
  std::vector<std::string> none;
  if (json_of(*parse_deepspeed_json(written, "again", none)).dump() != written || !none.empty()) std::abort();
  line.args = read_trainer_flags(placed({"--model_name_or_path", "m", "--output_dir", "o", "--do_train", "--max_steps", "10"}),
                                 line.refusals);
  line.config = take_deepspeed_keys(*root, "ds.json", compared_with_flag, line.refusals, line.notices);
  TrainerFacts facts;
  facts.hidden_size = 64;
  const Translation t = translate_trainer(std::move(line), facts);
  try {
    config_of(t);
  } catch (const UserError&) {
  }
  explanation(t);
  return 0;
}
