// Translates evaluation*.py, the programs for benchmarks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "dialects/megatron_programs.h"

namespace ravine {

using enum KeyType;
namespace fs = std::filesystem;

namespace {

// True if the folder's name has the name of a task, e.g. "boolq" in BoolQ, bool_q and boolq-superglue.
bool speaks_of(const std::string& folder, const Json& tasks) {
  const auto plain = [](const std::string& text) {
    std::string out;
    for (const char c : text)
      if (c != '_' && c != '-') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return out;
  };
  return std::any_of(tasks.begin(), tasks.end(),
                     [&](const Json& task) { return plain(folder).find(plain(task.get<std::string>())) != std::string::npos; });
}

// Tells that questions have no chat template. ModelLink's evaluation.py of 2024 has one unless --no-chat-template is
// given, if the tokenizer has one.
void tell_of_chat_template(Translation& t, const std::string& program) {
  if (program != "evaluation.py" || t.is_on("--no-chat-template") || !tokenizer_has_chat_template(t)) return;
  t.notice(
      "questions are put without the model's chat template, as with --no-chat-template; ModelLink puts it around them, unless "
      "the flag is given");
}

constexpr const char* kSplits[] = {"test", "val", "validation", "dev", "data"};

// Returns the folder of --task-data-path. If the path is named after a split and the files are in the folder above,
// returns the folder above.
std::string folder_of_data(Translation& t, const std::string& path, const Json& tasks) {
  std::error_code error;
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string split = folder.filename().string();
  if (split == "test" && fs::is_directory(folder, error) && speaks_of(folder.string(), Json{"ceval"}) &&
      std::find(tasks.begin(), tasks.end(), "ceval") != tasks.end())
    t.notice(
        fmt::format("--task-data-path {}: C-Eval's test questions come without answers; those of val are asked. "
                    "`ravine eval --split test` writes the file that C-Eval scores",
                    path));
  if (fs::exists(folder, error) || std::find(std::begin(kSplits), std::end(kSplits), split) == std::end(kSplits)) return path;
  const fs::path above = folder.parent_path();
  if (above.empty() || !fs::is_directory(above, error) || !speaks_of(above.filename().string(), tasks)) return path;
  t.notice(fmt::format("--task-data-path {}: there is no such folder; the data of {} are taken", path, above.string()));
  return above.string();
}

}  // namespace

DialectTable megatron_evaluation_rows() {
  DialectTable own = megatron_running_rows();
  for (DialectKey& row : DialectTable{used("--task", texts, "--tasks", nullptr), renamed("--task-data-path", texts, "--data"),
                                      renamed("--evaluation-batch-size", whole, "--batch"),
                                      inert("--temperature", number, "the protocol answers greedily"),
                                      inert("--top-p", number, "the protocol answers greedily"),
                                      inert("--top-k", whole, "the evaluation programs do not read it there either"),
                                      inert("--greedy", on, "the protocol answers greedily"),
                                      inert("--no-chat-template", on,
                                            "as with it: questions have no chat template, which ModelLink of 2024 puts around "
                                            "them without it"),
                                      refused("--instruction-template", text, "questions are put as the protocol has them",
                                              "write what is to stand around them as --template '..{instruction}..'"),
                                      refused("--prompt-type", text, "questions are put as the protocol has them",
                                              "write what is to stand around them as --template '..{instruction}..'"),
                                      refused("--add-eos-token", texts, "the evaluation programs do not have it",
                                              "leave it out; an answer ends as the model's folder says"),
                                      // Flags of `ravine eval` that may follow --script FILE.
                                      used("--allow-code", on, "--allow-code"), renamed("--template", text, "--template"),
                                      renamed("--shots", whole, "--shots"), renamed("--limit", whole, "--limit"),
                                      renamed("--output", text, "--output"), used("--overwrite", on, "--overwrite")})
    own.push_back(std::move(row));
  return own;
}

Translation translate_evaluation(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const DialectTable table = megatron_running_table(megatron_evaluation_rows());
  Translation t = translate(table, read_flags(table, words, job.program), job.program);
  t.ranks = job.ranks;
  t.command = {"eval"};
  add_megatron_model(t, job);
  hold_tokenizer_words(t, false);
  const Json none = Json::array();
  const Json &tasks = t.has("--task") ? t.value("--task") : none,
             &paths = t.has("--task-data-path") ? t.value("--task-data-path") : none;
  std::string names;
  for (const Json& task : tasks) names += (names.empty() ? "" : ",") + task.get<std::string>();
  if (tasks.size() == 1) t.shows("--task", tasks[0]);
  if (paths.size() == 1) t.shows("--task-data-path", paths[0]);
  if (names.empty()) t.refuse("--task", "--task is not given", "it says what is asked", "write --task boolq");
  if (paths.empty())
    t.refuse("--task-data-path", "--task-data-path is not given", "it holds the benchmarks", "name the folder");
  std::vector<std::string>& c = t.command;
  c.insert(c.end(), {"--tasks", names, "--data"});
  for (const Json& path : paths) c.push_back(folder_of_data(t, path.get<std::string>(), tasks));
  c.insert(c.end(), {"--output", t.has("--output") ? t.text("--output") : "eval-" + names});
  for (const auto& [key, flag] : {std::pair{"--max-new-tokens", "--max-new-tokens"},
                                  {"--evaluation-batch-size", "--batch"},
                                  {"--shots", "--shots"},
                                  {"--limit", "--limit"}})
    if (t.has(key)) c.insert(c.end(), {flag, std::to_string(t.whole(key))});
  if (t.has("--template")) c.insert(c.end(), {"--template", t.text("--template")});
  for (const char* key : {"--allow-code", "--overwrite"})
    if (t.is_on(key)) c.push_back(key);
  add_megatron_running(t, job);
  tell_of_chat_template(t, job.program);
  return t;
}

}  // namespace ravine
