// The model folder that a run leaves at its end.
#include <filesystem>

#include "base/program_name.h"
#include "base/shell_word.h"
#include "data/tokenizers/chat_template.h"
#include "data/tokenizers/sentencepiece_json.h"
#include "files/tokenizer_files.h"
#include "io/huggingface.h"
#include "io/model_folder.h"
#include "parallel/whole_units.h"
#include "train/trainer.h"

namespace ravine {
namespace fs = std::filesystem;

std::string Trainer::export_text() const { return fmt::format("{}, files of {} MB", config_.checkpoint.model_dtype, config_.checkpoint.shard_mb); }

void Trainer::export_model() {
  if (const std::string bad = bad_weight(); !bad.empty()) log_.warn("{}; no loss has shown it, and the model is saved as it is", bad);
  const Config& c = config_;
  SaveFolder folder;
  folder.dir = path("model");
  folder.dtype = parse_dtype(c.checkpoint.model_dtype).value();
  folder.shard_bytes = config_.checkpoint.shard_mb * 1000000;
  folder.tokenizer = config_.model.tokenizer.empty() ? config_.model.path : config_.model.tokenizer;
  folder.missing_tokenizer_files = missing_tokenizer_files;
  if (std::string given = (fs::path(c.model.path) / "generation_config.json").string(); !c.model.path.empty() && fs::exists(given))
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
  auto save = [&](WeightSource& store) {
    try {
      save_model_folder(folder, *model_, store);
    } catch (const DiskFull& e) {
      fail("the model was not saved, it needs {}: {}; {}", human_bytes(static_cast<double>(model_bytes_)), e.what(), what_is_kept());
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
  log_.line("saved    {}{}", folder.dir,
            folder.dtype == DType::f32 ? "" : fmt::format(" in {}, rounded from f32 (checkpoint.model_dtype)", name(folder.dtype)));
  const bool chats = ranks_.first() && end_token_ && load_chat_template(folder.dir);
  log_.line("next     {}", has_tokenizer(folder.dir) ? fmt::format("{} generate --model {} {}--prompt TEXT --sample", program_word(), shell_word(folder.dir), chats ? "--chat " : "") : fmt::format("{} info {}", program_word(), shell_word(folder.dir)));
}

}  // namespace ravine
