// Translates inference*.py: the six tasks of the demonstration.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dialects/megatron_programs.h"

namespace ravine {

using enum KeyType;

DialectTable megatron_inference_rows() {
  DialectTable own = megatron_running_rows();
  for (DialectKey& row :
       DialectTable{used("--task", texts, "--sample, --beams"), renamed("--temperature", number, "--temperature", 0.7),
                    renamed("--top-k", whole, "--top-k", 50), renamed("--top-p", number, "--top-p", 0.95),
                    inert("--max-length", whole, "--max-new-tokens says how much is written"),
                    inert("--use-kv-cache", on,
                          "keys and values are always kept; a chat is labelled ModelLink, as in the programs that have it"),
                    used("--seed", whole, "--seed"), used("--prompt-type", text, "--template"),
                    used("--hf-chat-template", on, "--chat"), used("--add-eos-token", texts, "--stop-tokens")})
    own.push_back(std::move(row));
  return own;
}

namespace {

// The tasks of the demonstration; their numbers start at 1.
const std::vector<std::string> kTasks = {
    "greedy", "do_sample", "beam_search", "beam_search_with_sampling", "return_output_log_probs", "chat"};

// Returns the tasks in --task, in order; all tasks if it is not given.
std::vector<std::string> tasks_of(Translation& t) {
  if (!t.has("--task") || t.value("--task").empty()) return kTasks;
  std::vector<std::string> out;
  for (const Json& one : t.value("--task")) {
    std::string task = one.get<std::string>();
    if (task.size() == 1 && task[0] >= '1' && task[0] <= '6') task = kTasks[static_cast<size_t>(task[0] - '1')];
    if (std::find(kTasks.begin(), kTasks.end(), task) == kTasks.end())
      t.refuse("--task", "--task " + task, fmt::format("it is 1 to 6, or one of {}", fmt::join(kTasks, ", ")), "correct it");
    out.push_back(task);
  }
  return out;
}

// Returns the name of the speaker in a chat: AscendSpeed in the programs of 2023. Programs with task names or the flags
// below print ModelLink.
const char* label_of(const Translation& t) {
  for (const char* key : {"--prompt-type", "--hf-chat-template", "--use-kv-cache", "--use-mcore-models"})
    if (t.has(key)) return "ModelLink";
  for (const Json& one : t.has("--task") ? t.value("--task") : Json::array())
    if (one.get<std::string>().size() > 1) return "ModelLink";
  return "AscendSpeed";
}

// Appends the chat template. A chat always has one.
void add_chat_template(Translation& t, const std::string& program, bool chat) {
  const bool own = t.is_on("--hf-chat-template"), named = t.has("--prompt-type");
  if (!chat && (own || named)) t.command.push_back("--chat");
  if (own) return;
  if (named)
    t.command.insert(t.command.end(), {"--template", t.text("--prompt-type")});
  else if (chat)
    t.command.insert(t.command.end(), {"--template", program.find("alpaca") != std::string::npos ? "alpaca" : "empty"});
}

// Sets t.command to the command of a task.
void add_task(Translation& t, const std::string& task, const std::vector<std::string>& ends, const MegatronJob& job) {
  const bool chat = task == "chat", beams = task.starts_with("beam_search"),
             draws = chat || task == "do_sample" || task == "beam_search_with_sampling";
  std::vector<std::string>& c = t.command;
  c = {chat ? "chat" : "generate"};
  add_megatron_model(t, job);
  c.insert(c.end(), chat ? std::initializer_list<std::string>{"--modellink", label_of(t)}
                         : std::initializer_list<std::string>{"--prompt", "how are you?"});
  add_chat_template(t, job.program, chat);
  c.insert(c.end(), {"--max-new-tokens", std::to_string(t.has("--max-new-tokens") ? t.whole("--max-new-tokens") : 128)});
  if (draws) c.push_back("--sample");
  if (beams) c.insert(c.end(), {"--beams", "2"});
  // With ModelLink's own rules a beam search with sampling soon stops sampling, against the task's name.
  if (beams && !draws) c.insert(c.end(), {"--beam-rules", "modellink"});
  if (task == "return_output_log_probs") c.push_back("--json");
  if (draws || beams)
    for (const char* key : {"--temperature", "--top-k", "--top-p"})
      if (draws || std::string_view(key) != "--temperature") c.insert(c.end(), {key, t.value(key).dump()});
  if (!ends.empty()) c.push_back("--stop-tokens"), c.insert(c.end(), ends.begin(), ends.end());
  if (t.has("--seed") && draws) c.insert(c.end(), {"--seed", std::to_string(t.whole("--seed"))});
  add_megatron_running(t, job, !chat);
}

}  // namespace

Translation translate_inference(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const DialectTable table = megatron_running_table(megatron_inference_rows());
  Translation t = translate(table, read_flags(table, words, job.program), job.program);
  t.ranks = job.ranks;
  const std::vector<std::string> tasks = tasks_of(t);
  if (t.has("--task") && t.value("--task").size() == 1) t.shows("--task", t.value("--task")[0]);
  std::vector<std::string> ends = hold_tokenizer_words(t, true);
  if (t.has("--add-eos-token"))
    for (const Json& one : t.value("--add-eos-token")) ends.push_back(one.get<std::string>());
  std::vector<std::vector<std::string>> commands;
  for (const std::string& task : tasks) {
    if (!t.refusals().empty()) break;
    add_task(t, task, ends, job);
    commands.push_back(t.command);
  }
  if (!commands.empty()) t.command = commands[0], t.then.assign(commands.begin() + 1, commands.end());
  if (t.has("--prompt-type") && t.is_on("--hf-chat-template"))
    t.becomes("--prompt-type", KeyStatus::inert, "--hf-chat-template counts: the model's own template");
  const auto none = [&](bool (*is)(const std::string&)) { return std::none_of(tasks.begin(), tasks.end(), is); };
  const bool drawn = !none([](const std::string& s) { return s == "do_sample" || s == "chat" || s.ends_with("sampling"); });
  const bool filtered = drawn || !none([](const std::string& s) { return s == "beam_search"; });
  for (const auto& [key, acts] :
       {std::pair{"--temperature", drawn}, {"--seed", drawn}, {"--top-k", filtered}, {"--top-p", filtered}})
    if (t.has(key) && !acts) t.becomes(key, KeyStatus::inert, "this task does not sample");
  return t;
}

}  // namespace ravine
