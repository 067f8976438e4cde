#include "train/export.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/counted.h"
#include "base/program_name.h"
#include "base/shell_word.h"
#include "files/atomic.h"
#include "files/tokenizer_files.h"
#include "io/adapter_weights.h"
#include "io/huggingface.h"
#include "io/model_folder.h"
#include "io/open_weights.h"
#include "io/run_files.h"
#include "parallel/whole_units.h"
#include "runs/adapter.h"
#include "step/forensics.h"
#include "text/chat/chat_template.h"
#include "text/tokenizers/sentencepiece_json.h"
#include "train/merged_weights.h"

namespace ravine {
namespace fs = std::filesystem;

namespace {

bool in_blocks(const Param& p) { return p.policy.kept == Kept::nf4; }

// The weights of an export. Frozen parameters that training keeps in 16 bits or in blocks of 4 bits are read again from
// the model folder, unit by unit. All other parameters are read from a store.
class ExactFrozen : public WeightSource {
 public:
  ExactFrozen(WeightSource& store, const Model& model, const Types& types, const std::string& folder)
      : store_(store), model_(model), types_(types), folder_(folder) {}
  void acquire(const Unit& unit) override {
    store_.acquire(unit);
    if (open_ == &unit) return;
    open_ = &unit;
    read_.clear();
    for (const Param* p : unit.params)
      if (!p->tied && !p->policy.trainable && (in_blocks(*p) || store_.master(*p).dtype != types_.master))
        read_.emplace(p, Storage(DeviceKind::cpu, p->shape.count() * size_of(types_.master)));
    if (!read_.empty()) load_weights(folder_, model_, *this);
  }
  void release(const Unit& unit) override { store_.release(unit); }
  TensorView value(const Param& p) const override { return master(p); }
  TensorView master(const Param& p) const override {
    const auto it = read_.find(&p);
    return it == read_.end() ? store_.master(p) : view(p, it->second);
  }
  std::vector<ParamBox> boxes() const override {
    std::vector<ParamBox> out;
    for (const auto& [p, memory] : read_)
      out.push_back({p, std::vector<int64_t>(static_cast<size_t>(p->shape.rank())), view(*p, memory)});
    return out;
  }

