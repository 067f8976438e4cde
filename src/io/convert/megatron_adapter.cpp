#include "io/convert/megatron_adapter.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/text.h"
#include "io/adapter_config.h"
#include "io/convert/megatron_names.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// A module of a layer, or one outside of layers (layer -1), by megatron-core's name.
struct LoraModule {
  int64_t layer = -1;
  std::string module;
  friend auto operator<=>(const LoraModule&, const LoraModule&) = default;
};
struct LowRank {
  Shards a, b;
};

// Splits a name such as "self_attention.linear_qkv.lora_A.default.weight" at `word`, into the parts before and after
// it; nothing without it.
std::optional<std::pair<std::string, std::string>> around(const std::string& name, std::string_view word) {
  const size_t at = name.find(word);
  if (at == std::string::npos || !name.ends_with(".weight")) return {};
  const size_t behind = at + word.size();
  return std::pair{name.substr(0, at), name.substr(behind, name.size() - std::min(name.size(), behind + 7))};
}

class AdapterReader {
 public:
  AdapterReader(const std::string& path, const Json& base_config, const std::string& where)
      : f_(open_megatron(path, StateKind::weights)), base_(where) {
    g_ = geometry_of(base_config, base_);
    refuse_for_lora();
  }

  Weights read() {
    int64_t layers = 0;
    sort(gather_shards(f_, &layers));
    if (modules_.empty())
      throw UserError("no adapter in the checkpoint", f_.path,
                      "a checkpoint of LoRA holds tensors lora_A and lora_B beside modules",
                      "for the checkpoint of a whole model use --to hf");
    if (layers != g_.layers)
      throw UserError("another number of layers", f_.path, fmt::format("{} has {}, the adapters {}", base_, g_.layers, layers),
                      "use the config.json of the base that the adapter was trained on");
    lora_.rank = agreed("lora_r");
    lora_.alpha = static_cast<double>(agreed("lora_alpha"));
    lora_.where = f_.path;
    for (const auto& [module, low_rank] : modules_) add(module, low_rank);
    lora_.targets = family_spelling(*g_.model, words_);
    lora_.save = family_spelling(*g_.model, saved_words_);
    return spelled();
  }

 private:
  void refuse_for_lora() const {
    const std::string at = base_;
    if (!g_.has("model.layers.0.self_attn.q_proj.weight"))
      throw UserError("another kind of model", at, fmt::format("{} has no layers as Megatron's", g_.family),
                      "use the config.json of the base that the adapter was trained on");
  }

  // Returns an argument, which must be present and equal on all ranks.
  int64_t agreed(const char* key) const {
    const std::optional<int64_t> first = argument(*f_.ranks[0].file, key);
    for (const MegatronRank& r : f_.ranks) {
      const std::optional<int64_t> own = argument(*r.file, key);
      const std::string where = fmt::format("{}: args.{}", r.file->path(), key);
      if (!own || *own < 1)
        throw UserError("missing argument", where, "the scale of an adapter is lora_alpha / lora_r",
                        "use a checkpoint of ModelLink");
      if (own != first)
        throw UserError("ranks disagree", where,
                        fmt::format("it is {}, that of {} is {}", *own, f_.ranks[0].file->path(), *first),
                        "use files of one checkpoint");
    }
    return *first;
  }

  // Sorts out adapters and whole modules; other tensors belong to the base.
  void sort(const std::map<std::string, Shards>& tensors) {
    std::set<std::string> adapters;
    int64_t of_base = 0;
    for (const auto& [name, shards] : tensors) {
      std::string suffix;
      const int64_t layer = split_layer(name, &suffix);
      const std::string& local = layer >= 0 ? suffix : name;
      const auto down = around(local, ".lora_A."), up = around(local, ".lora_B."), saved = around(local, ".modules_to_save.");
      if (down) modules_[{layer, down->first}].a = shards, adapters.insert(down->second);
      if (up) modules_[{layer, up->first}].b = shards, adapters.insert(up->second);
      if (saved) save(layer, saved->first, shards), adapters.insert(saved->second);
      if (down || up || saved) continue;
      if (name.find(".lora_") != std::string::npos) unknown(*shards[0]);
      if (!name.ends_with(".original_module.weight")) ++of_base;
    }
    if (adapters.size() > 1)
      throw UserError("several adapters in one checkpoint", f_.path,
                      fmt::format("they are called {}", fmt::join(adapters, ", ")), "save them apart (--lora-adapter-name)");
    if (of_base > 0)
      out_.notes.push_back(
          fmt::format("{} that are not the adapter's are left out: they are the base's", counted(of_base, "tensor")));
  }

