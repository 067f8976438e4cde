#include "io/convert/mindformers.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>

#include "files/convert.h"
#include "files/fd.h"
#include "files/tensor_set.h"
#include "files/tokenizer_files.h"
#include "io/convert/mindformers_names.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// Returns Ravine's name; "" for a name that MindFormers does not use.
std::string our_name(const std::string& name) {
  for (const bool core : {false, true}) {
    const std::string_view prefix = core ? "decoder.layers." : "model.layers.";
    if (const size_t end = layer_end(name, prefix); end != std::string::npos) {
      std::string rest = name.substr(end);
      const int64_t expert = core ? take_expert(rest) : -1;
      std::string suffix = core ? renamed(rest, kCoreLayer, true) : renamed(rest, kLegacyLayer, true);
      if (expert >= 0 && !suffix.empty()) suffix.insert(std::string_view("mlp.experts.").size(), fmt::format("{}.", expert));
      if (!core && suffix.empty()) suffix = renamed(name.substr(end), kMixtralLayer, true);
      if (!suffix.empty()) return "model.layers." + name.substr(prefix.size(), end - prefix.size()) + suffix;
    }
    std::string top = core ? renamed(name, kCoreTop, true) : renamed(name, kLegacyTop, true);
    if (!top.empty()) return top;
  }
  return "";
}

// Returns Ravine's name in this model. With latent attention, q_layernorm is the norm of the latent.
std::string our_name_in(const std::string& name, const Geometry& g) {
  std::string ours = our_name(name);
  constexpr std::string_view kNorm = ".self_attn.q_norm.";
  if (const size_t at = ours.find(kNorm); at != std::string::npos && g.spec().attention.latent)
    ours.replace(at, kNorm.size(), ".self_attn.q_a_layernorm.");
  return ours;
}

// True for entries of a training checkpoint that are not weights.
bool is_state(const TensorInfo& t) {
  for (const StateSpelling& s : kStateSpellings)
    if (t.name.starts_with(s.theirs)) return true;
  for (const char* prefix : {kBeforeFirst, "adam.", "accu_grads.", "exp_avg.", "exp_avg_sq.", "optimizer."})
    if (t.name.starts_with(prefix)) return true;
  return t.shape.rank() == 0 || (t.shape.count() == 1 && our_name(t.name).empty());
}

int64_t scalar(const TensorFile& file, const TensorInfo& t) {
  std::byte bytes[8] = {};
  double value = 0;
  if (t.shape.count() != 1) return 0;
  file.read(t, 0, {bytes, static_cast<size_t>(size_of(t.dtype))});
  convert(t.dtype, bytes, DType::f64, &value, 1);
  return value >= 0 && value < 1e15 ? static_cast<int64_t>(value) : 0;
}

struct Part {
  int64_t rank;
  ElementsPtr elements;
};

bool is_weights(const std::string& name) { return name.ends_with(".safetensors") || name.ends_with(".ckpt"); }

