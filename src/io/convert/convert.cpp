#include "io/convert/convert.h"

#include <fmt/ranges.h>
#include "files/tokenizer_files.h"

#include <filesystem>

#include "base/counted.h"
#include "base/log.h"
#include "base/missing_path.h"
#include "base/version.h"
#include "files/atomic.h"
#include "files/disk_space.h"
#include "files/same_path.h"
#include "io/adapter_folder.h"
#include "io/adapter_weights.h"
#include "io/convert/deepspeed.h"
#include "io/convert/deepspeed_state.h"
#include "io/convert/elements_file.h"
#include "io/convert/finite.h"
#include "io/convert/hf_folder.h"
#include "io/convert/megatron.h"
#include "io/convert/megatron_adapter.h"
#include "io/convert/megatron_arguments.h"
#include "io/convert/megatron_place.h"
#include "io/convert/megatron_state.h"
#include "io/convert/merge_adapter.h"
#include "io/convert/mindformers.h"
#include "io/convert/ravine_checkpoint.h"
#include "io/convert/trainer_state.h"
#include "io/convert/upcycle.h"
#include "io/foreign_kinds.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

Weights read_source(WeightLayout layout, const ConvertOptions& o, const Json& config, const std::string& where,
                    StateKind kind) {
  if (o.vocabulary > 0 && layout != WeightLayout::megatron)
    throw UserError(fmt::format("--vocab-size {}", o.vocabulary), o.input,
                    "only Megatron's files do not say how many rows the vocabulary has",
                    "leave it out, or change the number of rows by --resize-vocab");
  switch (layout) {
    case WeightLayout::hf:
      if (is_moment(kind))
        throw UserError("no optimizer state", o.input, "Hugging Face folders hold weights only", "leave out --optimizer");
      return read_hf(o.input, config, where);
    case WeightLayout::megatron:
      return read_megatron(o.input, config, where, o.allow_unknown, kind, o.vocabulary);
    case WeightLayout::deepspeed:
      return read_deepspeed(o.input, config, where, kind);
    case WeightLayout::mindformers: {
      Weights w = read_mindformers(o.input, config, where, o.allow_unknown, kind);
      if (!is_moment(kind)) refuse_missing_tensors(w, o.input);
      return w;
    }
    case WeightLayout::ravine:
      return read_ravine_checkpoint(o.input, config, where, kind);
    case WeightLayout::trainer:
      return read_trainer_checkpoint(o.input, config, where, kind);
  }
  fail("read_source: every layout has a reader");
}

WeightLayout layout_of(const ConvertOptions& o, std::string* what) {
  if (!fs::exists(o.input))
    throw UserError("no such file or folder", o.input, "it must exist", missing_path_advice(o.input, Hub::models));
  refuse_adapter(o.input, "--input");
  if (o.from) {
    *what = fmt::format("{} (--from)", name(*o.from));
    return *o.from;
  }
  const auto found = recognise(o.input);
  if (const auto kind = found ? std::nullopt : foreign_kind(o.input))
    throw UserError(kind->what + ", which is not read", o.input,
                    "it must be a Hugging Face folder, or a checkpoint of Megatron, DeepSpeed, MindFormers or Ravine",
                    kind->fix);
  if (!found)
    throw UserError("unknown layout", o.input,
                    "it must be a Hugging Face folder, or a checkpoint of Megatron, DeepSpeed, MindFormers or Ravine",
                    "check the path, or give --from");
  *what = found->what;
  return found->layout;
}

// Returns the config in model_config; null if none is set.
Json given_config(const ConvertOptions& o) {
  if (o.model_config.empty()) return {};
  return is_inline(o.model_config) ? parse_json(o.model_config, "model.config") : read_json(o.model_config);
}

std::string config_label(const ConvertOptions& o) { return is_inline(o.model_config) ? "model.config" : o.model_config; }

void check_output(const std::string& output) {
  std::error_code error;
  if (fs::is_symlink(fs::path(output), error))
    throw UserError("output is a link", output, "the folder must be new or empty, and be no link",
                    fs::exists(output, error) ? "name the folder that it leads to"
                                              : "it leads nowhere: remove it, or choose another --output");
  if (fs::exists(output, error) && (!fs::is_directory(output, error) || !fs::is_empty(output, error)))
    throw UserError("output exists", output, "the folder must be new or empty", "choose another --output, or remove it");
}

