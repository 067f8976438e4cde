#include "io/stored_model.h"

#include <filesystem>

#include "base/log_once.h"
#include "files/compare.h"
#include "io/convert/megatron.h"
#include "io/convert/megatron_place.h"
#include "io/convert/weights.h"
#include "io/open_weights.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

struct Stored {
  const TensorFile* file = nullptr;
  const TensorInfo* info = nullptr;
};

// Finds a tensor with or without the prefix of the base model.
Stored find_in(const std::vector<std::unique_ptr<TensorFile>>& files, const std::string& name, const std::string& base) {
  for (const auto& file : files) {
    if (const TensorInfo* info = file->find(name)) return {file.get(), info};
    if (name.starts_with(base))
      if (const TensorInfo* info = file->find(name.substr(base.size()))) return {file.get(), info};
  }
  return {};
}

bool holds_two_tables(const std::string& folder, const Model& tied) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return false;
  try {
    const auto files = open_weights(folder);
    for (const FileTensor& t : tied.files().tensors) {
      if (t.params.size() != 1 || t.params[0]->name != kEmbedding) continue;
      const Stored embedding = find_in(files, t.name, tied.files().base);
      for (const std::string& copy : tied.files().copies)
        if (const Stored head = find_in(files, copy, tied.files().base); head.info && embedding.info)
          return !same_values(*embedding.file, *embedding.info, *head.file, *head.info);
    }
  } catch (const UserError&) {  // reported when the weights are loaded
  }
  return false;
}

}  // namespace

bool same_values(const TensorFile& a_file, const TensorInfo& a, const TensorFile& b_file, const TensorInfo& b) {
  if (!(a.shape == b.shape)) return false;
  const std::span<const std::byte> left = a_file.bytes(a), right = b_file.bytes(b);
  if (a.dtype == b.dtype && left.data() == right.data()) return true;  // one storage under two names
  return compare(a.dtype, left, b.dtype, right).differing == 0;
}

std::unique_ptr<Model> open_stored_model(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error) && !std::filesystem::exists(folder + "/config.json", error) &&
      holds_megatron(folder)) {
    const Weights w = open_megatron_model(folder);
    for (const std::string& note : w.notes) log_once("note: " + note);
    return make_model(w.config, w.config_where);
  }
  std::unique_ptr<Model> model = open_model(folder);
  if (!is_tied(*model) || !holds_two_tables(folder, *model)) return model;
  const std::string where = folder + "/config.json";
  Json config = model->config();
  config["tie_word_embeddings"] = false;
  std::unique_ptr<Model> untied = make_model(config, where);
  if (is_tied(*untied))
    throw UserError(
        "the head differs from the embedding", where,
        fmt::format("the {} family ties its head to the embedding, and the files hold another head", model->facts().family),
        "use weights that belong to config.json");
  log_once("warning: " + two_tables_text(where));
  return untied;
}

}  // namespace ravine
