#include "io/convert/dist_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/ranges.h>

#include "base/checked.h"
#include "base/error.h"
#include "files/compressed.h"
#include "io/convert/torch_elements.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClasses = "torch.distributed.checkpoint.metadata.";
constexpr int64_t kMaxMetadata = int64_t{1} << 30;

using Offsets = std::vector<int64_t>;

// Reads the fields of .metadata, which holds objects of a few classes.
class DistDescription {
 public:
  explicit DistDescription(const std::string& path)
      : path_(path), bytes_(read_whole(path, kMaxMetadata)), p_(as_bytes(bytes_), path) {
    root_ = fields(p_.root(), std::string(kClasses) + "Metadata");
  }
  const Pickle& pickle() const { return p_; }
  Pickle::Ref field(Pickle::Ref dict, const char* key) const {
    const auto v = p_.find(dict, key);
    if (!v) refuse(fmt::format("it lacks '{}'", key));
    return *v;
  }
  Pickle::Ref of_root(const char* key) const { return field(root_, key); }
  // Returns the state of an object of class `name`.
  Pickle::Ref fields(Pickle::Ref v, const std::string& name) const {
    if (!is(v, name) || p_.items(v).size() < 3 || !p_.fields(p_.items(v)[2]))
      refuse(fmt::format("an object of {} is expected, found {}, which is not executed", name, p_.describe(v)));
    return p_.items(v)[2];
  }
  bool is(Pickle::Ref v, const std::string& name) const {
    return p_.kind(v) == Pickle::Kind::object && p_.global(p_.items(v)[0]) == name;
  }
  // Reads a torch.Size.
  Offsets offsets(Pickle::Ref v) const {
    Pickle::Ref list = v;
    if (is(v, "torch.Size") && p_.kind(p_.items(v)[1]) == Pickle::Kind::tuple && p_.items(p_.items(v)[1]).size() == 1)
      list = p_.items(p_.items(v)[1])[0];
    Offsets out;
    if (p_.kind(list) != Pickle::Kind::tuple || p_.items(list).size() > 5) refuse("sizes and offsets are at most 5 numbers");
    for (const Pickle::Ref i : p_.items(list)) {
      const auto n = p_.integer(i);
      if (!n || *n < 0 || *n > int64_t{1} << 48) refuse("sizes and offsets are whole numbers from 0 to 2^48");
      out.push_back(*n);
    }
    return out;
  }
  [[noreturn]] void refuse(const std::string& rule) const {
    throw UserError("bad description of a torch_dist folder", path_, rule, "use a complete checkpoint");
  }

 private:
  static std::span<const std::byte> as_bytes(const std::string& s) { return std::as_bytes(std::span(s.data(), s.size())); }
  std::string path_, bytes_;
  Pickle p_;
  Pickle::Ref root_ = 0;
};

struct Chunk {
  std::string file;
  int64_t begin = 0, size = 0;
};
// The chunks, by (tensor name, offsets).
using Chunks = std::map<std::pair<std::string, Offsets>, Chunk>;

Chunks chunks_of(const DistDescription& m) {
  const Pickle& p = m.pickle();
  Chunks out;
  const std::vector<Pickle::Ref>* items = p.fields(m.of_root("storage_data"));
  if (!items) m.refuse("storage_data is a dict");
  for (size_t i = 0; i + 1 < items->size(); i += 2) {
    const Pickle::Ref index = m.fields((*items)[i], std::string(kClasses) + "MetadataIndex"),
                      info = m.fields((*items)[i + 1], "torch.distributed.checkpoint.filesystem._StorageInfo");
    const auto name = p.text(m.field(index, "fqn")), file = p.text(m.field(info, "relative_path"));
    const auto begin = p.integer(m.field(info, "offset")), size = p.integer(m.field(info, "length"));
    if (!name || !file || !begin || !size) m.refuse("a chunk has a name, a file, a place and a length");
    if (file->empty() || file->find('/') != std::string_view::npos || file->starts_with('.'))
      m.refuse(fmt::format("a file lies in the folder, got '{}'", printable(*file)));
    if (const auto how = p.find(info, "transform_descriptors");
        how && !p.is_none(*how) && !(p.kind(*how) == Pickle::Kind::list && p.items(*how).empty()))
      m.refuse(fmt::format("'{}' is stored compressed, and plain chunks are read", printable(*name)));
    const Pickle::Ref offset = m.field(index, "offset");
    if (p.is_none(offset)) continue;  // not a tensor
    out[{std::string(*name), m.offsets(offset)}] = {std::string(*file), *begin, *size};
  }
  return out;
}

