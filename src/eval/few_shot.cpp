#include "eval/few_shot.h"

#include <filesystem>

#include "eval/own_examples.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;
constexpr const char* kTree = "tasks/evaluation/eval_impl/fewshot_template";
constexpr int kLevels = 4;  // folders above the data that are searched

struct TreeFile {
  const char *name, *task;
};
constexpr TreeFile kFiles[] = {{"gsm8k_3shot_template.json", "gsm8k"},
                               {"bbh_template.json", "bbh"},
                               {"mmlu_5shot_template.json", "mmlu"},
                               {"ceval_5shot_template.json", "ceval"},
                               {"AGI_fewshot.json", "agieval"}};

std::vector<fs::path> folders(const std::vector<std::string>& data) {
  std::vector<fs::path> out = {kTree};
  for (const std::string& one : data) {
    std::error_code error;
    fs::path at = fs::absolute(one, error).lexically_normal();
    for (int level = 0; level < kLevels && !at.empty(); ++level, at = at.parent_path())
      for (const fs::path& folder : {at / "fewshot_template", at / kTree}) out.push_back(folder);
  }
  return out;
}

}  // namespace

void fill_few_shot(Templates& given, const std::vector<std::string>& data) {
  if (given.is_of_examples()) return;
  for (const fs::path& folder : folders(data))
    for (const TreeFile& file : kFiles) {
      std::error_code error;
      const std::string path = (folder / file.name).string();
      if (fs::is_regular_file(path, error)) given.fill(Templates::parse({{file.task, read_json(path)}}, path));
    }
  given.fill(Templates::parse(own_examples(), "our own"));
}

}  // namespace ravine
