#include "apps/plan_procedure.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "dialects/deepspeed_procedure.h"
#include "files/atomic.h"
#include "plan/procedure.h"

namespace ravine {
namespace {

std::string bytes_text(int64_t bytes) { return bytes == 0 ? "-" : human_bytes(static_cast<double>(bytes)); }

std::string verdict(const ProcedureStep& s) { return !s.possible ? "nothing to do" : s.fits ? "fits" : "does not fit"; }

}  // namespace

std::vector<std::string> procedure_words(const std::vector<std::string>& words) {
  std::vector<std::string> out = words;
  if (std::find(out.begin(), out.end(), "--procedure") == out.end()) return out;
  for (size_t i = 0; i < out.size(); ++i) {
    const bool joined = out[i].starts_with("--config=") && out[i].ends_with(".json");
    if (joined || (out[i] == "--config" && i + 1 < out.size() && out[i + 1].ends_with(".json")))
      out[i].replace(0, 8, "--deepspeed");
  }
  return out;
}

int print_procedure(Model& model, const Config& options, const DeepSpeedStart& start, const ProcedureCall& call) {
  const Procedure p = walk_procedure(model, options, call.backend, call.ranks, call.memory, call.free_batch);
  const ProcedureStep* choice = p.choice();
  std::string file;
  if (choice) file = deepspeed_json_of(start, choice->config, run_layout(choice->config, call.ranks, model).mesh.data);
  if (call.as_json) {
    Json list = Json::array();
    for (const ProcedureStep& s : p.steps)
      list.push_back({{"step", s.number},
                      {"what", s.what},
                      {"possible", s.possible},
                      {"device", s.device},
                      {"host", s.host},
                      {"disk", s.disk},
                      {"fits", s.possible && s.fits}});
    fmt::print("{}\n", Json{{"ranks", call.ranks},
                            {"memory_available", call.memory},
                            {"steps", list},
                            {"first", choice ? Json(choice->number) : Json()},
                            {"ds_config", choice ? Json::parse(file) : Json()}}
                           .dump(-1, ' ', true, Json::error_handler_t::replace));
    return choice ? 0 : 1;
  }
  // Only the file goes to stdout, so that > can save it.
  for (const std::string& notice : start.notices) print_stderr(notice);
  print_stderr(fmt::format("{} rank{} with {} each; micro batches of 1 sequence, then from the fastest step on\n", call.ranks,
                           call.ranks == 1 ? "" : "s", human_bytes(static_cast<double>(call.memory))));
  print_stderr(fmt::format("{:>4}  {:>10} {:>10} {:>10}  {:<13} {}", "step", "device", "host", "disk", "", ""));
  for (const ProcedureStep& s : p.steps)
    print_stderr(fmt::format("{:>4}  {:>10} {:>10} {:>10}  {:<13} {}", s.number == 10 ? "" : fmt::format("{}", s.number),
                             bytes_text(s.device), bytes_text(s.host), bytes_text(s.disk), verdict(s), s.what));
  if (!choice) {
    print_stderr(
        fmt::format("\nnothing fits: the least is {} on a device{}", human_bytes(static_cast<double>(p.steps.back().device)),
                    p.ranks_enough ? fmt::format("; {} ranks would do", *p.ranks_enough)
                                   : std::string("; a smaller data.sequence_length, or tensor ranks, divide what is left")));
    return 1;
  }
  int first = 0;
  for (const ProcedureStep& s : p.steps)
    if (first == 0 && s.possible && s.fits) first = s.number;
  print_stderr(
      fmt::format("\nstep {1} is the first that fits, with micro batches of {0}; beside this file the Trainer takes "
                  "--gradient_checkpointing --per_device_train_batch_size {0}",
                  choice->config.train.micro_batch, first));
  if (choice->host > 0 || choice->disk > 0)
    print_stderr("where the CPU computes nothing moves to its own memory: a rank needs the sum of device and host here");
  if (call.json.empty())
    fmt::print("{}", file);
  else
    write_file_atomic(call.json, file, may_overwrite(call.overwrite)), print_stderr("saved    " + escaped(call.json));
  return 0;
}

}  // namespace ravine
