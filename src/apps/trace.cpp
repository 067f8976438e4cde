#include "infer/trace.h"
#include "apps/adapters.h"
#include "apps/commands.h"
#include "apps/model_job.h"
#include "apps/rank_job.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/make_recipe.h"
#include "files/atomic.h"
#include "files/safetensors.h"

namespace ravine {
namespace {

struct TraceFlags {
  CommonFlags common;
  std::string model, input, out;
  std::vector<std::string> adapter;
  bool backward = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    v("model", model, "Hugging Face folder", required() & metavar("DIR") & reads_folder());
    v("adapter", adapter, "LoRA adapter of PEFT or ModelLink for this model, or OUTPUT/adapter of a run",
      named() & metavar("[NAME=]DIR") & reads_folder());
    v("input", input, "safetensors file with input_ids, optional labels, attention_mask, position_ids",
      required() & metavar("FILE") & reads());
    v("out", out, "safetensors file to write", required() & filled() & metavar("FILE") & writes());
    v("overwrite", overwrite, "replace an existing file of that name");
    v("backward", backward, "write the gradients of all weights too; with an adapter, of its trained parameters");
    common.each(v);
  }
};

class TraceFile : public TraceOutput {
 public:
  explicit TraceFile(const std::string& path) : writer_(path, {.metadata = {{"ravine", "trace"}}}) {}
  void declare(const std::string& name, DType dtype, const Shape& shape) override { writer_.declare(name, dtype, shape); }
  void write(const NamedTensor& t) override { writer_.write(t.name, t.data); }
  void commit(bool overwrite) { writer_.commit(may_overwrite(overwrite)); }

 private:
  SafetensorsWriter writer_;
};

int run_trace(TraceFlags& flags, Config& config) {
  refuse_existing_file(flags.out, flags.overwrite);
  const ResolvedAdapters resolved = resolve_model_and_adapters(flags.model, flags.adapter);
  const std::string adapter = one_adapter(resolved, "trace");
  RankJob job(config.parallel, config.train.threads);
  LoadedModel loaded;
  return job.run([&](World* world) {
    loaded = open_model_job(world, resolved.model, config, flags.common.backend, OpenFor::gradients, describe(flags), adapter);
    const TraceInput input = read_trace_input(flags.input, loaded.model->facts());
    if (!input.note.empty() && loaded.ranks().first()) print_stderr("note: " + escaped(flags.input) + ": " + input.note);
    if (flags.backward && input.labels.empty())
      throw UserError("--backward without labels", flags.input, "gradients need a loss", "add 'labels' [B,T] to the file");
    const Recipe recipe = make_recipe(config.precision, loaded.kernels);
    std::unique_ptr<TraceFile> file;
    if (loaded.ranks().first()) file = std::make_unique<TraceFile>(flags.out);
    struct Nothing : TraceOutput {
      void declare(const std::string&, DType, const Shape&) override {}
      void write(const NamedTensor&) override {}
    } nothing;
    trace(loaded, input, flags.backward, recipe, file ? static_cast<TraceOutput&>(*file) : nothing);
    if (file) {
      file->commit(flags.overwrite);
      print_stderr("saved    " + escaped(flags.out));
    }
    loaded = {};
  });
}

}  // namespace

Command trace_command() {
  return command<TraceFlags>(
      {.name = "trace",
       .summary = "run a forward (and backward) pass on given ids; write activations, logits, loss, gradients",
       .example = "ravine trace --model my-llama --input ids.safetensors --out trace.safetensors --backward",
       .about =
           "Runs the model once on given token ids, without an optimizer. The file holds activations, logits and, with labels, the loss.",
       .sections = {"precision", "lora.base", "parallel.data", "parallel.tensor", "parallel.pipeline", "parallel.sequence",
                    "parallel.zero", "parallel.zero_threshold", "parallel.virtual", "parallel.stage_layers",
                    "parallel.patience", "parallel.interface"}},
      "Precision", run_trace);
}

}  // namespace ravine
