#include <algorithm>
#include <filesystem>

#include "apps/commands.h"
#include "apps/rank_job.h"
#include "base/clock.h"
#include "base/counted.h"
#include "base/log.h"
#include "files/atomic.h"
#include "infer/speed.h"
#include "io/model_folder.h"
#include "io/stored_model.h"
#include "kernels/backend.h"
#include "model/adapters.h"
#include "parallel/initialise.h"
#include "plan/choose_recompute.h"
#include "plan/machine.h"
#include "plan/messages.h"
#include "plan/step_share.h"
#include "runs/adapter.h"
#include "runs/run_paths.h"
#include "step/arithmetic.h"
#include "step/profile.h"
#include "step/step.h"

namespace ravine {
namespace {

struct MachineFlags {
  bool json = false;
  int64_t threads = 0;
  template <class V>
  void each(V&& v) {
    v("json", json, "print one JSON object");
    v("threads", threads, "threads for compute; 0: all cores of this process", between(0, 4096) & same_as("train.threads"));
  }
};

int run_machine(MachineFlags& flags, Config&) {
  MachinePeaks p = machine_peaks(Peaks::all, true);
  const double share = measure_step_share(p);
  const CpuArithmetic known = cpu_arithmetic(cpu_id());
  if (const std::string problem = keep_step_share(share); !problem.empty())
    print_stderr(fmt::format("warning: these are not kept, and plans and figures measure again: {}", problem));
  if (flags.json) {
    Json j{{"cpu", cpu_name()},
           {"instruction_set", cpu_instruction_set()},
           {"f32_flops", p.f32_flops},
           {"bf16_flops", p.bf16_flops},
           {"f32_product_flops", p.f32_product},
           {"bf16_product_flops", p.bf16_product},
           {"bf16_dot_flops", p.bf16_dot},
           {"bf16_products", std::string(name(known.products))},
           {"bf16_products_why", known.why},
           {"read_bytes_per_second", p.read_bytes},
           {"copy_bytes_per_second", p.copy_bytes},
           {"step_share", share},
           {"spread", p.spread},
           {"cores_had", p.ran},
           {"sure", p.sure}};
    fmt::print("{}\n", j.dump(-1, ' ', true, Json::error_handler_t::replace));
  } else {
    std::string how = known.products == Bf16Products::dot ? "dot product instruction" : "widened to f32";
    if (p.bf16_dot > 0) how += fmt::format("; a loop of that instruction: {:.0f}", p.bf16_dot * 1e-9);
    fmt::print(
        "cpu          {} ({})\nf32          {:.0f} GFLOP/s at most, {:.0f} in the best product\nbf16         {:.0f} GFLOP/s at most, {:.0f} in the best product ({})\nmemory read  {:.1f} GB/s\nmemory copy  {:.1f} GB/s (read + written)\na step       {:.2f} of what products and copies allow, in a small Llama; plans reckon with it\nauto         {} (precision.compute, precision.bf16_products): {}\n",
        cpu_name(), cpu_instruction_set(), p.f32_flops * 1e-9, p.f32_product * 1e-9, p.bf16_flops * 1e-9, p.bf16_product * 1e-9,
        how, p.read_bytes * 1e-9, p.copy_bytes * 1e-9, share,
        known.bf16_faster ? "bf16, by the dot product instruction" : "f32; bf16 is widened", known.why);
    fmt::print(
        "sure         {}: the best two runs of each figure are {:.1f} % apart at most, and threads had a core {:.0f} % of the time{}\n",
        p.sure ? "yes" : "no", 100 * p.spread, 100 * p.ran,
        p.sure ? "" : "; the machine may do more. The next run measures again when nothing else runs");
  }
  return 0;
}

struct MessagesFlags {
  bool json = false;
  template <class V>
  void each(V&& v) {
    v("json", json, "print one JSON object");
  }
};

int run_messages(MessagesFlags& flags, Config&) {
  RankJob job({}, 1);
  return job.run([&](World* world) {
    if (!world || world->size() == 1)
      throw UserError("bench messages on one rank", "mpirun", "messages go between ranks",
                      "start several: mpirun -n 2 ravine bench messages");
    MessageRates rates = measure_messages(world->all());
    if (world->rank() != 0) return;
    if (world->local_size() == world->size()) {  // on one machine: the rates that plan uses
      const std::string problem = keep_message_rates(rates);
      if (!problem.empty())
        print_stderr(fmt::format("warning: these are not kept, and plan does not know of them: {}", problem));
    }
    if (flags.json) return fmt::print("{}\n", rates.json().dump(-1, ' ', true, Json::error_handler_t::replace));
    fmt::print(
        "{} ranks, all at once; time of a call, bytes per second that a rank hands over\n{:>10}  {:>22}  {:>22}  {:>22}\n",
        world->size(), "bytes", "all_to_all (a piece)", "all_gather (a piece)", "send");
    for (size_t i = 0; i < rates.send.size(); ++i) {
      auto cell = [&](const MessageRates::Point& p, double pieces) {
        return fmt::format("{:9.1f} us {:5.2f} GB/s", p.seconds * 1e6, pieces * p.bytes / p.seconds * 1e-9);
      };
      fmt::print("{:>10.0f}  {:>22}  {:>22}  {:>22}\n", rates.send[i].bytes, cell(rates.all_to_all[i], world->size() - 1),
                 cell(rates.all_gather[i], world->size() - 1), cell(rates.send[i], 1));
    }
  });
}

// Returns reached / peak, at most 1. If `reached` is above `peak`, the peak was measured too low and is raised. `whole`
// is true if every counted FLOP is computed.
double share_of(double& peak, DType compute, double reached, bool whole) {
  if (reached > peak && whole) {
    print_stderr(fmt::format(
        "peak     {:.0f} GFLOP/s were reached, more than the {:.0f} measured as this machine's peak: they count as the peak from now on",
        reached * 1e-9, peak * 1e-9));
    raise_peak(compute, reached);
    peak = reached;
  }
  return std::min(1.0, reached / peak);
}

struct BenchFlags {
  CommonFlags common;
  std::string model, timeline;
  int64_t length = 1024, micro_batch = 1, steps = 5;
  bool profile = false, json = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    v("model", model, "config.json, or a folder that holds one", required() & metavar("CONFIG.json|DIR") & reads_folder());
    v("sequence-length", length, "tokens per sequence", between(2, kMostTokens));
    v("micro-batch", micro_batch, "sequences per step", between(1, kMostSequences));
    v("steps", steps, "number of timed steps, after one untimed step", between(1, 1e6));
    v("profile", profile, "print a table of the last step's ops: calls, time, FLOPs, bytes, fraction of the roofline");
    v("timeline", timeline, "with --profile: file to write, a trace that Perfetto opens",
      filled() & writes() & metavar("FILE.json"));
    v("overwrite", overwrite, "replace an existing file of --timeline");
    v("json", json, "print one JSON object");
    common.each(v);
  }
};

// Limits the product of two flags; each flag alone is checked by its own bounds.
void check_batch(int64_t sequences, int64_t length) {
  if (static_cast<double>(sequences) * static_cast<double>(length) > kMostTokens)
    throw UserError(
        fmt::format("{} of {}", counted(sequences, "sequence"), counted(length, "token")), "--micro-batch, --sequence-length",
        fmt::format("a batch has at most {} tokens", kMostTokens),
        fmt::format("{} is the most for this length", counted(static_cast<int64_t>(kMostTokens) / length, "sequence")));
}

// Called before the work begins.
template <class Flags>
void keep_timeline(const Flags& flags) {
  if (flags.profile && !flags.timeline.empty()) refuse_existing_file(flags.timeline, flags.overwrite);
}

int run_bench_train(BenchFlags& flags, Config& config) {
  check_batch(flags.micro_batch, flags.length);
  keep_timeline(flags);
  flags.model = resolve_model(flags.model, "--model");
  if (!flags.model.ends_with(".json")) check_model_folder(flags.model, "--model");
  std::unique_ptr<Model> model = open_stored_model(flags.model);
  config.model.path = flags.model;  // the base model of an adapter
  if (const auto lora = lora_of(config, *model)) model = with_adapters(*model, *lora);
  const Arithmetic arithmetic = choose_arithmetic(config.precision, flags.common.backend, cpu_arithmetic(cpu_id()));
  const DType compute = arithmetic.compute;
  const Kernels kernels = backend_kernels(flags.common.backend, arithmetic.products);
  const Types types = Types::of(compute, config.precision.gradients);
  const StepShape shape{.rows = flags.micro_batch, .columns = flags.length};
  choose_recompute(
      config, [&](const Config& candidate) { return StepEngine(*model, candidate, types, kernels, shape).memory().total(); });
  StepEngine engine(*model, config, types, kernels, shape);
  MachinePeaks peaks = machine_peaks(flags.profile ? Peaks::all : Peaks::arithmetic);
  double peak = compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  double planned = static_cast<double>(engine.memory().total()) / (1 << 20);
  engine.allocate();
  initialise(model->params(), engine.store(), 42);
  engine.store().refresh_copies(engine.ctx());
  std::vector<MicroBatch> micros{random_micro_batch(flags.micro_batch, flags.length, model->facts().vocabulary)};
  engine.run(micros, 1, 1e-4);
  double best = 1e30;
  for (int64_t s = 0; s < flags.steps; ++s) {
    double began = seconds_now();
    engine.run(micros, s + 2, 1e-4);
    best = std::min(best, seconds_now() - began);
  }
  if (flags.profile) {
    Profile profile(!flags.timeline.empty());
    engine.ctx().add_observer(&profile);
    profile.begin_step();
    engine.run(micros, flags.steps + 2, 1e-4);
    std::fputs(profile.table(peak, peaks.copy_bytes).c_str(), stderr);
    if (!flags.timeline.empty()) write_file_atomic(flags.timeline, profile.timeline_json(), may_overwrite(flags.overwrite));
  }
  double speed = static_cast<double>(flags.micro_batch * flags.length) / best;
  const double sol = share_of(peak, compute, speed * model->training_flops_per_token(flags.length), counts_every_flop(*model));
  double measured = static_cast<double>(peak_resident_memory()) / (1 << 20);
  if (flags.json) {
    Json j{{"tokens_per_second", speed},
           {"sol", sol},
           {"step_time", best},
           {"peak_memory_mb", measured},
           {"planned_memory_mb", planned},
           {"compute", std::string(name(compute))},
           {"instructions", kernels.instructions},
           {"peak_flops", peak},
           {"parameters", model->params().count()}};
    fmt::print("{}\n", j.dump(-1, ' ', true, Json::error_handler_t::replace));
  } else {
    fmt::print(
        "{:.1f} tokens/s, sol {:.3f} of {:.0f} GFLOP/s, {:.1f} ms per step (fastest of {}), memory {:.0f} MiB measured, {:.0f} planned\n",
        speed, sol, peak * 1e-9, best * 1000, flags.steps, measured, planned);
  }
  return 0;
}

struct InferenceFlags {
  CommonFlags common;
  std::string model, timeline;
  int64_t length = 0, micro_batch = 1, batch = 0, steps = 0;
  bool profile = false, json = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    v("model", model, "config.json, or a folder that holds one; weights are drawn at random",
      required() & metavar("CONFIG.json|DIR") & reads_folder());
    v("sequence-length", length, "tokens per prompt; decode: tokens in the KV cache; 0: 1024, decode 128",
      between(0, kMostTokens));
    v("batch", batch, "sequences per batch; 0: the value of --micro-batch", between(0, kMostMicroBatches));
    v("micro-batch", micro_batch, "sequences per batch if --batch is 0", between(1, kMostMicroBatches));
    v("steps", steps, "timed prompts, after one untimed prompt, or steps of decode; 0: 3, decode 32", between(0, 1e6));
    v("profile", profile, "print a table of ops of the last prefill, or of all steps of decode");
    v("timeline", timeline, "with --profile: file to write, a trace that Perfetto opens",
      filled() & writes() & metavar("FILE.json"));
    v("overwrite", overwrite, "replace an existing file of --timeline");
    v("json", json, "print one JSON object");
    common.each(v);
  }
};