// Appends the copies that place a box into a tensor. Inner dims that are whole in the box form contiguous runs.
void copy_box(const ElementsPtr& from, const Offsets& at, const Shape& whole, std::vector<Copy>& copies) {
  const Shape& box = from->shape();
  const int rank = whole.rank();
  std::vector<int64_t> step(static_cast<size_t>(rank), 1);
  for (int d = rank - 2; d >= 0; --d) step[static_cast<size_t>(d)] = step[static_cast<size_t>(d + 1)] * whole[d + 1];
  int split = rank;  // dims from here on, with the dim before, are one run
  while (split > 0 && box[split - 1] == whole[split - 1]) --split;
  int64_t run = 1;
  for (int d = std::max(split - 1, 0); d < rank; ++d) run *= box[d];
  const int inner = split - 2;  // the dim whose runs have a constant distance
  const int64_t rows = inner >= 0 ? box[inner] : 1;
  int64_t outer = 1;
  for (int d = 0; d < inner; ++d) outer *= box[d];
  for (int64_t i = 0; i < outer; ++i) {
    int64_t to = 0, rest = i;
    for (int d = inner - 1; d >= 0; --d) {
      to += (at[static_cast<size_t>(d)] + rest % box[d]) * step[static_cast<size_t>(d)];
      rest /= box[d];
    }
    for (int d = std::max(inner, 0); d < rank; ++d) to += at[static_cast<size_t>(d)] * step[static_cast<size_t>(d)];
    copies.push_back({from, i * rows * run, run, to, inner >= 0 ? step[static_cast<size_t>(inner)] : 0, rows, run});
  }
}

// True if two of the boxes share an element.
bool boxes_overlap(std::vector<std::pair<Offsets, Offsets>> boxes) {
  std::sort(boxes.begin(), boxes.end());
  const auto meet = [](const auto& a, const auto& b, size_t d) {
    return a.first[d] < b.first[d] + b.second[d] && b.first[d] < a.first[d] + a.second[d];
  };
  for (size_t i = 0; i < boxes.size(); ++i)
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      size_t d = 0, rank = boxes[i].first.size();
      while (d < rank && meet(boxes[i], boxes[j], d)) ++d;
      if (d == rank) return true;
      if (d == 0) break;  // the boxes are in the order of their first dim: those behind lie apart too
    }
  return false;
}

// Opens the files of chunks, each once.
class ChunkFiles {
 public:
  explicit ChunkFiles(std::string folder) : folder_(std::move(folder)) {}
  ElementsPtr read(const Chunk& c, const std::string& name) {
    std::shared_ptr<const TorchFile::Opened>& file = open_[c.file];
    if (!file) {
      const std::string path = folder_ + "/" + c.file;
      std::error_code error;
      if (!fs::is_regular_file(path, error))
        throw UserError("missing file", path, fmt::format("it holds a part of '{}'", printable(name)),
                        "use a complete checkpoint");
      file = std::make_shared<const TorchFile::Opened>(path);
    }
    const auto part = std::make_shared<const TorchFile>(file, c.begin, c.size);
    return torch_elements(part, part->pickle().root(), name);
  }

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<const TorchFile::Opened>> open_;
};

std::optional<int64_t> number_of(std::string_view word) {
  int64_t n = -1;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), n);
  return code == std::errc{} && end == word.data() + word.size() && n >= 0 ? std::optional(n) : std::nullopt;
}

