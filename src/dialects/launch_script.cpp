#include "dialects/launch_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/read_text.h"
#include "dialects/shell_run.h"

namespace ravine {
namespace {

std::string file_of(const LaunchScript& script, const ScriptWord& word) { return word.file.empty() ? script.name : word.file; }
std::string location_of(const LaunchScript& script, const ScriptWord& word) {
  return fmt::format("{}:{}", file_of(script, word), word.line);
}

// Returns a text on files that the script reads and that do not exist, a likely cause of other errors.
std::string missing_of(const LaunchScript& script) {
  std::string out;
  for (const ScriptWord& w : script.missing)
    if (w.problem.empty()) out += fmt::format("; {} ({}), which it reads, is not there", w.text, location_of(script, w));
  return out;
}

std::string file_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Returns the number after one of `names`: `--name N`, `--name=N` or `-n N`; nothing if no name is there.
std::optional<int64_t> launcher_number(const LaunchScript& script, const ScriptCommand& words, size_t end,
                                       std::initializer_list<std::string_view> names) {
  for (size_t i = 0; i < end; ++i) {
    std::string text = words[i].text;
    const size_t equals = text.find('=');
    const std::string value_here = equals == std::string::npos ? "" : text.substr(equals + 1);
    text = text.substr(0, equals);
    std::replace(text.begin(), text.end(), '-', '_');
    if (std::find(names.begin(), names.end(), text) == names.end()) continue;
    if (equals == std::string::npos && i + 1 >= end) return {};
    const ScriptWord& option_word = equals == std::string::npos ? words[i + 1] : words[i];
    const PlacedWord known = known_word(script, option_word);
    const std::string value = equals == std::string::npos ? known.text : value_here;
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || stop != value.data() + value.size() || number < 1 || number > 1 << 20)
      throw UserError(fmt::format("{} is '{}'", words[i].text.substr(0, 40), value.substr(0, 40)), known.source,
                      "the launcher starts a whole number of ranks", "write the number, or give --ranks");
    return number;
  }
  return {};
}

bool is_launcher(const std::string& word) {
  const std::string name = file_part(word);
  for (const char* known : {"torchrun", "deepspeed", "mpirun", "mpiexec", "srun", "accelerate", "msrun", "nohup", "env",
                            "numactl", "exec", "time", "timeout", "sudo", "taskset", "stdbuf", "setsid", "horovodrun"})
    if (name == known) return true;
  return name.starts_with("python");
}

}  // namespace

LaunchScript parse_launch_script(std::string_view text, const std::string& name, const ShellArguments& arguments) {
  if (static_cast<int64_t>(text.size()) > kScriptBytes)
    throw UserError("script is too long", name, "a launch script has 1 MiB at most",
                    "name the script that launches the program");
  return follow_shell(text, name, arguments);
}

LaunchScript read_launch_script(const std::string& path, const ShellArguments& arguments) {
  return parse_launch_script(read_text(path, kScriptBytes, "launch script"), path, arguments);
}

PlacedWord known_word(const LaunchScript& script, const ScriptWord& word) {
  if (!word.problem.empty())
    throw UserError(word.problem, fmt::format("{}:{}", file_of(script, word), word.problem_line),
                    "scripts are read, and nothing of them is run" + missing_of(script), "write there what it comes to");
  return {word.text, location_of(script, word)};
}

size_t chosen_launch(const LaunchScript& script, const std::vector<std::string>& shown,
                     const std::vector<ScriptWord>& launches) {
  const auto number = static_cast<size_t>(script.launch);
  std::string all;
  for (size_t i = 0; i < shown.size(); ++i)
    all += fmt::format("{}{}: {} ({})", i == 0 ? "" : "; ", i + 1, shown[i], location_of(script, launches[i]));
  if (number > launches.size())
    throw UserError(fmt::format("--launch {}", number), script.name,
                    fmt::format("the script starts {}: {}", launches.size(), all), "choose one of them");
  if (number == 0 && launches.size() > 1)
    throw UserError(fmt::format("the script starts {} programs", launches.size()), script.name, all,
                    "choose one of them by --launch NUMBER");
  return number == 0 ? 0 : number - 1;
}

