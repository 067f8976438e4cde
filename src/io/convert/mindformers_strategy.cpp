#include "io/convert/mindformers_strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/read_text.h"
#include "files/protobuf.h"
#include "files/tensor_set.h"
#include "io/convert/mindformers.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kMostOfStrategy = int64_t{256} << 20;

void refuse_strategy(const std::string& where, const std::string& rule) {
  throw UserError("damaged strategy file", where, rule, "name a file that MindSpore has written in output/strategy");
}

// Returns the numbers `dim` of a message DevMatrix or TensorMap, packed or one by one.
std::vector<int64_t> dims_of(ProtobufMessage message) {
  std::vector<int64_t> out;
  while (const auto f = message.next()) {
    if (f->number != 1) continue;
    if (f->wire == ProtobufField::Wire::varint) {
      out.push_back(static_cast<int64_t>(f->value));
    } else {
      ProtobufMessage packed = message.in(*f);
      while (!packed.left().empty()) out.push_back(static_cast<int64_t>(packed.varint()));
    }
  }
  return out;
}

// Parses ParallelLayouts: the number of parts of each dim; nothing if it does not determine the split.
std::vector<int64_t> cuts_of(ProtobufMessage layout, const std::string& where) {
  std::vector<int64_t> devices, map, cuts;
  int64_t shards = 0;
  while (const auto f = layout.next()) {
    if (f->number == 7 && f->wire == ProtobufField::Wire::varint) shards = static_cast<int32_t>(f->value);
    if (f->wire != ProtobufField::Wire::bytes) continue;
    if (f->number == 1 && devices.empty()) devices = dims_of(layout.in(*f));
    if (f->number == 2 && map.empty()) map = dims_of(layout.in(*f));
  }
  if (shards < 0 || devices.empty()) return {};
  for (const int64_t axis : map) {
    if (axis != -1 && (axis < 0 || axis >= static_cast<int64_t>(devices.size())))
      refuse_strategy(where, fmt::format("a tensor map names axis {} of {}", axis, devices.size()));
    cuts.push_back(axis == -1 ? 1 : devices[devices.size() - 1 - static_cast<size_t>(axis)]);
  }
  if (!cuts.empty() && shards > 1 && __builtin_mul_overflow(cuts[0], shards, &cuts[0])) cuts[0] = 0;
  if (std::any_of(cuts.begin(), cuts.end(), [](int64_t n) { return n < 1 || n > 1 << 20; }))
    refuse_strategy(where, "a dim is cut into at least one part, and into a million at most");
  return cuts;
}

}  // namespace

MindFormersCuts parse_mindformers_strategy(std::string_view text, const std::string& where) {
  MindFormersCuts out;
  ProtobufMessage file(text, where, refuse_strategy);
  while (const auto item = file.next()) {
    if (item->number != 3 || item->wire != ProtobufField::Wire::bytes) continue;
    ProtobufMessage layout = file.in(*item);
    std::string name;
    std::vector<int64_t> cuts;
    while (const auto f = layout.next()) {
      if (f->wire != ProtobufField::Wire::bytes) continue;
      if (f->number == 1) name = std::string(f->bytes);
      if (f->number == 2) cuts = cuts_of(layout.in(*f), where);
    }
    // In a file of several stages the name begins with the stage: "0-model.norm_out.weight".
    if (const size_t dash = name.find('-');
        dash != std::string::npos && dash > 0 && name.find_first_not_of("0123456789") == dash)
      name = name.substr(dash + 1);
    if (!name.empty() && !cuts.empty()) out[name] = cuts;
  }
  return out;
}

MindFormersCuts read_mindformers_strategy(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files;
  if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::directory_iterator(path, error))
      if (entry.path().extension() == ".ckpt") files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
  } else {
    files = {path};
  }
  if (files.empty())
    throw UserError("no strategy", path, "the folder holds files ckpt_strategy_rank_R.ckpt", "name the folder output/strategy");
  MindFormersCuts out;
  for (const std::string& file : files)
    for (auto& [name, cuts] : parse_mindformers_strategy(read_text(file, kMostOfStrategy, "strategy file"), file))
      out.insert_or_assign(name, std::move(cuts));
  return out;
}

std::string strategy_disagreement(const MindFormersCuts& cuts, const std::string& weights, const Json& model,
                                  const std::string& where) {
  const Geometry g = geometry_of(model, where);
  for (const std::string& path : mindformers_files(weights)) {
    const std::shared_ptr<const TensorFile> file = open_tensor_file(path);
    for (const TensorInfo& t : file->tensors()) {
      const auto declared = cuts.find(t.name);
      if (declared == cuts.end()) continue;
      const Shape whole = mindformers_shape(t.name, g);
      if (whole.rank() == 0) continue;
      bool agrees = declared->second.size() == static_cast<size_t>(whole.rank()) && t.shape.rank() == whole.rank();
      for (int d = 0; agrees && d < whole.rank(); ++d) {
        const int64_t parts = declared->second[static_cast<size_t>(d)];
        agrees = whole[d] % parts == 0 && t.shape[d] == whole[d] / parts;
      }
      if (!agrees)
        return fmt::format("{}: '{}' is {}, and {} in the model; the strategy cuts it into [{}]", path, t.name, t.shape.text(),
                           whole.text(), fmt::join(declared->second, ", "));
    }
  }
  return "";
}

}  // namespace ravine