DType written(const Elements& e, const ConvertOptions& o) { return o.dtype && is_float(e.dtype()) ? *o.dtype : e.dtype(); }

// Returns the common type of a Megatron checkpoint, since its arguments name only one. The correction biases of routers
// keep their own type.
DType common_type(const Weights& w, const ConvertOptions& o) {
  const Elements& first = *w.tensors.begin()->second;
  for (const auto& [name, e] : w.tensors)
    if (!name.ends_with(".e_score_correction_bias") && written(*e, o) != written(first, o))
      throw UserError("weights of several types", e->where(),
                      fmt::format("it is {}, {} is {}", ravine::name(e->dtype()), first.where(), ravine::name(first.dtype())),
                      "give --dtype");
  return written(first, o);
}

// Renames the tensors to the model's declared names, checks them, merges the adapter, and resizes the vocabulary.
void settle(Weights& w, const Geometry& g, WeightLayout layout, const ConvertOptions& o, bool moments) {
  if (layout == WeightLayout::hf || layout == WeightLayout::deepspeed || layout == WeightLayout::trainer)
    from_family_files(w, g);
  check_weights(w, g, o.allow_unknown, moments);
  if (!o.adapter.empty() && !moments) merge_adapter(w, g, o.adapter, o.base, o.dtype);
  if (!o.adapter.empty() && moments)
    if (const int64_t rows = adapter_vocabulary(o.adapter, *g.model); rows != g.vocabulary)
      resize_vocabulary(w, g.spec().implied, rows, moments);
  if (o.resize_vocabulary > 0) resize_vocabulary(w, g.spec().implied, o.resize_vocabulary, moments);
}

// The files to write; exactly one of the lists is used.
struct Plan {
  DType dtype = DType::f32;  // of Megatron's files
  std::vector<NamedElements> tensors;
  std::vector<MegatronFile> megatron;
  std::vector<MindFormersFile> mindformers;
};

// Throws if the disk has no room. Files left by an interrupted conversion count as written.
void check_room(const std::string& output, TargetFolder& folder, int64_t bytes) {
  std::error_code error;
  int64_t there = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.folder(), error))
    if (entry.is_regular_file(error)) there += static_cast<int64_t>(entry.file_size(error));
  const auto room = free_space(folder.folder());
  if (!room || *room + there >= bytes) return;
  if (folder.taken_up()) folder.keep();
  fail("no room for the conversion ({}): {} are free, it needs {}; free some, or choose another --output{}", output,
       human_bytes(static_cast<double>(*room)), human_bytes(static_cast<double>(bytes - there)),
       folder.taken_up()
           ? fmt::format("; what an interrupted conversion has completed stays in {}, for the same command", folder.folder())
           : "");
}

// Stops the conversion between pieces, if requested.
void stop_if_requested(const ConvertOptions& o, TargetFolder& folder, int64_t done, int64_t all) {
  if (!o.stop || !o.stop()) return;
  folder.keep();
  throw Stopped(fmt::format("stopped after {} of {}: what is complete stays in {}, and the same command goes on there",
                            human_bytes(static_cast<double>(done)), human_bytes(static_cast<double>(all)), folder.folder()));
}

// Returns the path of the output folder and creates its parent folder.
std::string target_path(const ConvertOptions& o) {
  fs::path target = fs::path(o.output).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();
  if (target.has_parent_path()) create_folders(target.parent_path().string());
  return target.string();
}

