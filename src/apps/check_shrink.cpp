#include <filesystem>

#include "apps/check.h"
#include "apps/training.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/program_name.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "checks/shrink.h"
#include "config/load.h"
#include "dialects/reverse.h"
#include "files/atomic.h"
#include "io/convert/convert.h"
#include "probe/curves.h"
#include "runs/run_paths.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

struct ShrinkFlags {
  std::string side, out, reference;
  int64_t layers = 2, steps = 100;
  SideFacts facts;
  CommonFlags common;
  template <class V>
  void each(V&& v) {
    v("config", side, "a training, as `ravine check config` takes it", positional() & required() & reads() & metavar("CONFIG"));
    v("layers", layers, "layers to keep, the first ones", between(1, 1e6));
    v("steps", steps, "steps of the reduced case", between(1, 1e9));
    v("out", out, "folder to write", required() & filled() & writes() & metavar("DIR"));
    v("reference", reference, "curve of the other side's reduced case: train here, and tell if the symptom still shows",
      reads() & metavar("CURVE"));
    v("samples", facts.samples, "samples of an epoch, for a side that counts epochs of data that are not here",
      between(0, 1e12));
    common.each(v);
  }
};

// The files of the reduced case for the program of the side.
struct OtherSide {
  std::string text, file, command, weights;
};

OtherSide other_side(const Side& side, const ReducedCase& reduced, const std::string& out) {
  OtherSide other;
  const auto at = [&](const char* name) { return (fs::path(out) / name).string(); };
  if (side.program == Program::mindformers) {
    other.text = mindformers_form(reduced.config, reduced.model).text, other.file = at("mindformers.yaml");
    other.command = fmt::format("python run_mindformer.py --config {} --run_mode train", shell_word(other.file));
    other.weights = at("mindformers");
  } else if (side.program == Program::trainer) {
    const ForeignForm form = deepspeed_form(reduced.config, reduced.model);
    other.text = form.text, other.file = at("deepspeed.json");
    other.command = fmt::format("deepspeed run_clm.py --deepspeed {}", shell_word(other.file));
    for (const std::string& flag : form.flags) other.command += " " + shell_word(flag);
  } else {
    other.text = megatron_form(reduced.config, reduced.model).text, other.file = at("megatron.txt");
    other.command = fmt::format("torchrun --nproc_per_node 1 pretrain_gpt.py $(cat {})", shell_word(other.file));
    other.weights = at("megatron");
  }
  return other;
}

std::string readme(const ShrinkFlags& flags, const ReducedCase& reduced, const OtherSide& other, bool weights) {
  const std::string run = shell_word((fs::path(flags.out) / "run").string()),
                    config = shell_word((fs::path(flags.out) / "run.yaml").string());
  std::string text =
      fmt::format("# The reduced case of {}\n\nThe first {}, a constant learning rate, nothing random, one rank. Changed:\n\n",
                  flags.side, counted(flags.layers, "layer"));
  for (const std::string& change : reduced.changes) text += "- " + change + "\n";
  text += fmt::format("\nThis side:\n\n    {} train --config {}\n\nThe other side:\n\n    {}\n\n", program_word(), config,
                      other.command);
  if (weights)
    text += fmt::format("Both begin with the weights of {}/model{}.\n\n", flags.out,
                        other.weights.empty() ? "" : fmt::format(", in the other side's layout {}", other.weights));
  else
    text += fmt::format(
        "The config names no stored weights. Draw them once, and give both sides the same:\n\n    {0} train --config {1} train.steps=1 optimizer.lr=0 optimizer.weight_decay=0 train.output={2}-weights\n    {0} convert --input {2}-weights/model --output {2}-other --to {3}\n    {0} train --config {1} model.weights={2}-weights/model\n\n",
        program_word(), config, run,
        other.weights.ends_with("mindformers") ? "mindformers"
        : other.weights.empty()                ? "hf"
                                               : "megatron-mcore");
  text += fmt::format(
      "Does the symptom still show?\n\n    {0} check config {1} {3} --samples {4}\n    {0} curves {2} LOG_OF_THE_OTHER_SIDE\n\nIf it does not, put features back one by one, or keep more layers.\n",
      program_word(), config, run, shell_word(other.file), flags.steps * reduced.config.train.global_batch);
  return text;
}

