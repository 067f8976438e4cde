#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>

#include "base/counted.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/text.h"
#include "io/convert/convert.h"
#include "io/huggingface.h"
#include "io/load_blocks.h"
#include "io/load_boxes.h"
#include "io/load_tensors.h"
#include "io/new_rows.h"
#include "io/open_weights.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

struct StoredParam {
  const TensorFile* file = nullptr;
  const TensorInfo* info = nullptr;
};

// True for the embedding's tensor, also if a missing head is initialized as its copy (stored_files).
bool is_embedding(const FileTensor& t) { return !t.params.empty() && t.params[0]->name == kEmbedding; }

// A tensor name split at its layer number: the first number between dots. `layer` is -1 if there is none.
struct LayerName {
  explicit LayerName(std::string_view name) {
    for (size_t at = name.find('.'); at != name.npos; at = name.find('.', at + 1)) {
      const std::string_view part = name.substr(at + 1, name.find('.', at + 1) - at - 1);
      if (part.empty() || part.size() > 5 || part.find_first_not_of("0123456789") != part.npos) continue;
      layer = std::stoll(std::string(part));
      before = name.substr(0, at);
      behind = name.substr(at + 1 + part.size());
      return;
    }
  }
  bool is_of_same_kind(const LayerName& other) const {  // `other` may have an additional prefix
    return layer >= 0 && other.layer >= 0 && behind == other.behind &&
           (before == other.before || other.before.ends_with("." + std::string(before)));
  }
  int64_t layer = -1;
  std::string_view before, behind;
};

// Returns a text on the layers that have such a tensor; "" if no layer has one, or if this layer has one.
std::string layers_with(const LayerName& wanted, const std::vector<std::string>& names) {
  std::set<int64_t> all, layers;
  for (const std::string& n : names) {
    const LayerName known(n);
    if (known.layer >= 0) all.insert(known.layer);
    if (wanted.is_of_same_kind(known)) layers.insert(known.layer);
  }
  if (layers.empty() || layers.contains(wanted.layer)) return "";
  const auto count = static_cast<int64_t>(layers.size());
  if (layers == all && *layers.begin() == 0 && *layers.rbegin() == count - 1) return counted(count, "layer");
  return fmt::format("it in layer{} {}", count == 1 ? "" : "s", fmt::join(layers, ", "));
}

void check(const TensorSource& source, const FileTensor& t, const TensorFile& file, const TensorInfo& info) {
  if (!(info.shape == t.shape))
    throw UserError("misshapen tensor", tensor_at(file.path(), info.name),
                    fmt::format("its shape is {}, {} needs {}", info.shape.text(), source.whole, t.shape.text()), source.fix);
  if (!is_float(info.dtype))
    throw UserError("tensor is not floating", tensor_at(file.path(), info.name),
                    fmt::format("weights must be f32, bf16, f16 or f64, it is {}", name(info.dtype)), "convert the weights");
}

// Finds the stored tensor of each tensor of the table, by index. All checks happen here, before any weight changes.
std::vector<StoredParam> match(const TensorSource& source) {
  const WeightFiles& all = source.table;
  // Index by name, with and without the prefix of the base model; -1: a copy of the embedding.
  std::unordered_map<std::string, int64_t> by_name;
  auto know = [&](const std::string& name, int64_t index) {
    by_name.emplace(name, index);
    if (name.starts_with(all.base)) by_name.emplace(name.substr(all.base.size()), index);
  };
  for (size_t i = 0; i < all.tensors.size(); ++i) know(all.tensors[i].name, static_cast<int64_t>(i));
  for (const std::string& name : all.copies) know(name, -1);
  std::vector<StoredParam> out(all.tensors.size());
  StoredParam copy;
  for (const auto& file : source.files) {
    for (const TensorInfo& info : file->tensors()) {
      auto it = by_name.find(std::string(info.name));
      if (it == by_name.end()) {
        if (all.constant(info.name) || all.is_further(info.name)) continue;
        std::vector<std::string> names;
        for (const FileTensor& t : all.tensors) names.push_back(t.name);
        const LayerName layer(info.name);
        if (const std::string those = layers_with(layer, names); !those.empty())
          throw UserError(
              "surplus tensor", tensor_at(file->path(), info.name),
              fmt::format("{} has {} by its config, the file holds layer {}, counted from 0", source.whole, those, layer.layer),
              source.fix);
        const std::string near = nearest(info.name, names);
        throw UserError("surplus tensor", tensor_at(file->path(), info.name),
                        fmt::format("{} ({}) has no parameter of this name", source.whole, source.kind),
                        near.empty() ? source.fix : fmt::format("did you mean '{}'?", near));
      }
      if (it->second < 0) {
        copy = {file.get(), &info};
        continue;
      }
      StoredParam& position = out[static_cast<size_t>(it->second)];
      if (position.info)
        throw UserError("tensor is stored twice", tensor_at(file->path(), info.name),
                        fmt::format("'{}' in {} is the same parameter", printable(position.info->name), position.file->path()),
                        "remove one of them");
      check(source, all.tensors[static_cast<size_t>(it->second)], *file, info);
      position = {file.get(), &info};
    }
  }
  for (size_t i = 0; source.head_alone && copy.info && i < out.size(); ++i)
    if (!out[i].info && is_embedding(all.tensors[i])) {
      check(source, all.tensors[i], *copy.file, *copy.info);
      out[i] = copy;
    }
  const FileTensor* first = nullptr;
  int64_t missing = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].info) continue;
    if (!first) first = &all.tensors[i];
    ++missing;
  }
  if (first) {
    const std::string where = source.files.size() == 1 ? source.files[0]->path() : source.where;
    throw UserError("missing tensor", tensor_at(where, first->name),
                    fmt::format("{} needs it ({} of {} parameters are missing)", source.whole, missing, out.size()),
                    source.fix);
  }
  return out;
}