// Returns all facts that determine the bytes of the target, as far as they are known without reading the weights.
std::string plan_text(const ConvertOptions& o, const Weights& w, const ConvertReport& report) {
  std::string out = fmt::format("{} {} {} {} {} {}\n{}\n", name(o.to), o.tensor, o.pipeline, o.virtual_stages, o.fused,
                                o.optimizer, w.config.dump());
  out += fmt::format("{} {} {} {}\n", w.position.step, w.position.optimizer_steps, w.position.tokens, w.position.global_batch);
  for (const ConvertRow& r : report.rows) out += fmt::format("{} {} {} {} {}\n", r.file, r.name, r.dtype, r.shape, r.rule);
  out += fmt::format("{}\n", program_version());
  for (const std::string& source : {w.folder, w.tokenizer})  // these may be outside of the input, if a run used them
    if (!source.empty() && !lies_within(source, o.input)) out += describe_source(source);
  if (!o.adapter.empty()) out += describe_source(o.adapter);
  if (o.base) out += fmt::format("base {}\n", name(*o.base));
  out += fmt::format("{} {}\n", o.upcycle, name(o.experts));
  out += fmt::format("{} {}\n", fmt::join(o.stage_layers, ","), o.vocabulary_multiple);
  return out + describe_source(o.input);
}

// A Ravine checkpoint to be converted for resuming in another program.
struct Leaving {
  std::string checkpoint;
  Weights weights;                // masters
  std::optional<Config> options;  // options of the run
};

Leaving leave(const ConvertOptions& o, WeightLayout layout, ConvertReport& report) {
  if (layout != WeightLayout::ravine)
    throw UserError(fmt::format("--to {} from another layout", name(o.to)), o.input,
                    "this layout is written from checkpoints of Ravine only",
                    fmt::format("convert it with --to ravine --optimizer first, and that to {}", name(o.to)));
  Leaving out;
  out.checkpoint = ravine_checkpoint_of(o.input, report.notes);
  out.weights = read_ravine_checkpoint(out.checkpoint, given_config(o), config_label(o), StateKind::masters);
  report.source += fmt::format(", after step {}", out.weights.position.step);
  out.options = options_of_checkpoint(out.checkpoint, report.notes);
  return out;
}

// Returns a note on the optimizer values written if the run's options are unknown.
std::string default_numbers(const OptimizerOptions& o, double lr) {
  return fmt::format("the checkpoint says lr {}, betas {} and {}, eps {}, weight decay {}", lr, o.betas[0], o.betas[1],
                     o.eps[0], o.weight_decay);
}

// Writes a checkpoint for another program. `more` has the facts that determine the bytes in addition to plan_text.
void write_leaving(const ConvertOptions& o, const Leaving& from, const std::string& more, ConvertReport& report,
                   const std::function<void(int64_t, int64_t)>& progress,
                   const std::function<void(TargetFolder&, const std::function<void(int64_t)>&)>& write) {
  if (o.dry_run) return;
  TargetFolder folder(target_path(o), plan_text(o, from.weights, report) + more + "\n");
  check_room(o.output, folder, report.bytes);
  int64_t done = 0;
  write(folder, [&](int64_t bytes) {
    progress(std::min(done += bytes, report.bytes), report.bytes);
    stop_if_requested(o, folder, done, report.bytes);
  });
  folder.commit();
}

void list_states(const Leaving& from, const std::string& folder, ConvertReport& report) {
  for (const auto& [n, e] : from.weights.tensors)
    report.rows.push_back({folder, n, std::string(name(DType::f32)), e->shape().text(), e->where()});
}

