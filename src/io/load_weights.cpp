#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/counted.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/text.h"
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

// The number that the name of a layer's tensor holds; -1: none.
int64_t layer_number(std::string_view name) {
  for (const std::string& part : split(name, '.'))
    if (!part.empty() && part.size() < 6 && part.find_first_not_of("0123456789") == std::string::npos) return std::stoll(part);
  return -1;
}

// Of a tensor that no layer of the model has, its layer, and how many layers are known, where layer 0 has such a tensor; else
// {-1, 0}.
std::pair<int64_t, int64_t> layers_of(std::string_view name, const std::vector<std::string>& names) {
  const int64_t number = layer_number(name);
  if (number < 0) return {-1, 0};
  const std::string mine = fmt::format(".{}.", number);
  std::string first(name);
  first.replace(first.find(mine), mine.size(), ".0.");
  int64_t layers = 0;
  bool there = false;
  for (const std::string& n : names) {
    there = there || n == first || n.ends_with("." + first);
    layers = std::max(layers, layer_number(n) + 1);
  }
  return there ? std::pair{number, layers} : std::pair<int64_t, int64_t>{-1, 0};
}

// Which stored tensor is which of the family's, by index. Everything is checked here, before any weight changes.
std::vector<StoredParam> match(const TensorSource& source) {
  const WeightFiles& all = source.table;
  // By name, with and without the prefix of the base model; -1: a copy of another parameter, which is not read.
  std::unordered_map<std::string, int64_t> by_name;
  auto know = [&](const std::string& name, int64_t index) {
    by_name.emplace(name, index);
    if (name.starts_with(all.base)) by_name.emplace(name.substr(all.base.size()), index);
  };
  for (size_t i = 0; i < all.tensors.size(); ++i) know(all.tensors[i].name, static_cast<int64_t>(i));
  for (const std::string& name : all.copies) know(name, -1);
  std::vector<StoredParam> out(all.tensors.size());
  for (const auto& file : source.files) {
    for (const TensorInfo& info : file->tensors()) {
      auto it = by_name.find(std::string(info.name));
      if (it == by_name.end()) {
        if (all.constant(info.name) || all.is_further(info.name)) continue;
        std::vector<std::string> names;
        for (const FileTensor& t : all.tensors) names.push_back(t.name);
        if (const auto [have, need] = layers_of(info.name, names); have >= need && need > 0)
          throw UserError("surplus tensor", tensor_at(file->path(), info.name),
                          fmt::format("{} has {} by its config, the file holds layer {}, counted from 0", source.whole,
                                      counted(need, "layer"), have),
                          source.fix);
        const std::string near = nearest(info.name, names);
        throw UserError("surplus tensor", tensor_at(file->path(), info.name),
                        fmt::format("{} ({}) has no parameter of this name", source.whole, source.kind),
                        near.empty() ? source.fix : fmt::format("did you mean '{}'?", near));
      }
      if (it->second < 0) continue;
      StoredParam& place = out[static_cast<size_t>(it->second)];
      const FileTensor& t = all.tensors[static_cast<size_t>(it->second)];
      if (place.info)
        throw UserError("tensor is stored twice", tensor_at(file->path(), info.name),
                        fmt::format("'{}' in {} is the same parameter", printable(place.info->name), place.file->path()),
                        "remove one of them");
      if (!(info.shape == t.shape))
        throw UserError("misshapen tensor", tensor_at(file->path(), info.name),
                        fmt::format("its shape is {}, {} needs {}", info.shape.text(), source.whole, t.shape.text()),
                        source.fix);
      if (!is_float(info.dtype))
        throw UserError("tensor is not floating", tensor_at(file->path(), info.name),
                        fmt::format("weights must be f32, bf16, f16 or f64, it is {}", name(info.dtype)),
                        "convert the weights");
      place = {file.get(), &info};
    }
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
          .fix = "use weights that belong to config.json"};
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

std::vector<std::string> load_weights(const std::string& folder, const Model& model, WeightSource& store,
                                      const std::function<bool(const Param&)>& wanted) {
  const auto files = open_weights(folder);
  check_export(folder, false);
  const WeightFiles table = stored_files(model);
  const bool further = std::any_of(files.begin(), files.end(), [&](const auto& file) {
    const auto& tensors = file->tensors();
    return std::any_of(tensors.begin(), tensors.end(), [&](const TensorInfo& t) { return table.is_further(t.name); });
  });
  if (further) say(fmt::format("warning: {}: {}", folder, kFurtherLayers));
  const TensorSource source = model_source(files, folder, table, model);
  const std::vector<std::string> names = load_tensors(source, model.params().params().size(), store, wanted);
  load_blocks(source, model, store, wanted);
  fill_new_rows(files, table, names, model, store, wanted);
  std::vector<std::string> all;  // a head that the files lack goes by the name that they would give it
  size_t read = 0;
  for (const FileTensor& t : model.files().tensors) {
    const bool there = read < table.tensors.size() && table.tensors[read].name == t.name;
    all.push_back(there ? names[read++] : t.name);
  }
  return all;
}

}  // namespace ravine