void refuse_other_folder(const LaunchScript& script, const ScriptCommand& launch) {
  namespace fs = std::filesystem;
  fs::path folder = ".";
  const ScriptCommand* moves = nullptr;
  for (const ScriptCommand& words : script.commands) {
    if (&words == &launch) break;
    if (words[0].text != "cd" && words[0].text != "pushd" && words[0].text != "popd") continue;
    moves = &words;
    folder /= words.size() > 1 ? known_word(script, words[1]).text : "another folder";
  }
  std::error_code error;
  if (!moves || fs::equivalent(folder, ".", error)) return;
  throw UserError(fmt::format("{} {}", (*moves)[0].text, moves->size() > 1 ? (*moves)[1].text.substr(0, 80) : ""),
                  location_of(script, (*moves)[0]), "paths of the line are looked for in the folder where ravine is started",
                  "start it in that folder, and take the command out of the script");
}

std::vector<ScriptLaunch> launches_of(const LaunchScript& script) {
  std::vector<ScriptLaunch> out;
  for (const ScriptCommand& words : script.commands) {
    if (!is_launcher(words[0].text) && !words[0].text.ends_with(".py")) continue;
    const auto program = std::find_if(words.begin(), words.end(), [](const ScriptWord& w) { return w.text.ends_with(".py"); });
    if (program != words.end()) {
      out.push_back({&words, static_cast<size_t>(program - words.begin())});
      continue;
    }
    for (size_t i = 1; i + 1 < words.size(); ++i)  // python -m pretrain_gpt
      if (words[i].text == "-m" && words[i + 1].text.find("torch.") != 0 && words[i + 1].text.find('.') == std::string::npos &&
          words[i + 1].text != "deepspeed" && words[i + 1].text != "accelerate" && words[i + 1].text != "pip") {
        out.push_back({&words, i + 1});
        break;
      }
  }
  return out;
}

LaunchedProgram launched_program(const LaunchScript& script) {
  const std::vector<ScriptLaunch> launches = launches_of(script);
  std::vector<ScriptWord> programs;
  std::vector<std::string> shown;
  for (const ScriptLaunch& l : launches) {
    programs.push_back((*l.words)[l.program]);
    shown.push_back(file_part(programs.back().text));
  }
  if (launches.empty()) {
    const std::string end = script.ended.line > 0 ? fmt::format(" before it ends ({})", location_of(script, script.ended)) : "";
    throw UserError(
        "no program is launched" + end, script.name,
        "a launch script starts a program NAME.py by python, torchrun, deepspeed, mpirun or srun" + missing_of(script),
        "name the script that launches it");
  }
  const size_t number = chosen_launch(script, shown, programs), at = launches[number].program;
  const ScriptCommand& launch = *launches[number].words;
  refuse_other_folder(script, launch);
  LaunchedProgram out{.program = known_word(script, launch[at]), .flags = {}};
  if (!out.program.text.ends_with(".py")) out.program.text += ".py";
  for (size_t k = at + 1; k < launch.size(); ++k) out.flags.push_back(known_word(script, launch[k]));
  const auto local =
      launcher_number(script, launch, at, {"__nproc_per_node", "__num_gpus", "__num_processes", "_n", "_np", "__ntasks"});
  const auto nodes = launcher_number(script, launch, at, {"__nnodes", "__num_nodes", "__num_machines"});
  const auto all = launcher_number(script, launch, at, {"__worker_num"});  // worker_num of msrun counts all nodes
  out.ranks = all.value_or(local.value_or(1) * nodes.value_or(1));
  return out;
}

}  // namespace ravine