// Returns part i along the first dim.
ElementsPtr part_of(const ElementsPtr& e, int64_t i) {
  Shape rest;
  for (int d = 1; d < e->shape().rank(); ++d) rest.push_back(e->shape()[d]);
  const int64_t count = rest.count();
  return assembled(rest, {Copy{e, i * count, 0, 0, 0, 1, count}}, fmt::format("part {} of {}", i, e->shape()[0]));
}

// Splits a stacked tensor: "decoder.layers.self_attention.linear_qkv.weight" [L, ..] becomes L tensors
// "decoder.layers.0.self_attention..". Experts, stacked along the next dim, are split too.
void take_apart(const std::string& name, const ElementsPtr& e, std::vector<MegatronRank::Tensor>& out) {
  constexpr std::string_view kLayers = "decoder.layers.", kExperts = "mlp.experts.experts.";
  if (name.starts_with(kLayers) &&
      !number_of(std::string_view(name).substr(kLayers.size(), name.find('.', kLayers.size()) - kLayers.size()))) {
    for (int64_t i = 0; e->shape().rank() > 0 && i < e->shape()[0]; ++i)
      take_apart(fmt::format("{}{}.{}", kLayers, i, name.substr(kLayers.size())), part_of(e, i), out);
    return;
  }
  const size_t experts = name.find(kExperts);
  if (experts == std::string::npos || e->shape().rank() < 2) return out.push_back({name, e});
  for (int64_t i = 0; i < e->shape()[0]; ++i)
    out.push_back(
        {fmt::format("{}mlp.experts.local_experts.{}.{}", name.substr(0, experts), i, name.substr(experts + kExperts.size())),
         part_of(e, i)});
}

}  // namespace

bool is_dist_folder(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(fs::path(path) / ".metadata", error);
}

std::map<std::string, ElementsPtr> read_dist_tensors(const std::string& path,
                                                     const std::function<bool(const std::string& name)>& wanted) {
  const DistDescription m(path + "/.metadata");
  const Pickle& p = m.pickle();
  const Chunks chunks = chunks_of(m);
  ChunkFiles files(path);
  std::map<std::string, ElementsPtr> out;
  const std::vector<Pickle::Ref>* items = p.fields(m.of_root("state_dict_metadata"));
  if (!items) m.refuse("state_dict_metadata is a dict");
  for (size_t i = 0; i + 1 < items->size(); i += 2) {
    const auto key = p.text((*items)[i]);
    if (!key || m.is((*items)[i + 1], std::string(kClasses) + "BytesStorageMetadata")) continue;
    const std::string name(*key);
    if (!wanted(name)) continue;
    const Pickle::Ref tensor = m.fields((*items)[i + 1], std::string(kClasses) + "TensorStorageMetadata"),
                      parts = m.field(tensor, "chunks");
    Shape whole;
    for (const int64_t n : m.offsets(m.field(tensor, "size"))) whole.push_back(n);
    if (p.kind(parts) != Pickle::Kind::list) m.refuse("chunks are a list");
    std::vector<Copy> copies;
    std::vector<std::pair<Offsets, Offsets>> boxes;
    int64_t covered = 0;
    for (const Pickle::Ref part : p.items(parts)) {
      const Pickle::Ref chunk = m.fields(part, std::string(kClasses) + "ChunkStorageMetadata");
      const Offsets at = m.offsets(m.field(chunk, "offsets")), sizes = m.offsets(m.field(chunk, "sizes"));
      const auto found = chunks.find({name, at});
      if (found == chunks.end()) m.refuse(fmt::format("a chunk of '{}' lies in no file", printable(name)));
      const ElementsPtr e = files.read(found->second, name);
      bool fits = static_cast<int>(at.size()) == whole.rank() && e->shape().rank() == whole.rank() && sizes.size() == at.size();
      for (int d = 0; fits && d < whole.rank(); ++d)
        fits = e->shape()[d] == sizes[static_cast<size_t>(d)] && at[static_cast<size_t>(d)] + e->shape()[d] <= whole[d];
      if (!fits)
        throw UserError("a chunk of another shape", e->where(),
                        fmt::format("by .metadata its shape is [{}], at [{}] of a tensor of {}; in the file it is {}",
                                    fmt::join(sizes, ", "), fmt::join(at, ", "), whole.text(), e->shape().text()),
                        "use files of one checkpoint");
      if (e->count() == 0) continue;
      covered += e->count();
      if (covered > whole.count()) break;
      boxes.emplace_back(at, sizes);
      copy_box(e, at, whole, copies);
    }
    if (covered > whole.count() || boxes_overlap(boxes))
      m.refuse(fmt::format("the chunks of '{}' lie on each other", printable(name)));
    if (covered < whole.count())
      m.refuse(fmt::format("the chunks of '{}' make its {}, and here are {} of {} elements", printable(name), whole.text(),
                           covered, whole.count()));
    out[name] = assembled(whole, std::move(copies), fmt::format("chunks of '{}'", printable(name)));
  }
  return out;
}