 private:
  TensorView view(const Param& p, const Storage& memory) const {
    return view_of(memory.data(), types_.master, p.shape, memory.device());
  }
  WeightSource& store_;
  const Model& model_;
  Types types_;
  std::string folder_;
  const Unit* open_ = nullptr;
  std::map<const Param*, Storage> read_;
};

// True if the store keeps some weights only in 16 bits or in blocks.
bool rounds_frozen(const FlatWeights& store) {
  return std::any_of(store.table().buckets.begin(), store.table().buckets.end(),
                     [](const Bucket& b) { return b.storage == ValueStorage::copy || b.storage == ValueStorage::packed; });
}

// Returns the options that decide the files of the exported model, as text.
std::string export_text(const Config& config) {
  return fmt::format("{}, files of {} MB", name(config.checkpoint.model_dtype.value()), config.checkpoint.shard_mb);
}

// Returns generation_config.json: as in model.path, with the trained end token before the end tokens of the model.
Json generation_of(const OpenedRun& run) {
  Json generation = Json::object();
  const std::string& path = run.config().model.path;
  const std::optional<int32_t> end_token = run.data.end_token ? run.data.end_token : run.data.document_end;
  if (std::string given = (fs::path(path) / "generation_config.json").string(); !path.empty() && fs::exists(given))
    generation = read_json(given);
  if (end_token) {
    Json ids = Json::array({*end_token});
    Json had = generation.contains("eos_token_id") ? Json(generation["eos_token_id"]) : Json(run.model->facts().eos);
    for (const Json& id : had.is_array() ? had : Json::array({had}))
      if (id.is_number_integer() && id >= 0 && id != *end_token) ids.push_back(id);  // -1 is no token
    generation["eos_token_id"] = ids.size() == 1 ? Json(*end_token) : ids;
  }
  return generation;
}

SaveFolder save_folder_of(const OpenedRun& run) {
  const Config& c = run.config();
  SaveFolder folder;
  folder.dir = run.path(exported_name(run.config()));
  folder.dtype = c.checkpoint.model_dtype.value();
  folder.shard_bytes = c.checkpoint.shard_mb * 1000000;
  folder.tokenizer = c.model.tokenizer.empty() ? c.model.path : c.model.tokenizer;
  folder.missing_tokenizer_files = missing_tokenizer_files;
  folder.generation = generation_of(run);
  folder.chat_template = run.data.chat_template;
  if (run.lora && !c.lora.merge) {  // the base has these files, unless others are set
    folder.tokenizer = c.model.tokenizer;
    if (!run.data.end_token && !run.data.new_end) folder.generation = Json::object();
  }
  folder.run = run.folder->run();
  folder.seen = run.folder->model_seen();
  return folder;
}

// Returns, on the first rank, the folder from which frozen weights are read again. Returns "" if there is none, or if
// it is not needed. All ranks call it together.
std::string exact_weights(const OpenedRun& run, const Progress& progress) {
  const std::string& path = run.config().model.path;
  if (run.lora && !run.config().lora.merge) return "";
  if (!any(run.ranks.all(), rounds_frozen(run.engine->store())) || !run.ranks.first()) return "";
  if (!path.empty()) try {
      if (weights_checksum(path) == progress.began_with) return path;
    } catch (const UserError&) {
    }
  const auto& params = run.model->params().params();
  if (std::any_of(params.begin(), params.end(), in_blocks))
    fail(
        "the model was not saved: {} no longer holds the weights that this run began with, into which its adapter is merged; "
        "go on with lora.merge=false, and merge by merge-lora",
        path);
  if (progress.frozen_elsewhere)
    run.log.warn(
        "{} no longer holds the weights that this run began with: frozen ones are exported as training has them, in {}", path,
        name(run.spec->types.compute));
  return "";
}

void write_model(const OpenedRun& run, const Progress& progress, const Saves& saves, const SaveFolder& folder) {
  StepEngine& engine = *run.engine;
  const std::string exact_from = exact_weights(run, progress);
  auto save = [&](WeightSource& store) {
    try {
      ExactFrozen exact(store, *run.model, run.spec->types, exact_from);
      WeightSource& source = exact_from.empty() ? store : exact;
      if (run.lora && !run.config().lora.merge)
        return save_adapter(folder, base_of(run.config()), *run.lora, *run.model, store);
      if (!run.lora) return save_model_folder(folder, *run.model, source);
      MergedWeights merged(source, *run.model, *run.lora);
      save_model_folder(folder, *run.model, merged);
    } catch (const DiskFull& e) {
      fail("the model was not saved, it needs {}: {}; {}", human_bytes(static_cast<double>(run.bytes.model)), e.what(),
           saves.what_is_kept());
    }
  };
  engine.rest();  // its memory is needed for whole units and messages
  // The answer of every rank is combined, so that all ranks take the same branch.
  if (!any(run.ranks.all(), !engine.store().all_resident())) {
    if (run.ranks.first()) save(engine.store());
    return;
  }
  UnitExport whole(*run.model, engine.store(), run.ranks, engine.stages());
  if (run.ranks.first()) {
    save(whole);
    whole.end();
  } else {
    whole.serve();
  }
}

}  // namespace

bool is_complete(const OpenedRun& run, int64_t done, const std::string& from) {
  const Config& config = run.config();
  const int64_t steps = config.train.steps;
  const auto [of, as] = read_exported(config.train.output);
  const int64_t exported_step = checkpoint_step(of).value_or(0), to = std::max(done, steps);
  std::error_code error;
  std::string shorter;  // a model of more steps than this run has is not replaced
  if (run.ranks.first() && config.checkpoint.resume == kResumeNewest && exported_step > to &&
      fs::exists(run.path(exported_name(run.config())), error))
    shorter =
        fmt::format("the newest usable checkpoint is {}, and {} is gone or damaged: the model would be replaced by one of {}",
                    from, of, counted(to, "step"));
  if (shorter = gather_texts(run.ranks.all(), shorter)[0]; !shorter.empty())
    throw UserError(
        fmt::format("train.output holds a finished model of {}", counted(exported_step, "step")),
        run.path(exported_name(run.config())), shorter,
        fmt::format("put {} back, train its steps again by train.steps={}, or move the model away", of, exported_step));
  if (done < steps) return false;
  const bool named = of == checkpoint_name(done);
  const bool exported = named && (as.empty() || as == export_text(config));
  const std::string problem = run.ranks.first() && exported ? run.folder->export_problem() : "";
  const bool all = any(run.ranks.all(), run.ranks.first() && exported && problem.empty());
  std::string more =
      all ? fmt::format(" and {}: nothing is left to do; a larger train.steps goes on", run.path(exported_name(run.config())))
          : "";
  if (!problem.empty()) more = fmt::format("; {}: the model is exported again", problem);
  run.log.line("complete: {}, saved in {}{}",
               done == steps ? fmt::format("{} of {}", done, counted(done, "step"))
                             : fmt::format("{}, train.steps is {}", counted(done, "step"), steps),
               from, more);
  return all;
}

void export_model(const OpenedRun& run, const Progress& progress, const Saves& saves) {
  const bool first = run.ranks.first();
  if (first) fs::remove(run.path("exported"));
  if (const std::string bad = bad_weight(*run.engine); !bad.empty())
    run.log.warn("{}; no loss has shown it, and the model is saved as it is", bad);
  const SaveFolder folder = save_folder_of(run);
  write_model(run, progress, saves, folder);
  run.log.line("saved    {}{}", folder.dir,
               folder.dtype == DType::f32 || (run.lora && !run.config().lora.merge)
                   ? ""
                   : fmt::format(" in {}, rounded from f32 (checkpoint.model_dtype)", name(folder.dtype)));
  const std::string chat_flag = first && !run.data.fingerprint.chat_template.empty() &&
                                        (!folder.chat_template.empty() || load_chat_template(folder.dir) ||
                                         (!run.config().model.path.empty() && load_chat_template(run.config().model.path)))
                                    ? "--chat "
                                    : "";
  if (run.lora && !run.config().lora.merge) {
    const std::string base = shell_word(base_of(run.config())), adapter = shell_word(folder.dir);
    // merge-lora takes a model folder of Hugging Face as base, and no other weights (model.weights).
    run.log.line(
        "next     {0} generate --model {1} --adapter {2} {3}--prompt TEXT{4}", program_word(), base, adapter, chat_flag,
        run.config().model.path.empty() ? ""
                                        : fmt::format("; one model of both: {} merge-lora --model {} --adapter {} --output DIR",
                                                      program_word(), base, adapter));
  } else {
    run.log.line("next     {}", has_tokenizer(folder.dir) ? fmt::format("{} generate --model {} {}--prompt TEXT --sample",
                                                                        program_word(), shell_word(folder.dir), chat_flag)
                                                          : fmt::format("{} info {}", program_word(), shell_word(folder.dir)));
  }
  const std::string checkpoint = checkpoint_name(progress.done);
  try {  // if it fails, the next start exports again
    if (first && fs::exists(run.path("checkpoints/" + checkpoint)))
      write_file_atomic(run.path("exported"), fmt::format("{} {}\n", checkpoint, export_text(run.config())));
  } catch (const DiskFull& e) {
    run.log.warn("{}", e.what());
  }
}

}  // namespace ravine