TensorSource model_source(const std::vector<std::unique_ptr<TensorFile>>& files, const std::string& folder,
                          const WeightFiles& table, const Model& model) {
  return {.files = files,
          .where = folder,
          .table = table,
          .whole = "the model",
          .kind = model.facts().family,
          .fix = "use weights that belong to config.json",
          .head_alone = true};
}

}  // namespace

void check_tensors(const TensorSource& source) { match(source); }

std::vector<std::string> load_tensors(const TensorSource& source, size_t params, WeightSource& store,
                                      const std::function<bool(const Param&)>& wanted) {
  const std::vector<StoredParam> stored = match(source);
  const std::vector<FileTensor>& tensors = source.table.tensors;
  std::vector<std::vector<ParamBox>> boxes(params);  // by Param::index
  for (ParamBox& box : store.boxes())
    if (!wanted || wanted(*box.param)) boxes[box.param->index].push_back(std::move(box));
  std::vector<BoxRead> reads;
  std::vector<std::string> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    names.emplace_back(stored[i].info->name);
    plan_reads(*stored[i].file, *stored[i].info, tensors[i], boxes, reads);
  }
  std::vector<std::vector<std::byte>> scratch(static_cast<size_t>(thread_count()));
  parallel_for_threads(static_cast<int64_t>(reads.size()), [&](int64_t i, int thread) {
    run_read(reads[static_cast<size_t>(i)], scratch[static_cast<size_t>(thread)]);
  });
  return names;
}

void check_weights(const std::string& folder, const Model& model) {
  const auto files = open_weights(folder);
  check_export(folder, false);
  const WeightFiles table = stored_files(model);
  check_tensors(model_source(files, folder, table, model));
}

void load_weights_of(const std::string& path, const Model& model, WeightSource& store,
                     const std::function<bool(const Param&)>& wanted) {
  std::vector<std::unique_ptr<TensorFile>> files;
  files.push_back(open_weights_of_any(path, model.config(), "model.config"));
  const WeightFiles table = stored_files(model);
  load_tensors(model_source(files, path, table, model), model.params().params().size(), store, wanted);
}

std::vector<std::string> load_weights(const std::string& folder, const Model& model, WeightSource& store,
                                      const std::function<bool(const Param&)>& wanted) {
  const auto files = open_weights(folder);
  check_export(folder, false);
  const WeightFiles table = stored_files(model);
  const bool further = std::any_of(files.begin(), files.end(), [&](const auto& file) {
    const auto& tensors = file->tensors();
    return std::any_of(tensors.begin(), tensors.end(), [&](const TensorInfo& t) { return table.is_further(t.name); });
  });
  if (further) print_stderr(fmt::format("warning: {}: {}", folder, kFurtherLayers));
  const TensorSource source = model_source(files, folder, table, model);
  const std::vector<std::string> names = load_tensors(source, model.params().params().size(), store, wanted);
  load_blocks(source, model, store, wanted);
  fill_new_rows(files, table, names, model, store, wanted);
  std::vector<std::string> all;  // a head that the files lack has the name that they would use
  size_t read = 0;
  for (const FileTensor& t : model.files().tensors) {
    const bool there = read < table.tensors.size() && table.tensors[read].name == t.name;
    all.push_back(there ? names[read++] : t.name);
  }
  return all;
}

}  // namespace ravine