// Converts a Ravine checkpoint to one that DeepSpeed can resume from.
void convert_to_deepspeed(const ConvertOptions& o, WeightLayout layout, ConvertReport& report,
                          const std::function<void(int64_t, int64_t)>& progress) {
  const Leaving from = leave(o, layout, report);
  const RunPosition& at = from.weights.position;
  DeepSpeedState s{.stage = o.zero, .ranks = o.ranks, .universal = o.universal};
  if (const auto& c = from.options) {
    s.compute = c->precision.compute.value_or(DType::f32);
    s.optimizer = c->optimizer;
    s.lr = o.rate ? o.rate(*c, at.optimizer_steps) : c->optimizer.lr;
    s.dynamic_scale = s.compute == DType::f16 && c->precision.loss_scale.value_or(0) == 0;
    s.scale_window = c->precision.scale_window, s.scale_hysteresis = c->precision.scale_hysteresis;
    s.scale_min = c->precision.scale_min, s.scale_consecutive = c->precision.scale_consecutive_hysteresis;
    s.trainer_state = {{"max_steps", c->train.steps}, {"train_batch_size", c->train.micro_batch}};
  } else {
    s.lr = s.optimizer.lr;
    report.notes.push_back(
        "the run's options are not known: DeepSpeed takes the optimizer's numbers from the checkpoint, and " +
        default_numbers(s.optimizer, s.lr));
  }
  if (o.dtype) s.compute = *o.dtype;
  list_states(from, fmt::format("global_step{}{}", at.step, o.universal ? "_universal" : ""), report);
  report.bytes = deepspeed_state_bytes(from.weights, s);
  write_leaving(o, from, fmt::format("{} {} {} {} {}", o.zero, o.ranks, o.universal, name(s.compute), s.lr), report, progress,
                [&](TargetFolder& folder, const std::function<void(int64_t)>& advance) {
                  write_deepspeed_state(folder, from.checkpoint, from.weights.config, from.weights.config_where, s, advance);
                });
}

// Converts a Ravine checkpoint to one that Megatron can resume from.
void convert_to_megatron_run(const ConvertOptions& o, const MegatronLayout& l, WeightLayout layout, ConvertReport& report,
                             const std::function<void(int64_t, int64_t)>& progress) {
  const Leaving from = leave(o, layout, report);
  const RunPosition& at = from.weights.position;
  MegatronState s;
  if (const auto& c = from.options) {
    s = megatron_state_of(*c, o.rate ? o.rate(*c, at.optimizer_steps) : c->optimizer.lr, report.notes);
  } else {
    s.lr = s.optimizer.lr;
    report.notes.push_back("the run's options are not known: " + default_numbers(s.optimizer, s.lr) +
                           ", and no opt_param_scheduler");
  }
  if (o.dtype) s.compute = *o.dtype;
  s.layout = l, s.layout.subfolder = megatron_iteration(at.step) + "/";
  s.distributed = o.distributed, s.ranks = o.ranks;
  const Geometry g = geometry_of(from.weights.config, from.weights.config_where);
  megatron_notes(g, l, report.notes);
  report.notes.push_back("random states are not written: Megatron goes on with --no-load-rng");
  list_states(from, s.layout.subfolder, report);
  report.bytes = megatron_state_bytes(from.weights, s);
  write_leaving(o, from, fmt::format("{} {} {} {}", o.distributed, o.ranks, name(s.compute), s.scheduler.dump()), report,
                progress, [&](TargetFolder& folder, const std::function<void(int64_t)>& advance) {
                  write_megatron_state(folder, from.checkpoint, from.weights.config, from.weights.config_where, s, advance);
                });
}

// Returns the layout of Megatron that the options ask for.
MegatronLayout megatron_layout(const ConvertOptions& o) {
  return {.names = o.to == ConvertTarget::megatron_mcore ? MegatronNames::mcore : MegatronNames::legacy,
          .tensor = o.tensor,
          .pipeline = o.pipeline,
          .virtual_stages = o.virtual_stages,
          .experts = o.experts,
          .deepspeed = o.to == ConvertTarget::megatron_deepspeed,
          .stage_layers = o.stage_layers,
          .vocabulary_multiple = o.vocabulary_multiple > 0 ? o.vocabulary_multiple : 128};
}

