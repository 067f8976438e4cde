#include "files/fd.h"
#include "io/convert/mindformers.h"
#include "io/convert/mindformers_names.h"

namespace ravine {
namespace {

bool core_names(const Geometry& g) { return g.spec().names.mindformers == CheckpointNames::MindFormers::core; }

// Joins q, k, v per group: its query heads, k, v.
ElementsPtr fused_qkv(const ElementsPtr& q, const ElementsPtr& k, const ElementsPtr& v, const Geometry& g) {
  std::vector<Rows> rows;
  const int64_t d = g.head_size, per = g.group() * d;
  for (int64_t i = 0; i < g.kv_heads; ++i) {
    rows.push_back({q, i * per, per});
    rows.push_back({k, i * d, d});
    rows.push_back({v, i * d, d});
  }
  return stack_rows(rows, fmt::format("q, k, v of {} groups in turn", g.kv_heads));
}

// Adds each expert of a stack under its number.
void add_experts(const std::string& name, const ElementsPtr& stack, const Geometry& g,
                 std::map<std::string, ElementsPtr>& out) {
  const std::string theirs = mindformers_name(name, g);
  const Shape& s = stack->shape();
  const size_t at = theirs.find("mlp.experts.") + std::string_view("mlp.experts.").size();
  for (int64_t e = 0; e < s[0]; ++e)
    out.emplace(fmt::format("{}{}.{}", theirs.substr(0, at), e, theirs.substr(at)),
                stack_rows({{reshaped(stack, {s[0] * s[1], s[2]}), e * s[1], s[1]}}, fmt::format("expert {} of {}", e, s[0])));
}

// Returns the model's tensors under MindFormers' names; with `fused`, joined tensors replace their parts.
std::map<std::string, ElementsPtr> spelled(const Weights& w, const Geometry& g, bool fused) {
  std::map<std::string, ElementsPtr> out;
  for (const auto& [name, e] : w.tensors) {
    const size_t end = fused ? layer_end(name, "model.layers.") : std::string::npos;
    const std::string prefix = end == std::string::npos ? "" : name.substr(0, end), kind = name.substr(name.rfind('.') + 1);
    const std::string suffix = end == std::string::npos ? "" : name.substr(end, name.rfind('.') - end);
    auto part = [&](const char* module) { return w.tensors.at(prefix + module + "." + kind); };
    if (suffix == "self_attn.q_proj")
      out.emplace(mindformers_name(prefix + "fused_qkv." + kind, g),
                  fused_qkv(e, part("self_attn.k_proj"), part("self_attn.v_proj"), g));
    else if (suffix == "mlp.gate_proj")
      out.emplace(mindformers_name(prefix + "fused_gate_up." + kind, g),
                  interleave_rows({e, part("mlp.up_proj")}, "rows of gate and up in turn"));
    else if (e->shape().rank() == 3 && core_names(g))
      add_experts(name, e, g, out);
    else if (suffix != "self_attn.k_proj" && suffix != "self_attn.v_proj" && suffix != "mlp.up_proj")
      out.emplace(mindformers_name(name, g), e->shape().rank() == 3 ? turned_experts(e) : e);
  }
  return out;
}

// Returns the part of tensor rank r of n: rows of the projections into heads and MLP, columns of the output
// projections; other tensors whole.
ElementsPtr cut(const std::string& name, const ElementsPtr& e, int64_t r, int64_t n) {
  if (n == 1) return e;
  auto is = [&](std::initializer_list<const char*> modules) {
    for (const char* m : modules)
      if (name.find(m) != std::string::npos) return true;
    return false;
  };
  if (is({".attention.wo.weight", ".feed_forward.w2.weight", ".linear_proj.weight", ".linear_fc2.weight"})) {
    const int64_t cols = e->shape()[1] / n;
    return take_cols(e, r * cols, cols, fmt::format("columns of rank {} of {}", r, n));
  }
  if (is({".attention.wq.", ".attention.wk.", ".attention.wv.", ".attention.w_qkv.", ".feed_forward.w1.", ".feed_forward.w3.",
          ".w_gate_hidden.", ".linear_q.", ".linear_k.", ".linear_v.", ".mlp.gating.", ".linear_fc1."})) {
    const int64_t rows = e->shape()[0] / n;
    return stack_rows({{e, r * rows, rows}}, fmt::format("rows of rank {} of {}", r, n));
  }
  return e;
}

}  // namespace

ElementsPtr tensor_part(const std::string& name, const ElementsPtr& whole, int64_t r, int64_t n) {
  return cut(name, whole, r, n);
}

std::string mindformers_name(const std::string& name, const Geometry& g) {
  const bool core = core_names(g);
  std::string out;
  if (const size_t end = layer_end(name, "model.layers."); end != std::string::npos) {
    std::string suffix = g.family == "mixtral" ? renamed(name.substr(end), kMixtralLayer, false) : "";
    if (suffix.empty())
      suffix = core ? renamed(name.substr(end), kCoreLayer, false) : renamed(name.substr(end), kLegacyLayer, false);
    if (!suffix.empty()) out = (core ? "decoder.layers." : "model.layers.") + name.substr(13, end - 13) + suffix;
  } else {
    out = core ? renamed(name, kCoreTop, false) : renamed(name, kLegacyTop, false);
  }
  if (out.empty())
    throw UserError("layout cannot hold the model", name, "MindFormers has no such tensor", "use another layout");
  return out;
}

std::vector<MindFormersFile> plan_mindformers(const Weights& w, const Geometry& g, const MindFormersLayout& layout) {
  if (g.spec().names.mindformers == CheckpointNames::MindFormers::none)
    throw UserError("layout cannot hold the model", w.config_where,
                    fmt::format("MindFormers has no names for the {} family that are known here", g.family),
                    "use another layout");
  if (layout.fused && core_names(g))
    throw UserError("layout cannot hold the model", "--fused",
                    "joined names (w_qkv, w_gate_hidden) are those of the Llama class of MindFormers", "leave out --fused");
  const int64_t n = layout.ranks;
  if (n > 1 && g.spec().moe)
    throw UserError("layout does not fit", fmt::format("{} tensor ranks", n), "experts are written in complete files only",
                    "leave out --tensor");
  if (n > 1 && g.spec().attention.latent)
    throw UserError("layout does not fit", fmt::format("{} tensor ranks", n),
                    "latent attention is written in complete files only", "leave out --tensor");
  for (const auto& [size, what] : {std::pair{g.kv_heads, "key/value heads"}, {g.ffn, "rows of the MLP"}})
    if (size % n != 0)
      throw UserError("layout does not fit", fmt::format("{} tensor ranks", n),
                      fmt::format("they must divide the {} {}", size, what), "choose another number");
  const auto tensors = spelled(w, g, layout.fused);
  std::vector<MindFormersFile> files;
  for (int64_t r = 0; r < n; ++r) {
    MindFormersFile f{n == 1 ? "" : fmt::format("rank_{0}/checkpoint_rank_{0}.safetensors", r), {}};
    for (const auto& [name, e] : tensors) f.tensors.push_back({name, n == 1 ? e : cut(name, e, r, n)});
    files.push_back(std::move(f));
  }
  return files;
}

void write_mindformers(TargetFolder& folder, const std::vector<MindFormersFile>& files, const Weights& w,
                       const std::function<void(int64_t)>& progress) {
  const Metadata format{{"format", "ms"}};
  write_config(folder, w, files[0].tensors);
  copy_companion_files(folder, w);
  if (files.size() == 1) {
    const auto shard_of = write_shards(folder, files[0].tensors, "", "model", format, progress);
    Json map = Json::object();
    for (const auto& [n, file] : shard_of) map.push_back({n, file});
    write_file_atomic(folder.path("param_name_map.json"), map.dump(2) + "\n");
    return;
  }
  for (const MindFormersFile& f : files) {
    std::vector<const NamedElements*> tensors;
    for (const NamedElements& t : f.tensors) tensors.push_back(&t);
    write_weight_file(folder, f.path, tensors, format, progress);
  }
}

}  // namespace ravine
