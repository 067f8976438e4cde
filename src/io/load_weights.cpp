#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/parallel.h"
#include "base/text.h"
#include "files/convert.h"
#include "io/huggingface.h"
#include "io/names.h"
#include "io/open_weights.h"

namespace ravine {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;  // elements of one chunk

using Files = std::vector<std::unique_ptr<TensorFile>>;

struct Stored {
  const TensorFile* file = nullptr;
  const TensorInfo* info = nullptr;
};

std::string at(const std::string& path, std::string_view tensor) {
  return fmt::format("{}: tensor '{}'", path, printable(tensor));
}

// Which stored tensor gives which parameter, by Param::index. Everything is checked here, before any weight changes.
std::vector<Stored> match(const Files& files, const std::string& folder, const Model& model) {
  const NameTable& table = names_of(model.facts().family);
  const auto& params = model.params().params();
  std::unordered_map<std::string, const Param*> by_name;
  for (const Param& p : params)
    if (auto [it, fresh] = by_name.emplace(p.name, &p); !fresh && !p.tied) it->second = &p;
  std::vector<Stored> out(params.size());
  for (const auto& file : files) {
    for (const TensorInfo& info : file->tensors()) {
      auto it = by_name.find(table.parameter(info.name));
      if (it == by_name.end()) {
        if (table.constant(info.name)) continue;
        std::vector<std::string> names;
        for (const Param& p : params)
          if (!p.tied) names.push_back(p.name);
        const std::string near = nearest(table.parameter(info.name), names);
        throw UserError("surplus tensor", at(file->path(), info.name),
                        fmt::format("the model ({}) has no parameter of this name", model.facts().family),
                        near.empty() ? "use weights that belong to config.json" : fmt::format("did you mean '{}'?", near));
      }
      const Param& p = *it->second;
      if (p.tied) continue;
      Stored& place = out[p.index];
      if (place.info)
        throw UserError("tensor is stored twice", at(file->path(), info.name),
                        fmt::format("'{}' in {} is the same parameter", printable(place.info->name), place.file->path()),
                        "remove one of them");
      if (!(info.shape == p.shape))
        throw UserError("misshapen tensor", at(file->path(), info.name),
                        fmt::format("its shape is {}, the model needs {}", info.shape.text(), p.shape.text()),
                        "use weights that belong to config.json");
      if (!is_float(info.dtype))
        throw UserError("tensor is not floating", at(file->path(), info.name),
                        fmt::format("weights must be f32, bf16, f16 or f64, it is {}", name(info.dtype)),
                        "convert the weights");
      place = {file.get(), &info};
    }
  }
  const Param* first = nullptr;
  int64_t missing = 0, all = 0;
  for (const Param& p : params) {
    if (p.tied) continue;
    ++all;
    if (out[p.index].info) continue;
    if (!first) first = &p;
    ++missing;
  }
  if (first) {
    const std::string where = files.size() == 1 ? files[0]->path() : folder;
    throw UserError("missing tensor", at(where, table.file(first->name)),
                    fmt::format("the model needs it ({} of {} parameters are missing)", missing, all),
                    "use weights that belong to config.json");
  }
  return out;
}

struct Piece {
  Stored from;
  TensorView to;
  int64_t begin, count;  // elements
};

void copy_piece(const Piece& p, std::vector<std::byte>& scratch) {
  const DType from = p.from.info->dtype;
  std::byte* target = static_cast<std::byte*>(p.to.data) + p.begin * size_of(p.to.dtype);
  const int64_t offset = p.begin * size_of(from);
  const auto bytes = static_cast<size_t>(p.count * size_of(from));
  if (from == p.to.dtype) {
    p.from.file->read(*p.from.info, offset, {target, bytes});
    return;
  }
  scratch.resize(bytes);
  p.from.file->read(*p.from.info, offset, scratch);
  convert(from, scratch.data(), p.to.dtype, target, p.count);
}

}  // namespace

void check_weights(const std::string& folder, const Model& model) { match(open_weights(folder), folder, model); }

void load_weights(const std::string& folder, Model& model, ParamStore& store) {
  const Files files = open_weights(folder);
  const std::vector<Stored> stored = match(files, folder, model);
  std::vector<std::vector<std::byte>> scratch(static_cast<size_t>(thread_count()));
  for (const Unit& unit : model.params().units()) {
    Lease lease(store, unit);
    std::vector<Piece> pieces;
    for (const Param* p : unit.params) {
      if (p->tied) continue;
      const TensorView to = store.master(*p);
      require(to.shape == p->shape && to.contiguous(), "load_weights: the master of '{}' is whole and contiguous, got {}",
              p->name, to.shape.text());
      if (to.device == DeviceKind::meta) continue;
      for (int64_t begin = 0; begin < to.count(); begin += kPiece)
        pieces.push_back({stored[p->index], to, begin, std::min(kPiece, to.count() - begin)});
    }
    parallel_for_threads(static_cast<int64_t>(pieces.size()), [&](int64_t i, int thread) {
      copy_piece(pieces[static_cast<size_t>(i)], scratch[static_cast<size_t>(thread)]);
    });
  }
}

}  // namespace ravine