// Plans the files and lists their tensors in the report. first, second: the moments, for a checkpoint of Ravine. known:
// the family is one that Ravine trains; the weights are then renamed as its files name them.
Plan plan_files(const ConvertOptions& o, const MegatronLayout& megatron, bool known, const Geometry& g, Weights& w,
                Weights& first, Weights& second, ConvertReport& report) {
  Plan plan;
  auto row = [&](const std::string& file, const std::string& n, const Elements& e, DType d) {
    report.rows.push_back({file, n, std::string(name(d)), e.shape().text(), e.where()});
    report.bytes += e.count() * size_of(d);
  };
  if (is_megatron(o.to)) {
    plan.megatron = plan_megatron(w, g, megatron);
    plan.dtype = common_type(w, o);
    for (const MegatronFile& f : plan.megatron)
      for (const auto& t : f.tensors)
        row(f.path, megatron.virtual_stages > 1 ? fmt::format("model{}: {}", t.chunk, t.name) : t.name, *t.elements,
            plan.dtype);
    megatron_notes(g, megatron, report.notes);
  } else if (o.to == ConvertTarget::mindformers) {
    plan.mindformers = plan_mindformers(w, g, {o.fused, o.tensor});
    for (MindFormersFile& f : plan.mindformers)
      for (NamedElements& t : f.tensors) {
        t.dtype = written(*t.elements, o);
        row(f.path.empty() ? "model-*.safetensors" : f.path, t.name, *t.elements, t.dtype);
      }
  } else if (o.to == ConvertTarget::ravine) {
    plan.tensors = plan_ravine(w, first, second, g);
    for (const NamedElements& t : plan.tensors) row("checkpoints", t.name, *t.elements, t.dtype);
  } else if (o.to == ConvertTarget::peft) {
    for (const auto& [n, e] : w.tensors) plan.tensors.push_back({n, e, written(*e, o)});
    for (const NamedElements& t : plan.tensors) row(kAdapterFile, t.name, *t.elements, t.dtype);
  } else {
    if (known) to_family_files(w, g);
    for (const auto& [n, e] : w.tensors) plan.tensors.push_back({n, e, written(*e, o)});
    for (const NamedElements& t : plan.tensors) row("model*.safetensors", t.name, *t.elements, t.dtype);
  }
  return plan;
}

// Counts in `lost` the numbers that the files' types cannot hold.
void count_lost(Plan& plan, LostNumbers& lost) {
  for (NamedElements& t : plan.tensors) t.elements = lost.counted(t.elements, t.dtype);
  for (MegatronFile& f : plan.megatron)
    for (auto& t : f.tensors) t.elements = lost.counted(t.elements, plan.dtype);
  for (MindFormersFile& f : plan.mindformers)
    for (NamedElements& t : f.tensors) t.elements = lost.counted(t.elements, t.dtype);
}

void write_files(const ConvertOptions& o, TargetFolder& folder, Plan& plan, Weights& w, const Geometry& g,
                 const MegatronLayout& megatron, const std::function<void(int64_t)>& advance) {
  if (is_megatron(o.to))
    write_megatron(folder, plan.megatron, w, g, megatron, plan.dtype, advance);
  else if (o.to == ConvertTarget::mindformers)
    write_mindformers(folder, plan.mindformers, w, advance);
  else if (o.to == ConvertTarget::ravine)
    write_ravine(folder, plan.tensors, w, advance);
  else if (o.to == ConvertTarget::peft)
    write_adapter(folder, w, plan.tensors, advance);
  else
    write_hf(folder, w, plan.tensors, advance);
}

}  // namespace

std::unique_ptr<TensorFile> open_weights_of_any(const std::string& path, const Json& config, const std::string& where) {
  ConvertOptions o;
  o.input = path;
  std::string what;
  const WeightLayout layout = layout_of(o, &what);
  refuse_other_network(path, config, where);
  Weights w = read_source(layout, o, config, where, StateKind::weights);
  w.config = config, w.config_where = where;
  const Geometry g = geometry_of(config, where);
  settle(w, g, layout, o, false);
  to_family_files(w, g);
  return std::make_unique<ElementsFile>(path, std::move(w.tensors));
}

std::string weights_read_at(const std::string& path) {
  const auto found = recognise(path);
  if (found && found->layout == WeightLayout::megatron) return megatron_ranks(path);
  if (!found || found->layout != WeightLayout::mindformers) return path;
  const std::vector<std::string> files = mindformers_files(path);
  if (files.empty()) return path;
  return files.size() == 1
             ? files[0]
             : fmt::format("{} and those of {}", files[0], counted(static_cast<int64_t>(files.size()) - 1, "other rank"));
}

