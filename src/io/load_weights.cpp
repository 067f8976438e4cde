#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/parallel.h"
#include "base/text.h"
#include "io/huggingface.h"
#include "io/load_boxes.h"
#include "io/open_weights.h"

namespace ravine {
namespace {

using Files = std::vector<std::unique_ptr<TensorFile>>;

struct StoredParam {
  const TensorFile* file = nullptr;
  const TensorInfo* info = nullptr;
};

// Which stored tensor is which of the family's, by index. Everything is checked here, before any weight changes.
std::vector<StoredParam> match(const Files& files, const std::string& folder, const Model& model) {
  const WeightFiles& all = model.files();
  // By name, with and without the prefix of the base model; -1: a copy of another parameter, which is not read.
  std::unordered_map<std::string, int64_t> by_name;
  auto know = [&](const std::string& name, int64_t index) {
    by_name.emplace(name, index);
    if (name.starts_with(all.base)) by_name.emplace(name.substr(all.base.size()), index);
  };
  for (size_t i = 0; i < all.tensors.size(); ++i) know(all.tensors[i].name, static_cast<int64_t>(i));
  for (const std::string& name : all.copies) know(name, -1);
  std::vector<StoredParam> out(all.tensors.size());
  for (const auto& file : files) {
    for (const TensorInfo& info : file->tensors()) {
      auto it = by_name.find(std::string(info.name));
      if (it == by_name.end()) {
        if (all.constant(info.name)) continue;
        std::vector<std::string> names;
        for (const FileTensor& t : all.tensors) names.push_back(t.name);
        const std::string near = nearest(info.name, names);
        throw UserError("surplus tensor", tensor_at(file->path(), info.name),
                        fmt::format("the model ({}) has no parameter of this name", model.facts().family),
                        near.empty() ? "use weights that belong to config.json" : fmt::format("did you mean '{}'?", near));
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
                        fmt::format("its shape is {}, the model needs {}", info.shape.text(), t.shape.text()),
                        "use weights that belong to config.json");
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
    const std::string where = files.size() == 1 ? files[0]->path() : folder;
    throw UserError("missing tensor", tensor_at(where, first->name),
                    fmt::format("the model needs it ({} of {} parameters are missing)", missing, out.size()),
                    "use weights that belong to config.json");
  }
  return out;
}

}  // namespace

void check_weights(const std::string& folder, const Model& model) {
  const Files files = open_weights(folder);
  check_export(folder, false);
  match(files, folder, model);
}

std::vector<std::string> load_weights(const std::string& folder, const Model& model, WeightSource& store,
                                      const std::function<bool(const Param&)>& wanted) {
  const Files files = open_weights(folder);
  check_export(folder, false);
  const std::vector<StoredParam> stored = match(files, folder, model);
  const std::vector<FileTensor>& tensors = model.files().tensors;
  std::vector<std::vector<ParamBox>> boxes(model.params().params().size());  // by Param::index
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

}  // namespace ravine