int run_bench_inference(InferenceFlags& flags, Config& config, bool decode) {
  SpeedOptions o;
  o.batch = flags.batch > 0 ? flags.batch : flags.micro_batch;
  o.length = flags.length > 0 ? flags.length : decode ? 128 : 1024;
  o.steps = flags.steps > 0 ? flags.steps : decode ? 32 : 3;
  check_batch(o.batch, o.length);
  keep_timeline(flags);
  const Arithmetic arithmetic = choose_arithmetic(config.precision, flags.common.backend, cpu_arithmetic(cpu_id()));
  const DType compute = arithmetic.compute;
  flags.model = resolve_model(flags.model, "--model");
  if (!flags.model.ends_with(".json")) check_model_folder(flags.model, "--model");
  LoadedModel loaded = load_random_model(flags.model, compute, flags.common.backend, arithmetic.products);
  Profile profile(!flags.timeline.empty());
  if (flags.profile) o.observer = &profile, o.begin = [&] { profile.begin_step(); };
  Speed s = decode ? measure_decode(loaded, o) : measure_prefill(loaded, o);
  // Read before the peaks are measured, which needs memory.
  double memory = static_cast<double>(peak_resident_memory()) / (1 << 20);
  MachinePeaks peaks = machine_peaks(flags.profile ? Peaks::all : Peaks::arithmetic);
  double peak = compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  if (flags.profile) {
    std::fputs(profile.table(peak, peaks.read_bytes).c_str(), stderr);
    if (!flags.timeline.empty()) write_file_atomic(flags.timeline, profile.timeline_json(), may_overwrite(flags.overwrite));
  }
  double bandwidth = decode ? measure_read_bandwidth() : 0, weights = static_cast<double>(s.weight_bytes);
  const double fraction = decode ? weights / bandwidth / s.seconds : share_of(peak, compute, s.flops / s.seconds, true);
  if (flags.json) {
    Json j{{"tokens_per_second", s.tokens_per_second},
           {decode ? "bandwidth_fraction" : "sol", fraction},
           {"step_time", s.seconds},
           {"batch", o.batch},
           {"length", o.length},
           {"weight_bytes", s.weight_bytes},
           {"flops", s.flops},
           {"peak_memory_mb", memory},
           {"compute", std::string(name(compute))},
           {"parameters", loaded.model->params().count()}};
    if (decode)
      j["cache_bytes"] = s.cache_bytes, j["read_bytes_per_second"] = bandwidth;
    else
      j["peak_flops"] = peak;
    fmt::print("{}\n", j.dump(-1, ' ', true, Json::error_handler_t::replace));
  } else if (decode) {
    const char* cached = fraction > 1 ? " (more than memory gives: the weights lie in caches of the CPU)" : "";
    fmt::print(
        "{:.1f} tokens/s, {:.3f} of {:.1f} GB/s{}: {:.1f} MB of weights (and {:.1f} MB of cache) in {:.2f} ms per step (median of {}), memory {:.0f} MiB\n",
        s.tokens_per_second, fraction, bandwidth * 1e-9, cached, weights * 1e-6, static_cast<double>(s.cache_bytes) * 1e-6,
        s.seconds * 1000, o.steps, memory);
  } else {
    fmt::print("{:.1f} tokens/s, sol {:.3f} of {:.0f} GFLOP/s, {:.1f} ms (fastest of {}), memory {:.0f} MiB\n",
               s.tokens_per_second, fraction, peak * 1e-9, s.seconds * 1000, o.steps, memory);
  }
  return 0;
}
int run_bench_prefill(InferenceFlags& flags, Config& config) { return run_bench_inference(flags, config, false); }
int run_bench_decode(InferenceFlags& flags, Config& config) { return run_bench_inference(flags, config, true); }

}  // namespace