  [[noreturn]] static void unknown(const Elements& e) {
    throw UserError("unknown tensor", e.where(), "ModelLink has adapters for the linear layers of attention and MLP",
                    "convert a checkpoint of ModelLink");
  }
  [[noreturn]] void misshapen(const Elements& e, const std::string& want) const {
    throw UserError("misshapen tensor", e.where(),
                    fmt::format("its shape is {}, {} makes it {}", e.shape().text(), base_, want),
                    "use the config.json of the base that the adapter was trained on");
  }
  void expect(const Shards& shards, const Shape& want) const {
    for (const ElementsPtr& e : shards)
      if (!(e->shape() == want)) misshapen(*e, want.text());
  }
  int64_t part(int64_t n) const {
    if (n % f_.tensor != 0)
      throw UserError("sizes do not fit", base_, fmt::format("{} are not divided over {} tensor ranks", n, f_.tensor),
                      "use the config.json of the base that the adapter was trained on");
    return n / f_.tensor;
  }

  // Returns a tensor of which all tensor ranks must hold the same values.
  ElementsPtr same(const Shards& shards, const Shape& want) const {
    expect(shards, want);
    std::vector<std::byte> first(static_cast<size_t>(want.count() * size_of(shards[0]->dtype()))), other(first.size());
    shards[0]->read(0, first);
    for (const ElementsPtr& e : shards) {
      if (e->dtype() == shards[0]->dtype()) e->read(0, other);
      if (e->dtype() != shards[0]->dtype() || first != other)
        throw UserError(
            "ranks disagree", e->where(),
            fmt::format("every tensor rank must hold the same values, and {} has others", shards[0]->where()),
            "with --sequence-parallel ModelLink does not add up these gradients, and the ranks drift apart: such an "
            "adapter is no adapter of one model; train it without");
    }
    return shards[0];
  }

  void put(int64_t layer, const char* module, const ElementsPtr& a, const ElementsPtr& b) {
    parts_[layer_name(layer, fmt::format("{}.lora_A.weight", module))] = a;
    parts_[layer_name(layer, fmt::format("{}.lora_B.weight", module))] = b;
  }
  void word(const char* megatron) {
    if (std::find(words_.begin(), words_.end(), megatron) == words_.end()) words_.emplace_back(megatron);
  }
  static ElementsPtr rows_of(const Shards& shards, int64_t first, int64_t count, const char* rule) {
    std::vector<Rows> rows;
    for (const ElementsPtr& e : shards) rows.push_back({e, first, count});
    return stack_rows(rows, rule);
  }

  void add(const LoraModule& at, const LowRank& of) {
    const int64_t r = lora_.rank, i = at.layer;
    const Shards& some = of.a.empty() ? of.b : of.a;
    if (i < 0) unknown(*some[0]);
    if (of.a.empty() || of.b.empty())
      throw UserError("an incomplete adapter", some[0]->where(), "each module with an adapter must have a lora_A and a lora_B",
                      kComplete);
    if (at.module == "self_attention.linear_proj" || at.module == "mlp.linear_fc2") {
      const bool attention = at.module.starts_with("self");
      expect(of.a, {r, part(attention ? g_.heads * g_.head_size : g_.ffn)});
      put(i, attention ? "self_attn.o_proj" : "mlp.down_proj", join_cols(of.a, "columns of all tensor ranks"),
          same(of.b, {g_.hidden, r}));
      return word(attention ? "dense" : "dense_4h_to_h");
    }
    const ElementsPtr a = same(of.a, {r, g_.hidden});
    if (at.module == "self_attention.linear_qkv") {
      const int64_t groups = part(g_.kv_heads), d = g_.head_size, per = (g_.group() + 2) * d;
      expect(of.b, {groups * per, r});
      const struct {
        const char* name;
        int64_t first, count;
      } of_group[] = {{"q", 0, g_.group() * d}, {"k", g_.group() * d, d}, {"v", (g_.group() + 1) * d, d}};
      for (const auto& p : of_group) {
        std::vector<Rows> rows;
        for (const ElementsPtr& e : of.b)
          for (int64_t k = 0; k < groups; ++k) rows.push_back({e, k * per + p.first, p.count});
        put(i, fmt::format("self_attn.{}_proj", p.name).c_str(), a,
            stack_rows(rows, fmt::format("{} of each of {} groups", p.name, g_.kv_heads)));
      }
      return word("query_key_value");
    }
    const int64_t f = part(g_.ffn), rows = of.b[0]->shape().rank() == 2 ? of.b[0]->shape()[0] : 0;
    const bool joined = at.module == "mlp.linear_fc1" && g_.gated && rows == 2 * f;
    if (at.module != "mlp.linear_fc1" && at.module != "mlp.gate" && at.module != "mlp.up") unknown(*some[0]);
    if (!joined && rows != f) misshapen(*of.b[0], Shape{f, r}.text());
    expect(of.b, {rows, r});
    if (joined) put(i, "mlp.gate_proj", a, rows_of(of.b, 0, f, "first half of each tensor rank: gate"));
    if (joined) put(i, "mlp.up_proj", a, rows_of(of.b, f, f, "second half of each tensor rank: up"));
    if (!joined)
      put(i, at.module == "mlp.gate" ? "mlp.gate_proj" : "mlp.up_proj", a, rows_of(of.b, 0, f, "rows of all tensor ranks"));
    word(joined ? "proj" : at.module == "mlp.gate" ? "gate_proj" : "dense_h_to_4h");
  }

