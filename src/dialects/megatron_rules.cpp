// The checks of flags that Megatron's programs make before they train.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "dialects/megatron_run.h"

namespace ravine {
namespace {

bool divides(int64_t by, int64_t n) { return by > 0 && n % by == 0; }

// Returns a required size; a missing flag is refused.
int64_t needed(Translation& t, const std::string& key) {
  if (!t.has(key) && std::none_of(t.refusals().begin(), t.refusals().end(), [&](const KeyRefusal& r) { return r.key == key; }))
    t.refuse(key, key + " is not given", "the program needs it", fmt::format("write {} N", key));
  const int64_t n = t.whole(key);
  if (t.has(key) && n < 1) t.refuse(key, fmt::format("{} is {}", key, n), "it is 1 or more", "correct the value");
  return std::max<int64_t>(n, 0);
}

void excludes(Translation& t, const std::string& a, const std::string& b, const std::string& rule) {
  if (t.has(a) && t.has(b)) t.refuse(b, fmt::format("{} with {}", a, b), rule, "leave one of them out");
}

void check_ranks(Translation& t, const MegatronSizes& s) {
  if (s.ranks == 0) return;
  const std::string tensor = "--tensor-model-parallel-size", pipeline = "--pipeline-model-parallel-size";
  if (!divides(s.tensor, s.ranks))
    t.refuse(tensor, fmt::format("{} ranks, {} {}", s.ranks, tensor, s.tensor),
             "the world size is divisible by the tensor parallel size", "start other ranks, or change it");
  else if (!divides(s.tensor * s.pipeline, s.ranks))
    t.refuse(pipeline, fmt::format("{} ranks, {} {} and {} {}", s.ranks, tensor, s.tensor, pipeline, s.pipeline),
             "the world size is divisible by the tensor parallel size times the pipeline parallel size",
             "start other ranks, or change one of them");
}

void check_batch(Translation& t, const MegatronSizes& s) {
  if (s.data < 1 || s.micro < 1 || s.global < 1) return;
  if (!divides(s.micro * s.data, s.global))
    t.refuse("--global-batch-size", fmt::format("global batch size {}", s.global),
             fmt::format("it is divisible by the micro batch size ({}) times the data parallel size ({})", s.micro, s.data),
             "change one of them");
}

void check_shape(Translation& t, const MegatronSizes& s) {
  excludes(t, "--num-layers", "--encoder-num-layers", "they are two names of one size");
  if (s.layers > 0 && !divides(s.pipeline, s.layers) && !t.has("--num-layer-list") && !t.has("--manual-layers"))
    t.refuse("--num-layers", fmt::format("{} layers, --pipeline-model-parallel-size {}", s.layers, s.pipeline),
             "the number of layers is divisible by the pipeline parallel size", "change one of them");
  if (s.heads < 1) return;
  if (!t.has("--kv-channels") && s.hidden > 0 && !divides(s.heads, s.hidden))
    t.refuse("--num-attention-heads", fmt::format("--hidden-size {}, --num-attention-heads {}", s.hidden, s.heads),
             "the hidden size is divisible by the heads, or --kv-channels says how large one is", "change one of them");
  if (!divides(s.tensor, s.heads))
    t.refuse("--num-attention-heads", fmt::format("{} attention heads, --tensor-model-parallel-size {}", s.heads, s.tensor),
             "the heads are divisible by the tensor parallel size", "change one of them");
  if (t.is_on("--group-query-attention") && !divides(s.groups, s.heads))
    t.refuse("--num-query-groups", fmt::format("--num-query-groups {}, {} attention heads", s.groups, s.heads),
             "the heads are divisible by the query groups", "change one of them");
  const int64_t positions = t.whole("--max-position-embeddings"), length = t.whole("--seq-length");
  if (positions > 0 && length > positions)
    t.refuse("--seq-length", fmt::format("--seq-length {}, --max-position-embeddings {}", length, positions),
             "sequences are not longer than the positions", "change one of them");
}

void check_rates(Translation& t, MegatronAge age) {
  excludes(t, "--fp16", "--bf16", "a run computes in one type");
  excludes(t, "--lr-warmup-fraction", "--lr-warmup-iters", "only one of them says how long the warm-up is");
  excludes(t, "--lr-warmup-fraction", "--lr-warmup-samples", "only one of them says how long the warm-up is");
  excludes(t, "--train-iters", "--train-samples", "a run is counted in iterations or in samples");
  const bool samples = t.has("--train-samples"), both = samples && t.has("--train-iters");
  if (!samples && !both)
    for (const char* key : {"--lr-decay-samples", "--lr-warmup-samples"})
      if (t.has(key))
        t.refuse(key, fmt::format("{} of a run in iterations", key),
                 "--train-iters goes with iteration-based decay and warm-up", "write it in iterations, or --train-samples");
  if (!samples && t.has("--rampup-batch-size"))
    t.refuse("--rampup-batch-size", "--rampup-batch-size of a run in iterations",
             "iteration-based training has no batch size that ramps up", "write --train-samples");
  if (samples && !both)
    for (const char* key : {"--lr-decay-iters", "--lr-warmup-iters"})
      if (t.has(key))
        t.refuse(key, fmt::format("{} of a run in samples", key), "--train-samples goes with sample-based decay and warm-up",
                 "write it in samples, or --train-iters");
  if (!samples && !t.has("--train-iters"))
    t.refuse("--train-iters", "--train-iters is not given", "the run must know its length",
             "write --train-iters or --train-samples");
  if (!t.has("--lr")) t.refuse("--lr", "--lr is not given", "the program needs it", "write --lr RATE");
  if (t.has("--lr") && t.number("--min-lr") > t.number("--lr"))
    t.refuse("--min-lr", fmt::format("--min-lr {}, --lr {}", t.number("--min-lr"), t.number("--lr")),
             "the least rate is not above the rate", "change one of them");
  if (t.has("--lr") && t.number("--lr-warmup-init") > t.number("--lr"))
    t.refuse("--lr-warmup-init", fmt::format("--lr-warmup-init {}, --lr {}", t.number("--lr-warmup-init"), t.number("--lr")),
             "the warm-up rises to the rate", "change one of them");
  if (t.has("--save") && !t.has("--save-interval"))
    t.refuse("--save-interval", "--save without --save-interval", "what is saved is saved every so many steps",
             "write --save-interval N");
  if (t.is_on("--release-fp32-grad") && t.text("--optimizer") != "adam")
    t.refuse("--release-fp32-grad", fmt::format("--release-fp32-grad with --optimizer {}", t.text("--optimizer")),
             "it is for adam only", "leave one of them out");
  excludes(t, "--override-opt_param-scheduler", "--use-checkpoint-opt_param-scheduler", "one of them counts");
  excludes(t, "--override-lr-scheduler", "--use-checkpoint-lr-scheduler", "one of them counts");
  if (age == MegatronAge::core && t.is_on("--add-bias-linear") && t.is_on("--disable-bias-linear"))
    excludes(t, "--add-bias-linear", "--disable-bias-linear", "linear layers have a bias or none");
}

// Checks the numbers of a growing batch size. A run needs --ignore-ramp, since Ravine's batch size is constant.
void check_ramp(Translation& t, const MegatronSizes& s, bool runs) {
  const std::string key = "--rampup-batch-size", sizes = "START INCREMENT SAMPLES";
  if (!t.has(key)) return;
  const Json& ramp = t.value(key);
  const std::string given = fmt::format("{} {}", key, ramp.dump());
  if (!ramp.is_array() || !std::all_of(ramp.begin(), ramp.end(), [](const Json& n) { return n.is_number_integer(); })) return;
  if (ramp.size() != 3)
    return t.refuse(key, fmt::format("{} has {} numbers", key, ramp.size()),
                    fmt::format("its format is {}: the first batch size, what it grows by, and the samples of the ramp", sizes),
                    fmt::format("write {} {}", key, sizes));
  const int64_t start = ramp[0].get<int64_t>(), by = ramp[1].get<int64_t>(), samples = ramp[2].get<int64_t>();
  if (start < 1 || by < 1 || samples < 0)
    return t.refuse(key, given, "the first batch size and its increment are 1 or more, the samples 0 or more", "correct it");
  if (s.global > 0 && (start > s.global || !divides(by, s.global - start)))
    return t.refuse(
        key, given,
        fmt::format("the batch grows from {} to {} in increments of {}: their difference is divisible", start, s.global, by),
        "change one of them");
  if (s.data > 0 && s.micro > 0 && (!divides(s.micro * s.data, start) || (start < s.global && !divides(s.micro * s.data, by))))
    return t.refuse(
        key, given,
        fmt::format("every batch size of the ramp is divisible by the micro batch size ({}) times the data parallel "
                    "size ({})",
                    s.micro, s.data),
        "change one of them");
  if (runs && t.has("--train-samples") && !t.is_on("--ignore-ramp"))
    t.refuse(key, given,
             fmt::format("a batch that grows is not offered: with batches of {} from the first step on the curve is another",
                         s.global),
             "type --ignore-ramp behind the flags to train so, or leave it out");
}

// Megatron's checks of mixed precision and of gradient buffers.
void check_types(Translation& t) {
  const bool half = t.is_on("--fp16") || t.is_on("--bf16");
  if (t.is_on("--fp16-lm-cross-entropy") && !t.is_on("--fp16"))
    t.refuse("--fp16-lm-cross-entropy", "--fp16-lm-cross-entropy without --fp16",
             "the cross entropy in fp16 goes with fp16 only", "leave it out, or train in --fp16");
  if (t.is_on("--fp32-residual-connection") && !half)
    t.refuse("--fp32-residual-connection", "--fp32-residual-connection without --fp16 and --bf16",
             "residuals in fp32 go with fp16 or bf16 only", "leave it out");
  const bool f32 = t.is_on("--accumulate-allreduce-grads-in-fp32"), torch = t.text("--DDP-impl") == "torch";
  const char* buffers = torch ? "--DDP-impl" : "--no-contiguous-buffers-in-local-ddp";
  if (!torch && !t.is_on(buffers)) return;
  const std::string given = torch ? "--DDP-impl torch" : buffers;
  if (t.is_on("--use-distributed-optimizer"))
    t.refuse(buffers, "--use-distributed-optimizer with " + given,
             "the distributed optimizer needs contiguous buffers of the local DDP", "leave one of them out");
  if (f32 || t.is_on("--bf16"))
    t.refuse(buffers, fmt::format("{} with {}", f32 ? "--accumulate-allreduce-grads-in-fp32" : "--bf16", given),
             "gradients are accumulated in fp32 in contiguous buffers of the local DDP, and those of bf16 always are",
             "leave one of them out");
}

void check_parallel(Translation& t, const MegatronSizes& s) {
  const int64_t length = t.whole("--seq-length"), ranks = t.whole("--expert-model-parallel-size");
  const bool padded = t.is_on("--variable-seq-lengths");  // padded to divisible lengths
  if (t.is_on("--sequence-parallel") && s.tensor > 1 && length > 0 && !padded && !divides(s.tensor, length))
    t.refuse("--sequence-parallel", fmt::format("--seq-length {}, --tensor-model-parallel-size {}", length, s.tensor),
             "under --sequence-parallel the sequence length is divisible by the tensor parallel size", "change one of them");
  if (ranks > 1) {
    const int64_t experts = t.whole("--num-experts");
    const std::string given = fmt::format("--expert-model-parallel-size {}", ranks);
    if (experts < 1)
      t.refuse("--expert-model-parallel-size", given + " without --num-experts",
               "expert parallel ranks hold experts, and the model has none", "give --num-experts, or leave it out");
    else if (!divides(ranks, experts))
      t.refuse("--expert-model-parallel-size", fmt::format("--num-experts {}, {}", experts, given),
               "the experts are divisible by the expert parallel size", "change one of them");
    if (t.is_on("--fp16"))
      t.refuse("--expert-model-parallel-size", given + " with --fp16", "expert parallel ranks do not train in fp16",
               "train in --bf16, or leave it out");
  }
  if (t.is_on("--overlap-param-gather") && !t.is_on("--use-distributed-optimizer"))
    t.refuse("--overlap-param-gather", "--overlap-param-gather without --use-distributed-optimizer",
             "parameters are gathered by the distributed optimizer only", "give it too, or leave this out");
}

void check_decay(Translation& t) {
  const std::string style = t.text("--weight-decay-incr-style");
  for (const char* key : {"--start-weight-decay", "--end-weight-decay"})
    if (t.has(key) && style == "constant")
      t.refuse(key, std::string(key) + " without --weight-decay-incr-style", "a constant weight decay is --weight-decay",
               "write --weight-decay, or a style");
    else if (!t.has(key) && style != "constant")
      t.refuse("--weight-decay-incr-style", fmt::format("--weight-decay-incr-style {} without {}", style, key),
               "a weight decay that changes has a start and an end", fmt::format("give {}", key));
}

void check_recompute(Translation& t, const MegatronSizes& s) {
  if ((t.is_on("--recompute-activations") || t.text("--recompute-granularity") == "selective") && t.has("--recompute-method"))
    t.refuse("--recompute-method", "--recompute-method with a selective recompute",
             "a method goes with --recompute-granularity full", "leave one of them out");
  if (t.whole("--auto-recompute-device-size") > 0) {
    excludes(t, "--checkpoint-activations", "--auto-recompute-device-size", "one of them says what is recomputed");
    if (t.whole("--auto-recompute-profiling-step") < 5)
      t.refuse("--auto-recompute-profiling-step",
               fmt::format("--auto-recompute-profiling-step is {}", t.whole("--auto-recompute-profiling-step")),
               "it is 5 or more", "write 5 or more, or leave it out");
  }
  const bool custom = t.text("--checkpoint-policy") == "custom" || t.text("--recompute-method") == "custom";
  if (custom && !t.has("--recomputation-layer-num"))
    t.refuse("--recomputation-layer-num", "--recomputation-layer-num is not given",
             "custom recomputes a number of layers for each pipeline stage", "give a number for each of them");
  else if (custom && static_cast<int64_t>(t.value("--recomputation-layer-num").size()) != s.pipeline)
    t.refuse("--recomputation-layer-num",
             fmt::format("--recomputation-layer-num has {} numbers", t.value("--recomputation-layer-num").size()),
             fmt::format("it has one for each pipeline stage: {}", s.pipeline), "give as many");
  if (t.is_on("--distribute-saved-activations")) {
    if (s.tensor < 2)
      t.refuse("--distribute-saved-activations", "--distribute-saved-activations without tensor ranks",
               "activations are distributed over tensor parallel ranks only", "leave it out");
    if (t.text("--recompute-granularity") != "full" || !t.has("--recompute-method"))
      t.refuse("--distribute-saved-activations", "--distribute-saved-activations without full recompute",
               "it goes with --recompute-granularity full and a --recompute-method", "give these, or leave it out");
  }
  if (t.is_on("--triangle-attn") && t.is_on("--use-flash-attn"))
    excludes(t, "--triangle-attn", "--use-flash-attn", "triangle attention and flash attention are not used at the same time");
  if (t.is_on("--fill-neg-inf") && !t.is_on("--square-alibi-mask"))
    t.refuse("--fill-neg-inf", "--fill-neg-inf without --square-alibi-mask", "it fills the square form of ALiBi",
             "give --square-alibi-mask too");
  if (t.is_on("--variable-seq-lengths") && !t.is_on("--is-instruction-dataset"))
    t.refuse("--variable-seq-lengths", "--variable-seq-lengths without --is-instruction-dataset",
             "rows of instruction data alone have lengths of their own", "give --is-instruction-dataset too");
}

std::vector<int64_t> manual_batches(const std::string& text) {
  if (text == "example-config-1") return {1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 4, 3, 2};
  if (text == "example-config-2") return {1, 2, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 4, 4, 3, 3, 3, 2};
  std::vector<int64_t> sizes;
  for (const std::string& word : split(text, ',')) {
    const YamlNode n = resolve_scalar(word);
    sizes.push_back(n.kind == YamlNode::Kind::integer ? n.integer : 0);
  }
  return sizes;
}

void check_pipeline(Translation& t, const MegatronSizes& s) {
  if (t.has("--num-layers-per-virtual-pipeline-stage")) {
    const char* key = "--num-layers-per-virtual-pipeline-stage";
    const int64_t n = t.whole(key), own = s.pipeline > 0 ? s.layers / s.pipeline : 0;
    if (s.pipeline <= 2)
      t.refuse(key, fmt::format("{} with --pipeline-model-parallel-size {}", key, s.pipeline),
               "the pipeline parallel size is greater than 2 with the interleaved schedule",
               "use more stages, or leave it out");
    else if (s.layers > 0 && (n < 1 || !divides(n, own)))
      t.refuse(key, fmt::format("{} {}", key, n),
               fmt::format("the {} layers of a pipeline stage are divisible by the layers of a virtual one", own), "change it");
    else if (s.data > 0 && s.micro > 0 && s.global % (s.micro * s.data) == 0 &&
             !divides(s.pipeline, s.global / s.micro / s.data))
      t.refuse(key, fmt::format("{} micro batches, --pipeline-model-parallel-size {}", s.global / s.micro / s.data, s.pipeline),
               "the micro batches are divisible by the pipeline parallel size with the interleaved schedule",
               "change the batch");
  } else {
    for (const char* key : {"--foldx-mode", "--fold-mode"})
      if (t.has(key))
        t.refuse(key, fmt::format("{} without virtual stages", key), "it orders the parts of virtual pipeline stages",
                 "give --num-layers-per-virtual-pipeline-stage too");
  }
  if (t.is_on("--optimized-pipeline") || t.has("--manual-mbs")) {
    const std::string list = t.text("--manual-mbs");
    if (list.empty())
      return t.refuse("--manual-mbs", "--manual-mbs is not given", "--optimized-pipeline needs the sizes", "give them");
    if (s.data < 1 || s.micro < 1) return;
    int64_t sum = 0;
    const std::vector<int64_t> sizes = manual_batches(list);
    for (const int64_t n : sizes) sum += n;
    if (static_cast<int64_t>(sizes.size()) * s.micro * s.data != s.global || sum * s.data != s.global ||
        std::any_of(sizes.begin(), sizes.end(), [](int64_t n) { return n < 1; }))
      t.refuse("--manual-mbs", fmt::format("--manual-mbs has {} sizes, {} sequences in all", sizes.size(), sum),
               fmt::format("there are {} micro batches, which make up {} sequences of a data rank", s.global / s.micro / s.data,
                           s.global / s.data),
               "correct the list");
  }
  if (t.is_on("--no-pipeline-parallel") && s.pipeline != 1)
    t.refuse("--no-pipeline-parallel", fmt::format("--no-pipeline-parallel with --pipeline-model-parallel-size {}", s.pipeline),
             "the pipeline parallel size must be 1 if pipelines are switched off", "change one of them");
}

}  // namespace

MegatronSizes megatron_sizes(Translation& t, const MegatronJob& job) {
  MegatronSizes s;
  const bool encoder = t.has("--encoder-num-layers") && !t.has("--num-layers");
  s.layers = needed(t, encoder ? "--encoder-num-layers" : "--num-layers");
  s.hidden = needed(t, "--hidden-size");
  s.heads = needed(t, "--num-attention-heads");
  s.micro = needed(t, "--micro-batch-size");
  needed(t, "--max-position-embeddings");
  needed(t, "--seq-length");
  s.tensor = std::max<int64_t>(1, t.whole("--tensor-model-parallel-size"));
  s.pipeline = std::max<int64_t>(1, t.whole("--pipeline-model-parallel-size"));
  s.groups = t.is_on("--group-query-attention") ? t.whole("--num-query-groups") : s.heads;
  s.ranks = job.ranks;
  if (s.ranks > 0 && divides(s.tensor * s.pipeline, s.ranks)) s.data = s.ranks / s.tensor / s.pipeline;
  s.global = t.has("--global-batch-size") ? t.whole("--global-batch-size") : s.micro * std::max<int64_t>(1, s.data);
  if (t.has("--train-samples") && s.global > 0)
    s.steps = t.whole("--train-samples") / s.global;
  else
    s.steps = t.whole("--train-iters");
  return s;
}

void refuse_megatron_conflicts(Translation& t, const MegatronSizes& s, const MegatronJob& job, MegatronAge age) {
  check_ranks(t, s);
  check_batch(t, s);
  check_shape(t, s);
  check_rates(t, age);
  check_ramp(t, s, job.runs);
  check_decay(t);
  check_types(t);
  check_parallel(t, s);
  check_recompute(t, s);
  check_pipeline(t, s);
  const std::string output = Config().train.output;
  if (std::error_code error; job.runs && !t.has("--save") && std::filesystem::exists(output + "/log.txt", error))
    t.notice(
        fmt::format("--save is not given, so the run writes {}, which holds an earlier one: name a folder by --save", output));
}

}  // namespace ravine
