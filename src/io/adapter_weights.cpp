#include "io/adapter_weights.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>

#include "base/program_name.h"
#include "base/text.h"
#include "files/atomic.h"
#include "files/tensor_set.h"
#include "io/adapter_source.h"
#include "io/huggingface.h"
#include "io/load_tensors.h"
#include "io/open_weights.h"
#include "io/stored_model.h"
#include "io/write_tensors.h"
#include "model/vocabulary.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

TensorSource source_of(const AdapterSource& adapter, const std::string& folder, const WeightFiles& table, const Model& model) {
  return {
      .files = adapter.files,
      .where = folder,
      .table = table,
      .whole = "the adapter of this model",
      .kind = model.facts().family,
      .fix = "use the adapter with the base that it was trained on, and with the adapter_config.json that was saved with it"};
}

constexpr std::string_view kPeft = "base_model.model.";

bool is_vocabulary_table(const FileTensor& t) {
  return t.params.size() == 1 && (t.params[0]->name == kEmbedding || t.params[0]->name == kHead);
}

// Returns the two names under which PEFT stores a table next to an adapter: the table's own name, and its name as base
// layer.
std::vector<std::string> stored_names(const std::string& name) {
  const std::string peft = std::string(kPeft) + name;
  return {peft, peft.substr(0, peft.rfind('.')) + ".base_layer.weight"};
}

// Returns the name of the base's table in the file; "" if the file lacks it. A tied table may be stored under the
// head's name alone.
std::string table_in(const TensorFile& file, const FileTensor& t, const Model& base) {
  std::vector<std::string> names = stored_names(t.name);
  if (is_tied(base))
    for (const std::string& copy : base.files().copies)
      for (const std::string& name : stored_names(copy)) names.push_back(name);
  for (const std::string& name : names)
    if (file.find(name)) return name;
  return "";
}

// PEFT stores two extra copies of a table that is trained whole: the trained values again, and the original values.
std::string once_more(const std::string& name) { return name.substr(0, name.rfind('.')) + ".modules_to_save.weight"; }
std::string as_it_was(const std::string& name) { return name.substr(0, name.rfind('.')) + ".original_module.weight"; }

// Throws if a copy of a table differs from it, since the right one is then unknown.
void refuse_differing_copies(const TensorFile& file, const WeightFiles& table, const Model& model) {
  for (const FileTensor& t : table.tensors) {
    if (!is_vocabulary_table(t)) continue;
    const TensorInfo* own = file.find(t.name);
    std::vector<std::string> copies = {once_more(t.name)};
    if (is_tied(model) && t.params[0]->name == kEmbedding)
      for (const std::string& copy : model.files().copies)
        for (const std::string& name : stored_names(copy)) copies.push_back(name), copies.push_back(once_more(name));
    for (const std::string& name : copies)
      if (const TensorInfo* copy = file.find(name); copy && own && !same_values(file, *own, file, *copy))
        throw UserError("two different tables for one parameter", tensor_at(file.path(), name),
                        fmt::format("'{}' is the same table, and has other values", t.name),
                        "remove the wrong one, or save the adapter again with PEFT");
  }
}

}  // namespace

WeightFiles adapter_files_in(const TensorFile& file, const Model& model) {
  WeightFiles table = adapter_files(model);
  std::set<std::string> there;
  for (const FileTensor& t : table.tensors) there.insert(t.name);
  for (const FileTensor& t : model.files().tensors) {
    if (!is_vocabulary_table(t) || there.contains(std::string(kPeft) + t.name)) continue;
    const std::string name = table_in(file, t, model);
    if (name.empty()) continue;
    table.tensors.push_back(t);
    table.tensors.back().name = name;
  }
  for (const std::string& copy : model.files().copies)
    for (const std::string& name : stored_names(copy)) table.copies.push_back(name);
  std::vector<std::string> saved = table.copies;
  for (const FileTensor& t : model.files().tensors)
    if (is_vocabulary_table(t)) saved.push_back(std::string(kPeft) + t.name);
  for (const std::string& name : saved)
    for (const std::string& copy : {once_more(name), as_it_was(name)}) table.copies.push_back(copy);
  return table;
}