ConvertReport convert_weights(const ConvertOptions& o, const std::function<void(int64_t, int64_t)>& progress) {
  ConvertReport report;
  std::optional<Upcycling> upcycling;
  if (!o.upcycle.empty()) upcycling = read_upcycling(o.upcycle);
  const WeightLayout layout = layout_of(o, &report.source);
  if (!o.dry_run) check_output(o.output);
  if (o.to == ConvertTarget::deepspeed) {
    convert_to_deepspeed(o, layout, report, progress);
    return report;
  }
  const bool to_ravine = o.to == ConvertTarget::ravine, to_peft = o.to == ConvertTarget::peft;
  const MegatronLayout megatron = megatron_layout(o);
  if (is_megatron(o.to) && o.optimizer) {
    convert_to_megatron_run(o, megatron, layout, report, progress);
    return report;
  }
  const bool hf_to_hf = (layout == WeightLayout::hf || layout == WeightLayout::trainer) && o.to == ConvertTarget::hf;
  if (to_peft && layout != WeightLayout::megatron)
    throw UserError("--to peft from another layout", o.input, "PEFT adapters are made from LoRA checkpoints of ModelLink only",
                    "train with lora.rank, whose runs write such a folder, or choose another --to");
  Weights w =
      to_peft ? read_megatron_adapter(o.input, config_label(o))
              : read_source(layout, o, given_config(o), config_label(o), to_ravine ? StateKind::masters : StateKind::weights);
  w.missing_tokenizer_files = o.missing_tokenizer_files;
  if (w.tokenizer.empty() && !has_tokenizer(w.folder)) w.tokenizer = o.tokenizer;
  // Weights of a family that Ravine does not train are only copied between Hugging Face folders.
  const bool known = has_geometry(w.config);
  Geometry g;
  Weights first, second;
  if (!to_peft && (known || o.to != ConvertTarget::hf || !o.adapter.empty() || o.resize_vocabulary > 0 || !o.upcycle.empty() ||
                   layout == WeightLayout::ravine)) {
    if (w.config.is_null())
      throw UserError("no config", o.input, "the layout of the weights follows from the model's config",
                      "give --model-config CONFIG.json");
    g = geometry_of(w.config, w.config_where);
    if (part_own_head(w, g)) g = geometry_of(w.config, w.config_where);
    if (o.optimizer)
      for (const auto& [to, kind] : {std::pair{&first, StateKind::first_moment}, {&second, StateKind::second_moment}}) {
        *to = read_source(layout, o, w.config, w.config_where, kind);
        settle(*to, g, layout, o, true);
      }
    settle(w, g, layout, o, false);
    if (o.resize_vocabulary > 0 || !o.adapter.empty()) g = geometry_of(w.config, w.config_where);
    if (upcycling) {
      upcycle(w, g, *upcycling);
      g = geometry_of(w.config, w.config_where);
    }
  }
  if (w.tensors.empty()) throw UserError("no weights", o.input, "it must hold tensors", "check the path");
  if (layout == WeightLayout::ravine) report.source += fmt::format(", after step {}", w.position.step);
  if (!o.optimizer) w.position = {};

  Plan plan = plan_files(o, megatron, known, g, w, first, second, report);
  report.notes.insert(report.notes.begin(), w.notes.begin(), w.notes.end());
  if (w.config.is_null()) report.notes.push_back("no config.json was found: weights only (--model-config gives one)");
  if (!known && !hf_to_hf && !to_peft) report.notes.push_back("the family is not known: names and shapes are not checked");
  if (to_ravine && !o.optimizer)
    report.notes.push_back("moments are zero and the run begins at step 0 (--optimizer takes those of the input)");
  if (o.dry_run) return report;

  LostNumbers lost;
  count_lost(plan, lost);
  TargetFolder folder(target_path(o), plan_text(o, w, report));
  check_room(o.output, folder, report.bytes);
  int64_t done = 0;
  const auto advance = [&](int64_t bytes) {
    progress(done += bytes, report.bytes);
    stop_if_requested(o, folder, done, report.bytes);
  };
  if (folder.taken_up())
    report.notes.push_back("goes on with the files that an interrupted conversion of the same input has completed");
  write_files(o, folder, plan, w, g, megatron, advance);
  folder.commit();
  for (const std::string& note : lost.notes()) report.notes.push_back(note);
  return report;
}

}  // namespace ravine