// Returns (rank, file) pairs; rank -1: a complete file.
std::vector<std::pair<int64_t, std::string>> find_files(const std::string& path) {
  static const std::regex folder("rank_(\\d{1,6})"), file(".*_rank_(\\d{1,6})[-_.].*");
  std::error_code error;
  std::vector<std::pair<int64_t, std::string>> out;
  if (!fs::is_directory(path, error)) {
    // The file of a rank, with the other ranks' files; without them it is complete.
    const fs::path own(path), above = own.parent_path().parent_path();
    const std::string name = own.filename().string();
    const auto of = [&](int64_t r) {
      return above / fmt::format("rank_{}", r) /
             std::regex_replace(name, std::regex("_rank_0"), fmt::format("_rank_{}", r),
                                std::regex_constants::format_first_only);
    };
    if (own.parent_path().filename() != "rank_0" || !fs::exists(of(1), error)) return {{-1, path}};
    for (int64_t r = 0; fs::exists(of(r), error); ++r) out.emplace_back(r, of(r).string());
    return out;
  }
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    std::smatch m;
    if (entry.is_directory(error) && std::regex_match(name, m, folder)) {
      const int64_t rank = std::stoll(m[1]);
      std::vector<std::string> inside;
      for (const auto& f : fs::directory_iterator(entry.path(), error))
        if (is_weights(f.path().filename().string())) inside.push_back(f.path().string());
      if (fs::exists(entry.path() / "meta.json", error) && inside.size() > 1) {  // the newest, recorded by the run
        const Json meta = read_json((entry.path() / "meta.json").string());
        const std::string last = field_or(meta, "last_ckpt_file", (entry.path() / "meta.json").string(), std::string());
        std::erase_if(inside, [&](const std::string& f) { return fs::path(f).filename() != last; });
      }
      if (inside.size() != 1)
        throw UserError(
            "not one weight file per rank", entry.path().string(),
            fmt::format("each rank's folder holds one weight file, or meta.json names it; there are {}", inside.size()),
            "keep one file of one step per rank");
      out.emplace_back(rank, inside[0]);
    } else if (is_weights(name) && name != "hyper_param.safetensors") {
      out.emplace_back(std::regex_match(name, m, file) ? std::stoll(m[1]) : -1, entry.path().string());
    }
  }
  std::sort(out.begin(), out.end());
  for (size_t i = 1; i < out.size(); ++i)
    if (out[i].first >= 0 && out[i].first == out[i - 1].first)
      throw UserError("two files of one rank", out[i].second,
                      fmt::format("{} belongs to rank {} too", out[i - 1].second, out[i].first),
                      "keep one file of one step per rank");
  if (!out.empty() && out.front().first < 0 && out.back().first >= 0)
    throw UserError(
        "two layouts in one folder", path,
        fmt::format("{} belongs to rank {}, {} to no rank", out.back().second, out.back().first, out.front().second),
        "keep one");
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].first >= 0 && out[i].first != static_cast<int64_t>(i))
      throw UserError("missing rank", path, fmt::format("rank {} has no file", i), kComplete);
  if (out.empty())
    throw UserError("no weights", path, "it must hold *.safetensors or *.ckpt, or folders rank_R with them",
                    "check the path; a folder of .gguf has no weights that are read: take the one it was made from");
  return out;
}

// Joins the parts of ranks into the whole tensor, by its shape.
ElementsPtr joined(const std::vector<Part>& parts, const Shape& whole, const std::string& name) {
  const Elements& first = *parts[0].elements;
  int dim = -1;
  int64_t cuts = 1;
  bool fits = first.shape().rank() == whole.rank();
  for (int d = 0; fits && d < whole.rank(); ++d) {
    const int64_t local = first.shape()[d];
    if (local == whole[d]) continue;
    fits = dim < 0 && local > 0 && whole[d] % local == 0;
    dim = d, cuts = local > 0 ? whole[d] / local : 0;
  }
  if (!fits || static_cast<int64_t>(parts.size()) % cuts != 0)
    throw UserError(
        "misshapen tensor", first.where(),
        parts.size() == 1
            ? fmt::format("{} is {} in the model, the file holds {}", name, whole.text(), first.shape().text())
            : fmt::format("{} is {} in the model, {} ranks hold {}", name, whole.text(), parts.size(), first.shape().text()),
        "use weights that belong to the config");
  std::vector<ElementsPtr> shards(static_cast<size_t>(cuts));
  for (const Part& p : parts) {
    if (!(p.elements->shape() == first.shape()))
      throw UserError(
          "ranks do not match", p.elements->where(),
          fmt::format("its shape is {}, {} has {}", p.elements->shape().text(), first.where(), first.shape().text()),
          kComplete);
    // Tensor ranks lie side by side. A file without what other data ranks keep (remove_redundancy) leaves its place to
    // theirs.
    ElementsPtr& shard = shards[static_cast<size_t>(std::max<int64_t>(0, p.rank) % cuts)];
    if (!shard) shard = p.elements;
  }
  if (std::find(shards.begin(), shards.end(), nullptr) != shards.end())
    throw UserError("missing part", first.where(), fmt::format("each of {} tensor ranks holds a part of {}", cuts, name),
                    kComplete);
  if (cuts == 1) return shards[0];
  const std::string rule = fmt::format("{} of {} ranks", dim == 0 ? "rows" : "columns", cuts);
  if (dim == 1) return join_cols(shards, rule);
  std::vector<Rows> rows;
  for (const ElementsPtr& e : shards) rows.push_back(all_rows(e));
  return stack_rows(rows, rule);
}

ElementsPtr experts_of_files(const std::vector<Part>& parts, const Shape& whole) {
  const ElementsPtr& e = parts[0].elements;
  if (parts.size() > 1)
    throw UserError("experts over several ranks", parts[1].elements->where(), "they are read from complete files only",
                    "merge the ranks first, by MindFormers' own tool");
  const Shape turned{whole[0], whole[2], whole[1]};
  if (e->shape() == turned) return turned_experts(e);
  if (e->shape() == whole) return e;
  throw UserError("misshapen tensor", e->where(),
                  fmt::format("experts are {} or {}, it is {}", turned.text(), whole.text(), e->shape().text()),
                  "use weights that belong to the config");
}