int64_t adapter_vocabulary(const std::string& folder, const Model& base) {
  const AdapterSource adapter = open_adapter(folder, base);
  int64_t rows = base.facts().vocabulary;
  std::string lacks;
  for (const FileTensor& t : base.files().tensors) {
    if (!is_vocabulary_table(t)) continue;
    if (const TensorInfo* info = adapter.file().find(table_in(adapter.file(), t, base)); !info)
      lacks = t.name;
    else if (info->shape.rank() == 2)
      rows = info->shape[0];
  }
  if (rows != base.facts().vocabulary && !lacks.empty())
    throw UserError(
        fmt::format("a table of {} rows, and no '{}{}'", rows, kPeft, lacks), adapter.file().path(),
        fmt::format("the base has {} rows in embedding and head, and the adapter replaces one of them alone",
                    base.facts().vocabulary),
        fmt::format("resize the base first, as PEFT needs it too: {} convert --resize-vocab {} --to hf", program_word(), rows));
  return rows;
}

std::unique_ptr<Model> with_adapter_of(const std::string& folder, const Model& base) {
  const LoraSettings lora = adapter_settings(folder, base);
  const int64_t rows = adapter_vocabulary(folder, base);
  const bool tied = is_tied(base) && !copies_table(base, lora);
  std::unique_ptr<Model> resized;
  if (rows != base.facts().vocabulary || tied != is_tied(base))
    resized = with_vocabulary(base, {.rows = rows, .tied = tied, .where = open_adapter(folder, base).file().path()});
  std::unique_ptr<Model> model = with_adapters(resized ? *resized : base, lora);
  check_adapter(folder, *model);
  return model;
}

LoraSettings adapter_settings(const std::string& folder, const Model& base) {
  const AdapterSource adapter = open_adapter(folder, base);
  return settings_of(adapter.config, adapter.config_file);
}

void check_adapter(const std::string& folder, const Model& model) {
  const AdapterSource adapter = open_adapter(folder, model);
  const WeightFiles table = adapter_files_in(adapter.file(), model);
  check_tensors(source_of(adapter, folder, table, model));
  refuse_differing_copies(adapter.file(), table, model);
}

void load_adapter(const std::string& folder, const Model& model, WeightSource& store) {
  const AdapterSource adapter = open_adapter(folder, model);
  const WeightFiles table = adapter_files_in(adapter.file(), model);
  load_tensors(source_of(adapter, folder, table, model), model.params().params().size(), store);
}

void save_adapter(const SaveFolder& options, const std::string& base, const LoraSettings& lora, const Model& model,
                  WeightSource& store) {
  const fs::path target = fs::path(options.dir).lexically_normal();
  refuse_foreign_model(target.string(), options.run, nullptr);
  if (target.has_parent_path()) create_folders(target.parent_path().string());
  AtomicFolder folder(target.string());
  write_file_atomic(folder.folder() + "/adapter_config.json", adapter_config_of(lora, model, base).dump(2) + "\n");
  WeightFiles table = adapter_files(model);
  if (lora.ties_weights) {  // PEFT reads the table under both names
    const std::vector<FileTensor> own = table.tensors;
    for (const FileTensor& t : own)
      if (is_vocabulary_table(t) && is_tied(model)) {
        table.tensors.push_back(t);
        table.tensors.back().name = std::string(kPeft) + model.files().copies.at(0);
      }
  }
  std::vector<const FileTensor*> tensors;
  for (const FileTensor& t : table.tensors) tensors.push_back(&t);
  write_tensors(folder.folder() + "/adapter_model.safetensors", tensors, DType::f32, store);
  save_chat_files(options, folder.folder(), model, !options.generation.empty());
  write_mark(folder.folder(), mark_of(folder.folder(), options.run, kModelFolder));
  folder.commit([&](const std::string& replaced) { refuse_foreign_model(replaced, options.run, nullptr); });
}

}  // namespace ravine
