// The model folder that a run leaves at its end.
#include <algorithm>
#include <filesystem>
#include <map>

#include "base/program_name.h"
#include "base/shell_word.h"
#include "files/tokenizer_files.h"
#include "io/huggingface.h"
#include "io/model_folder.h"
#include "io/open_weights.h"
#include "parallel/whole_units.h"
#include "text/chat/chat_template.h"
#include "text/tokenizers/sentencepiece_json.h"
#include "train/trainer.h"

namespace ravine {
namespace fs = std::filesystem;

namespace {

// Weights for export: those of a store, and what is frozen and kept in 16 bits as the model folder has it that the run began
// from, unit by unit.
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
      if (!p->tied && !p->trainable && store_.master(*p).dtype != types_.master)
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

// Whether some weights are kept in 16 bits alone.
bool rounds_frozen(const FlatWeights& store) {
  return std::any_of(store.table().buckets.begin(), store.table().buckets.end(),
                     [](const Bucket& b) { return b.storage == ValueStorage::copy; });
}

}  // namespace

std::string Trainer::export_text() const {
  return fmt::format("{}, files of {} MB", name(config_.checkpoint.model_dtype.value()), config_.checkpoint.shard_mb);
}

void Trainer::export_model() {
  if (const std::string bad = bad_weight(); !bad.empty())
    log_.warn("{}; no loss has shown it, and the model is saved as it is", bad);
  const Config& c = config_;
  SaveFolder folder;
  folder.dir = path("model");
  folder.dtype = c.checkpoint.model_dtype.value();
  folder.shard_bytes = config_.checkpoint.shard_mb * 1000000;
  folder.tokenizer = config_.model.tokenizer.empty() ? config_.model.path : config_.model.tokenizer;
  folder.missing_tokenizer_files = missing_tokenizer_files;
  if (std::string given = (fs::path(c.model.path) / "generation_config.json").string();
      !c.model.path.empty() && fs::exists(given))
    folder.generation = read_json(given);
  if (end_token_) {
    Json ids = Json::array({*end_token_});
    Json had = folder.generation.contains("eos_token_id") ? Json(folder.generation["eos_token_id"]) : Json(model_->facts().eos);
    for (const Json& id : had.is_array() ? had : Json::array({had}))
      if (id.is_number_integer() && id != *end_token_) ids.push_back(id);
    folder.generation["eos_token_id"] = ids.size() == 1 ? Json(*end_token_) : ids;
  }
  folder.chat_template = chat_template_;
  folder.run = folder_->run();
  folder.seen = folder_->model_seen();
  std::string exact_from;  // where frozen weights can be read again as they were
  if (any(ranks_.all(), rounds_frozen(engine_->store())) && !c.model.path.empty() && ranks_.first()) try {
      if (weights_checksum(c.model.path) == began_with_) exact_from = c.model.path;
    } catch (const UserError&) {
    }
  if (any(ranks_.all(), rounds_frozen(engine_->store())) && exact_from.empty() && frozen_elsewhere_ && ranks_.first())
    log_.warn("{} no longer holds the weights that this run began with: frozen ones are exported as training has them, in {}",
              c.model.path, name(types_.compute));
  auto save = [&](WeightSource& store) {
    try {
      ExactFrozen exact(store, *model_, types_, exact_from);
      save_model_folder(folder, *model_, exact_from.empty() ? store : exact);
    } catch (const DiskFull& e) {
      fail("the model was not saved, it needs {}: {}; {}", human_bytes(static_cast<double>(model_bytes_)), e.what(),
           what_is_kept());
    }
  };
  engine_->rest();  // whole units, and what is sent of them, take its place
  // Every rank is asked, so that all go the same way.
  if (!any(ranks_.all(), !engine_->store().all_resident())) {
    if (ranks_.first()) save(engine_->store());
  } else {
    UnitExport whole(*model_, engine_->store(), ranks_, engine_->stages());
    if (ranks_.first()) {
      save(whole);
      whole.end();
    } else {
      whole.serve();
    }
  }
  log_.line(
      "saved    {}{}", folder.dir,
      folder.dtype == DType::f32 ? "" : fmt::format(" in {}, rounded from f32 (checkpoint.model_dtype)", name(folder.dtype)));
  const bool chats = ranks_.first() && end_token_ && load_chat_template(folder.dir);
  log_.line("next     {}", has_tokenizer(folder.dir)
                               ? fmt::format("{} generate --model {} {}--prompt TEXT --sample", program_word(),
                                             shell_word(folder.dir), chats ? "--chat " : "")
                               : fmt::format("{} info {}", program_word(), shell_word(folder.dir)));
}

}  // namespace ravine