// Trains the reduced case and holds its curve against the other side's. Returns the exit status.
int compare_with(const ShrinkFlags& flags, const std::string& file) {
  Config config = load_config(file);
  if (const int status = run_training(config, flags.common.backend); status != 0) return status;
  const TrainingCurve ours = read_training_curve(config.train.output),
                      theirs = read_training_curve(resolve_run(flags.reference));
  const CurveVerdict verdict = judge_curves(ours, theirs, {}, {});
  print_stderr(
      fmt::format("symptom  {}: {}",
                  verdict.agrees() ? "it no longer shows; put layers or features back" : "it still shows in the reduced case",
                  verdict.text()));
  return verdict.agrees() ? 0 : 1;
}

int run_shrink(ShrinkFlags& flags, Config&) {
  std::error_code error;
  if (fs::exists(flags.out, error) && !fs::is_empty(flags.out, error))
    throw UserError(flags.out + " is not empty", "--out", "the reduced case is a new folder", "name another folder");
  const Side side = load_side(flags.side, flags.facts);
  ReducedCase reduced = reduced_case(side, flags.layers, flags.steps);
  fs::create_directories(flags.out);
  const ModelOptions& model = side.config.model;
  const std::string weights = model.weights.empty() ? model.path : model.weights,
                    folder = (fs::path(flags.out) / "model").string();
  const bool stored = !weights.empty() && fs::exists(weights, error);
  reduced.config.train.output = (fs::path(flags.out) / "run").string();
  OtherSide other = other_side(side, reduced, flags.out);
  if (stored) {
    const int64_t count = write_first_layers(weights, side.model, reduced, reduced.config.model.tokenizer, folder);
    print_stderr(
        fmt::format("weights  {}: {} tensors of the first {}", escaped(folder), count, counted(flags.layers, "layer")));
    reduced.config.model.config.clear(), reduced.config.model.path = folder;
    if (!other.weights.empty()) {
      ConvertOptions o{.input = folder,
                       .output = other.weights,
                       .to = side.program == Program::mindformers ? ConvertTarget::mindformers : ConvertTarget::megatron_mcore};
      convert_weights(o, [](int64_t, int64_t) {});
      print_stderr("weights  " + escaped(other.weights));
    }
  } else if (!weights.empty()) {
    print_stderr(fmt::format("notice: the weights {} are not here: the reduced case draws its own", escaped(weights)));
  }
  const std::string file = (fs::path(flags.out) / "run.yaml").string();
  write_file_atomic(file, to_yaml(reduced.config));
  write_file_atomic(other.file, other.text);
  write_file_atomic((fs::path(flags.out) / "README.md").string(), readme(flags, reduced, other, stored));
  for (const std::string& change : reduced.changes) print_stderr("changed  " + escaped(change));
  print_stderr(
      fmt::format("saved    {}: run.yaml, {}, README.md", escaped(flags.out), fs::path(other.file).filename().string()));
  return flags.reference.empty() ? 0 : compare_with(flags, file);
}

}  // namespace

Command check_shrink_command() {
  return command<ShrinkFlags>(
      {.name = "check shrink",
       .summary = "write the reduced case of a training: few layers, a constant learning rate, nothing random",
       .example = "ravine check shrink pretrain_llama.sh --layers 2 --out reduced",
       .about =
           "Writes a folder with the config and the weights of both sides, and a README with their commands. With --reference the case is trained here; the exit status is 1 if its curve parts from the reference.",
       .sections = {},
       .alone = true,
       .lasting = true},
      "", run_shrink);
}

}  // namespace ravine