std::map<std::string, ElementsPtr> read_fsdp_weights(const std::string& path) {
  std::map<std::string, ElementsPtr> all =
      read_dist_tensors(path, [](const std::string& name) { return !name.starts_with("optim"); });
  constexpr std::string_view kOuter = "model.";  // accelerate saves {"model": state}
  const bool outer = std::all_of(all.begin(), all.end(), [&](const auto& t) { return t.first.starts_with(kOuter); }) &&
                     std::any_of(all.begin(), all.end(), [&](const auto& t) { return t.first.starts_with("model.model."); });
  std::map<std::string, ElementsPtr> out;
  for (auto& [name, e] : all) out.emplace(outer ? name.substr(kOuter.size()) : name, e);
  if (out.empty()) throw UserError("no weights", path, "it must hold the tensors of a model", "name the folder of the model");
  return out;
}

MegatronRank read_dist_rank(const std::string& path, StateKind kind) {
  std::error_code error;
  if (!fs::is_regular_file(path + "/common.pt", error))
    throw UserError("a folder of torch.distributed.checkpoint without common.pt", path,
                    "only Megatron's torch_dist folders are read here, and they hold common.pt", kDistFix);
  MegatronRank rank{std::make_shared<TorchFile>(path + "/common.pt"), {}};
  const std::string before = kind == StateKind::first_moment    ? "optimizer.state.exp_avg."
                             : kind == StateKind::second_moment ? "optimizer.state.exp_avg_sq."
                                                                : "optimizer.state.fp32_param.";
  const auto is_weight = [](const std::string& name) {
    return (name.starts_with("decoder.") || name.starts_with("embedding.") || name.starts_with("output_layer.")) &&
           name.find("_extra_state") == std::string::npos;
  };
  std::map<std::string, ElementsPtr> all;
  if (kind != StateKind::weights) {
    for (auto& [name, e] : read_dist_tensors(path, [&](const std::string& name) { return name.starts_with(before); }))
      all.emplace(name.substr(before.size()), e);
    if (all.empty() && kind != StateKind::masters)
      throw UserError(
          "no optimizer states that are read", path,
          fmt::format("each must be named '{}' and the name of a weight, and have the shape of the weight", before),
          std::string("take the weights alone (--finetune, --no-load-optim; ravine convert without --optimizer), or ") +
              kDistFix);
  }
  if (all.empty()) all = read_dist_tensors(path, is_weight);
  rank.chunks.emplace_back();
  for (const auto& [name, e] : all)
    if (is_weight(name)) take_apart(name, e, rank.chunks[0]);
  if (std::none_of(rank.chunks[0].begin(), rank.chunks[0].end(),
                   [](const auto& t) { return t.name.starts_with("decoder.layers."); }))
    throw UserError("no layers in a torch_dist folder", path, "tensors decoder.layers.* of a GPT model are read", kDistFix);
  return rank;
}

}  // namespace ravine