  // Adds a vocabulary table that was trained whole.
  void save(int64_t layer, const std::string& module, const Shards& shards) {
    const bool words = module == "embedding.word_embeddings";
    if (layer >= 0 || (!words && module != "output_layer")) unknown(*shards[0]);
    if (g_.tied)
      throw UserError("two different tables for embedding and head", shards[0]->where(),
                      fmt::format("by {} embedding and head are one table", base_),
                      "train adapters alone, or a base whose head is its own");
    const ElementsPtr table = rows_of(shards, 0, shards[0]->shape()[0], "rows of all tensor ranks");
    if (table->shape().rank() != 2 || table->shape()[0] < g_.vocabulary || table->shape()[1] != g_.hidden)
      misshapen(*shards[0], fmt::format("{} over all tensor ranks", Shape{g_.vocabulary, g_.hidden}.text()));
    parts_[words ? "model.embed_tokens.weight" : "lm_head.weight"] = padded_rows(table, g_.vocabulary);
    saved_words_.emplace_back(words ? "word_embeddings" : "output_layer");
  }

  Weights spelled() {
    const std::unique_ptr<Model> model = with_adapters(*g_.model, lora_);
    for (const Param& p : model->params().params()) {
      if (!p.policy.trainable) continue;
      const auto found = parts_.find(p.name);
      if (found == parts_.end())
        throw UserError("missing tensor", f_.path, fmt::format("other layers have an adapter where '{}' would be", p.name),
                        kComplete);
      if (!(found->second->shape() == p.shape)) misshapen(*found->second, p.shape.text());
      out_.add(p.name, found->second);
    }
    to_files(out_, adapter_files(*model));
    out_.config = adapter_config_of(lora_, *model, fs::path(base_).parent_path().string());
    out_.config_where = base_;
    return std::move(out_);
  }

  const MegatronFolder f_;
  const std::string base_;
  Geometry g_;
  LoraSettings lora_;
  std::map<LoraModule, LowRank> modules_;
  std::vector<std::string> words_, saved_words_;
  std::map<std::string, ElementsPtr> parts_;  // by declared names
  Weights out_;
};

std::string base_of(const std::string& path, const std::string& given) {
  if (!given.empty()) return given;
  if (fs::exists(path + "/config.json")) return path + "/config.json";
  throw UserError("no config of the base", path, "the layout of an adapter follows from the config of its base",
                  "give --model-config BASE/config.json");
}

}  // namespace

Weights read_megatron_adapter(const std::string& path, const std::string& base_config) {
  const std::string base = base_of(path, base_config);
  return read_megatron_adapter(path, read_json(base), base);
}

Weights read_megatron_adapter(const std::string& path, const Json& base_config, const std::string& where) {
  return AdapterReader(path, base_config, where).read();
}

void write_adapter(TargetFolder& folder, const Weights& adapter, const std::vector<NamedElements>& tensors,
                   const std::function<void(int64_t)>& progress) {
  write_file_atomic(folder.path("adapter_config.json"), adapter.config.dump(2) + "\n");
  std::vector<const NamedElements*> all;
  for (const NamedElements& t : tensors) all.push_back(&t);
  write_weight_file(folder, kAdapterFile, all, {{"format", "pt"}}, progress);
}

}  // namespace ravine
