#include "apps/commands.h"
#include "files/safetensors.h"
#include "infer/trace.h"
#include "train/step.h"

namespace ravine {
namespace {

struct TraceFlags {
  CommonFlags common;
  std::string model, input, out, adapter;
  bool backward = false;
  template <class V>
  void each(V&& v) {
    v("model", model, "Hugging Face folder", required() & metavar("DIR"));
    v("input", input, "safetensors file with input_ids, optional labels, attention_mask, position_ids", required() & metavar("FILE"));
    v("out", out, "safetensors file to write", required() & metavar("FILE"));
    v("backward", backward, "also the gradients of all weights");
    v("adapter", adapter, "LoRA folder (a later release)", metavar("DIR"));
    common.each(v);
  }
};

int run_trace(TraceFlags& flags, Config& config) {
  if (!flags.adapter.empty()) throw UserError("--adapter", "command line", "LoRA comes in a later release", "leave it out");
  DType compute = compute_type(config.precision, flags.common.backend);
  Session session = open_session(flags.model, compute, flags.common.backend, OpenFor::gradients,
                                 bf16_products(config.precision, compute, flags.common.backend));
  TraceInput input = read_trace_input(flags.input, session.model->facts());
  if (flags.backward && input.labels.empty())
    throw UserError("--backward without labels", flags.input, "gradients need a loss", "add 'labels' [B,T] to the file");
  Recipe recipe = make_recipe(config.precision, session.kernels);
  std::vector<NamedTensor> tensors = trace(session, input, flags.backward, recipe);
  SafetensorsWriter writer(flags.out);
  for (const NamedTensor& t : tensors) writer.declare(t.name, t.dtype, t.shape);
  for (const NamedTensor& t : tensors) writer.write(t.name, t.data);
  writer.commit();
  return 0;
}

}  // namespace

Command trace_command() {
  return command<TraceFlags>({.name = "trace",
                              .summary = "one forward (and backward) pass on given ids; writes activations, logits, loss, gradients",
                              .example = "ravine trace --model my-llama --input ids.safetensors --out trace.safetensors --backward",
                              .sections = {"precision"}, .alone = true},
                             "Precision", run_trace);
}

}  // namespace ravine