Command bench_command() {
  return command_of(
      {.name = "bench",
       .summary = "measure peaks of the machine, and speed of training and inference",
       .example = "ravine bench train --model config.json --sequence-length 1024"},
      "Machine",
      {command<MachineFlags>({.name = "bench machine",
                              .summary = "measure peaks of matrix products and memory, and store them",
                              .example = "ravine bench machine --json"},
                             "", run_machine),
       command<MessagesFlags>({.name = "bench messages",
                               .summary = "under mpirun: measure how fast ranks exchange messages, and store it for plan",
                               .example = "mpirun -n 2 ravine bench messages"},
                              "", run_messages),
       command<BenchFlags>(
           {.name = "bench train",
            .summary = "time training steps on random tokens, of all weights or of adapters (lora)",
            .example = "ravine bench train --model config.json --sequence-length 1024 --micro-batch 1 --steps 5 --profile",
            .sections = {"train.recompute", "train.memory_mb", "optimizer", "precision", "lora"},
            .alone = true},
           "", run_bench_train),
       command<InferenceFlags>({.name = "bench prefill",
                                .summary = "time prompts of random tokens, up to the first new token",
                                .example = "ravine bench prefill --model config.json --sequence-length 1024 --batch 1",
                                .sections = {"precision"},
                                .alone = true},
                               "", run_bench_prefill),
       command<InferenceFlags>({.name = "bench decode",
                                .summary = "time generated tokens, as a fraction of the memory's read bandwidth",
                                .example = "ravine bench decode --model config.json --batch 1 precision.compute=bf16",
                                .sections = {"precision"},
                                .alone = true},
                               "", run_bench_decode)});
}

}  // namespace ravine