void add_fused_qkv(Weights& w, const Geometry& g, const std::string& prefix, const std::string& kind, const ElementsPtr& e) {
  const int64_t d = g.head_size, per = (g.group() + 2) * d;
  const struct {
    const char* name;
    int64_t first, count;
  } parts[] = {{"q", 0, g.group() * d}, {"k", g.group() * d, d}, {"v", (g.group() + 1) * d, d}};
  for (const auto& p : parts) {
    std::vector<Rows> rows;
    for (int64_t i = 0; i < g.kv_heads; ++i) rows.push_back({e, i * per + p.first, p.count});
    w.add(fmt::format("{}self_attn.{}_proj.{}", prefix, p.name, kind),
          stack_rows(rows, fmt::format("{} of each of {} groups", p.name, g.kv_heads)));
  }
}

}  // namespace

ElementsPtr turned_experts(const ElementsPtr& stack) {
  const Shape& s = stack->shape();
  const ElementsPtr flat = reshaped(stack, {s[0] * s[1], s[2]});
  std::vector<Rows> rows;
  for (int64_t e = 0; e < s[0]; ++e)
    rows.push_back(all_rows(transposed(stack_rows({{flat, e * s[1], s[1]}}, fmt::format("expert {} of {}", e, s[0])))));
  return reshaped(stack_rows(rows, "each expert turned"), {s[0], s[2], s[1]});
}

void refuse_missing_tensors(const Weights& w, const std::string& path) {
  const Geometry g = geometry_of(w.config, w.config_where);
  for (const Param& p : g.model->params().params())
    if (!p.tied && !w.tensors.contains(p.name))
      throw UserError("missing tensor", fmt::format("{}: '{}' (here {})", path, mindformers_name(p.name, g), p.name),
                      "one of the files must hold it", kComplete);
}

std::vector<std::string> mindformers_files(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& [rank, file] : find_files(path)) out.push_back(file);
  return out;
}

Shape mindformers_shape(const std::string& name, const Geometry& g) {
  const std::string ours = our_name_in(name, g);
  const Shape whole = ours.empty() || ours.find("fused_") != std::string::npos ? Shape() : expected_shape(ours, g);
  return whole.rank() == 3 ? Shape() : whole;  // experts have several layouts
}

bool is_mindformers_name(const std::string& name) {
  if (name == "model.tok_embeddings.embedding_weight") return true;
  const std::string ours = our_name(name);
  return !ours.empty() && ours != name &&
         (layer_end(name, "model.layers.") != std::string::npos || layer_end(name, "decoder.layers.") != std::string::npos);
}

