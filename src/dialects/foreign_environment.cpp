#include "dialects/foreign_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "config/step_ranges.h"

namespace ravine {
namespace {

constexpr const char* kDump = "MINDSPORE_DUMP_CONFIG";
constexpr const char* kDumpFolder = "MS_DIAGNOSTIC_DATA_PATH";
constexpr const char* kSums =
    "sums over ranks and inside kernels have a fixed order here, so that a run has the same bits each time";
constexpr const char* kFinite =
    "numbers that are not finite stay so and are found in losses and gradients; no result is cut to the largest number";
constexpr const char* kRuntime = "it is of the other program's runtime, which does not run here";

constexpr struct {
  const char *name, *reason;
} kVariables[] = {
    {"HCCL_DETERMINISTIC", kSums},
    {"LCCL_DETERMINISTIC", kSums},
    {"NCCL_DETERMINISTIC", kSums},
    {"TE_PARALLEL_COMPILER", kSums},
    {"CUSTOM_MATMUL_SHUFFLE", kSums},
    {"FLASH_ATTENTION_DETERMINISTIC", kSums},
    {"ASCEND_LAUNCH_BLOCKING", "calls run in a fixed order, and an error is that of the call that made it"},
    {"INF_NAN_MODE_ENABLE", kFinite},
    {"MS_ASCEND_CHECK_OVERFLOW_MODE", kFinite},
    {"MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT", "a dump holds what calls read and write, and no other outputs"},
    {"MS_MEMORY_STATISTIC", "memory is planned before the first step, and the run's line of memory shows it"},
    {"MS_ENABLE_TFT", "a run that dies goes on from its newest checkpoint"},
    {"MINDIO_FOR_MINDSPORE", "a run that dies goes on from its newest checkpoint"},
    {"MS_ENABLE_GRACEFUL_EXIT", "SIGTERM always saves and stops"},
    {"HCCL_CONNECT_TIMEOUT", "parallel.patience says how long a silent rank is waited for"},
    {"HCCL_EXEC_TIMEOUT", "parallel.patience says how long a silent rank is waited for"},
    {"TASK_QUEUE_ENABLE", kRuntime},
};

bool is_of_runtime(std::string_view name) { return name.starts_with("MS_") || name.starts_with("HCCL_"); }

// Converts a list of iterations to steps: "0|5-8" gives "1|6-9". "all" gives ""; another text gives nothing.
std::optional<std::string> steps_of(const std::string& iterations) {
  if (iterations == "all") return "";
  if (iterations.empty() || !StepRanges::parse(iterations)) return {};
  std::string out, number;
  for (const char c : iterations + "|") {
    if (c >= '0' && c <= '9') {
      number += c;
      continue;
    }
    if (number.size() > 9) return {};
    if (!number.empty()) out += std::to_string(std::stoll(number) + 1);
    number.clear(), out += c;
  }
  out.pop_back();
  return out;
}

}  // namespace

std::map<std::string, std::string> foreign_environment() {
  std::map<std::string, std::string> out;
  const auto look = [&](const char* name) {
    if (const char* value = std::getenv(name); value && *value) out[name] = value;
  };
  for (const auto& variable : kVariables) look(variable.name);
  look(kDump), look(kDumpFolder);
  for (char** entry = environ; entry && *entry; ++entry)
    if (const std::string_view text = *entry; is_of_runtime(text)) look(std::string(text.substr(0, text.find('='))).c_str());
  return out;
}

std::vector<std::string> environment_notices(const std::map<std::string, std::string>& set) {
  std::vector<std::string> out;
  for (const auto& [name, reason] : kVariables)
    if (const auto it = set.find(name); it != set.end() && !it->second.empty())
      out.push_back(fmt::format("{}={} of the environment changes nothing: {}", name, it->second, reason));
  for (const auto& [name, value] : set)
    if (is_of_runtime(name) && !value.empty() && name != kDumpFolder &&
        std::none_of(std::begin(kVariables), std::end(kVariables), [&](const auto& v) { return name == v.name; }))
      out.push_back(fmt::format("{}={} of the environment changes nothing: {}", name, value, kRuntime));
  return out;
}

void set_mindspore_dump(Translation& t, const std::map<std::string, std::string>& set) {
  const auto named = set.find(kDump);
  if (named == set.end() || named->second.empty() || t.evaluates || !t.command.empty()) return;
  const std::string& file = named->second;
  const auto refuse = [&](const std::string& what, const std::string& rule, const std::string& fix) {
    t.refuse({kDump, what, file, rule, fix});
  };
  Json all;
  try {
    all = read_json(file);
  } catch (const UserError& e) {
    return refuse(fmt::format("{}={}", kDump, file), e.what(), "correct the file, or unset the variable");
  }
  const auto part = all.is_object() ? all.find("common_dump_settings") : all.end();
  if (!all.is_object() || part == all.end() || !part->is_object())
    return refuse("common_dump_settings is not there", "it says what is dumped", "correct the file, or unset the variable");
  const auto whole = [&](const char* key) {
    const auto it = part->find(key);
    return it != part->end() && it->is_number_integer() ? it->get<int64_t>() : 0;
  };
  const auto text = [&](const char* key) {
    const auto it = part->find(key);
    return it != part->end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  if (whole("op_debug_mode") != 0)
    refuse(fmt::format("op_debug_mode is {}", whole("op_debug_mode")), "0 is followed: operators do not say that they overflow",
           "write 0, or type probe.dump={dir: DIR, on: nan} behind the line");
  if (whole("dump_mode") != 0)
    refuse(fmt::format("dump_mode is {}", whole("dump_mode")),
           "0 is followed: kernels of MindSpore have other names than calls",
           "write 0, or type probe.dump={dir: DIR, paths: ['model.layers.0.*']} behind the line");
  if (whole("initial_iteration") != 0)
    refuse("initial_iteration is not 0", "iterations count from the first one of the run", "leave it out");
  const auto steps = steps_of(text("iteration"));
  if (!steps)
    refuse(fmt::format("iteration is '{}'", text("iteration")), "it is all, or numbers and ranges between bars, as in 0|5-8",
           "correct it");
  std::string folder = text("path");
  if (const auto base = set.find(kDumpFolder); folder.empty() && base != set.end()) folder = base->second + "/debug_dump";
  if (folder.empty())
    refuse("path is empty", "it names the folder of the dump", fmt::format("write it, or set {}", kDumpFolder));
  const int64_t sides = whole("input_output");
  if (sides < 0 || sides > 2) refuse(fmt::format("input_output is {}", sides), "it is 0, 1 or 2", "correct it");
  if (!steps || folder.empty() || sides < 0 || sides > 2) return;
  constexpr const char* kSides[] = {"both", "input", "output"};
  Json dump{{"dir", folder},
            {"steps", *steps},
            {"what", text("saved_data") == "statistic" ? "statistics" : "tensors"},
            {"io", kSides[sides]}};
  if (const auto ranks = part->find("support_device"); ranks != part->end() && ranks->is_array()) dump["ranks"] = *ranks;
  t.set_option("probe.dump", Json::array({dump}), fmt::format("{}, {}", file, kDump));
  t.notice(fmt::format("{}: a dump of steps {} goes into {} (ravine info {})", kDump, steps->empty() ? "1 and on" : *steps,
                       folder, folder));
}

}  // namespace ravine
