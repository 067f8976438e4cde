// Any bytes as the YAML of a MindFormers job give a UserError, or keys that are accepted or refused. Accepted keys are
// translated without a failure.
#include "base/error.h"
#include "dialects/mindformers.h"
#include "scratch.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch scratch;
  try {
    MindFormersFacts facts;
    facts.data = [](const std::string&, const std::vector<std::string>&) { return MindFormersFacts::Data{80, 33}; };
    const std::string path = scratch.write("run.yaml", text_of(data, size));
    const Translation t = translate_mindformers(read_mindformers_line(placed({"--config", path})), facts);
    explanation(t);
    config_of(t);
  } catch (const UserError&) {
  }
  return 0;
}