Weights read_mindformers(const std::string& path, const Json& config, const std::string& config_where, bool allow_unknown,
                         StateKind state, OptimizerType optimizer) {
  std::vector<std::string> prefixes;
  std::string needed;
  for (const StateSpelling& s : kStateSpellings) {
    if (s.optimizer != optimizer) continue;
    if (s.kind == state) prefixes.push_back(s.theirs);
    if (s.written) needed += fmt::format("{}{}*", needed.empty() ? "" : " and ", s.theirs);
  }
  Weights w;
  w.config = config;
  w.config_where = config_where;
  const std::string folder = fs::is_directory(path) ? path : folder_of(path);
  if (fs::is_directory(path) || has_tokenizer(folder)) w.folder = folder;
  for (const std::string& of : {folder, folder + "/.."})  // DIR, or DIR/rank_R
    if (w.config.is_null() && fs::exists(of + "/config.json")) w.config = read_json(w.config_where = of + "/config.json");
  if (w.config.is_null())
    throw UserError("no config", path, "these files do not contain the sizes of the model", "give --model-config CONFIG.json");
  const Geometry g = geometry_of(w.config, w.config_where);
  std::map<std::string, std::vector<Part>> tensors;  // by Ravine's names
  for (const auto& [rank, file_path] : find_files(path)) {
    const std::shared_ptr<const TensorFile> file = open_tensor_file(file_path);
    for (const TensorInfo& t : file->tensors()) {
      std::string stored_name = t.name;
      if (is_moment(state)) {
        const auto prefix =
            std::find_if(prefixes.begin(), prefixes.end(), [&](const std::string& p) { return t.name.starts_with(p); });
        if (prefix == prefixes.end()) continue;
        stored_name = t.name.substr(prefix->size());
      } else if (is_state(t)) {
        if (t.name == "global_step") w.position.step = scalar(*file, t);
        continue;
      }
      const std::string name = our_name_in(stored_name, g);
      if (name.empty()) {
        if (!allow_unknown)
          throw UserError("unknown tensor", fmt::format("{}: tensor '{}'", file->path(), printable(t.name)),
                          "MindFormers has no such name in a Llama, Mixtral, Qwen2, Qwen2-MoE, Qwen3, Qwen3-MoE or DeepSeek",
                          "use --allow-unknown to leave it out");
        w.notes.push_back(fmt::format("left out: '{}'", printable(t.name)));
        continue;
      }
      std::vector<Part>& parts = tensors[name];
      if (!parts.empty() && (rank < 0 || parts.back().rank == rank))
        throw UserError("tensor is stored twice", fmt::format("{}: tensor '{}'", file->path(), printable(t.name)),
                        fmt::format("{} is the same", parts.back().elements->where()), "remove one of them");
      parts.push_back({rank, stored(file, t)});
    }
  }
  w.position.optimizer_steps = w.position.step;
  if (is_moment(state) && tensors.empty())
    throw UserError("no optimizer state", path, fmt::format("it must hold tensors {}", needed), "leave out --optimizer");
  if (!is_moment(state) && fs::exists(folder + "/param_name_map.json")) {
    const Json map = read_json(folder + "/param_name_map.json", int64_t{64} << 20);
    for (const auto& [name, file] : map.items())
      if (const std::string ours = our_name_in(name, g); !ours.empty() && !tensors.contains(ours))
        throw UserError("missing tensor", fmt::format("{}/param_name_map.json: '{}'", folder, printable(name)),
                        "one of the files must hold it", kComplete);
  }
  std::map<std::string, std::map<int64_t, ElementsPtr>> experts;  // matrices by stack and number
  for (const auto& [name, parts] : tensors) {
    const size_t end = layer_end(name, "model.layers.");
    if (std::string one = end == std::string::npos ? "" : name.substr(end); g.spec().moe)
      if (const int64_t number = take_expert(one); number >= 0) {
        const std::string stack = name.substr(0, end) + one;
        const Shape whole = expected_shape(stack, g);
        if (whole.rank() != 3 || number >= whole[0])
          throw UserError("unknown tensor", parts[0].elements->where(), fmt::format("{} has no '{}'", w.config_where, name),
                          "use weights that belong to the config");
        experts[stack][number] = joined(parts, {whole[1], whole[2]}, name);
        continue;
      }
    const std::string suffix = end == std::string::npos ? "" : name.substr(end), kind = name.substr(name.rfind('.') + 1);
    const std::string prefix = end == std::string::npos ? "" : name.substr(0, end);
    const auto fused = [&, &parts = parts, &name = name](int64_t rows) {
      return joined(parts, kind == "bias" ? Shape{rows} : Shape{rows, g.hidden}, name);
    };
    if (suffix.starts_with("fused_qkv.")) {
      add_fused_qkv(w, g, prefix, kind, fused((g.heads + 2 * g.kv_heads) * g.head_size));
    } else if (suffix.starts_with("fused_gate_up.")) {
      const ElementsPtr e = fused(2 * g.ffn);
      w.add(fmt::format("{}mlp.gate_proj.{}", prefix, kind), stack_rows({{e, 0, g.ffn, 2}}, "even rows: gate"));
      w.add(fmt::format("{}mlp.up_proj.{}", prefix, kind), stack_rows({{e, 1, g.ffn, 2}}, "odd rows: up"));
    } else {
      const Shape whole = expected_shape(name, g);
      if (whole.rank() == 0)
        throw UserError("unknown tensor", parts[0].elements->where(), fmt::format("{} has no '{}'", w.config_where, name),
                        "use weights that belong to the config");
      w.add(name, whole.rank() == 3 ? experts_of_files(parts, whole) : joined(parts, whole, name));
    }
  }
  for (const auto& [name, matrices] : experts) {
    const Shape whole = expected_shape(name, g);
    if (static_cast<int64_t>(matrices.size()) != whole[0])
      throw UserError("missing tensor", fmt::format("{}: '{}'", path, name),
                      fmt::format("the model has {} experts, the files hold {}", whole[0], matrices.size()), kComplete);
    std::vector<Rows> rows;
    for (const auto& [number, e] : matrices) rows.push_back(all_rows(e));
    w.add(name, reshaped(stack_rows(rows, fmt::format("{} experts, one after another", whole[0])), whole));
  }
  return w;
}

}  // namespace ravine
