// `ravine megatron`: flags and launch scripts of Megatron-LM and ModelLink.
#include "dialects/megatron.h"

#include "apps/commands.h"
#include "apps/dialect_command.h"
#include "checks/job_facts.h"
#include "dialects/launch_script.h"

namespace ravine {
namespace {

Translation translate_words(const std::vector<PlacedWord>& words, const DialectFlags& flags) {
  MegatronJob job = megatron_job(flags.ranks, !flags.explain && !flags.print_config);
  if (flags.script.empty()) return translate_megatron(words, job);
  const LaunchScript script = script_of(flags);
  LaunchedProgram launched = launched_program(script);
  for (const auto& [path, text] : script.written)
    if (text.problem.empty()) job.written[path] = text.text;
  job.program = launched.program.text.substr(launched.program.text.rfind('/') + 1);
  if (job.ranks == 0) job.ranks = launched.ranks;
  launched.flags.insert(launched.flags.end(), words.begin(), words.end());  // typed flags override the script
  return translate_megatron(launched.flags, job);
}

}  // namespace

Command megatron_command(const std::vector<Command>& others) {
  return dialect_command(
      {.name = "megatron",
       .summary = "train by the flags or the launch script of Megatron-LM and ModelLink",
       .example = "ravine megatron --script pretrain_llama.sh --print-config",
       .about =
           "Translates each flag into options of Ravine and runs the result. A flag that Ravine cannot follow is an error; --explain shows each flag's fate.",
       .lasting = true,
       .stoppable = true},
      "Other programs", translate_words, megatron_key_sections, others);
}

}  // namespace ravine
