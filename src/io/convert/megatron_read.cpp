#include <algorithm>
#include <filesystem>

#include "files/tokenizer_files.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/megatron.h"
#include "io/convert/megatron_config.h"
#include "io/convert/megatron_folder.h"
#include "io/convert/megatron_names.h"
#include "text/tokenizers/open_tokenizer.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// True if the head's shards have the values of the embedding's shards.
bool copies_embedding(const Shards& embedding, const Shards& head) {
  return embedding.size() == head.size() &&
         std::equal(embedding.begin(), embedding.end(), head.begin(),
                    [](const ElementsPtr& a, const ElementsPtr& b) { return same_values(*a, *b); });
}

// Returns the number of rows without the repetitions of the last row at the end; at most `most` - 1 rows are cut.
int64_t unpadded_rows(const Elements& table, int64_t most) {
  const int64_t wide = table.shape()[1], size = size_of(table.dtype());
  std::vector<std::byte> last(static_cast<size_t>(wide * size)), row(last.size());
  int64_t rows = table.shape()[0];
  table.read((rows - 1) * wide, last);
  const int64_t least = std::max<int64_t>(rows - most, 0) + 1;
  while (rows > least) {
    table.read((rows - 2) * wide, row);
    if (row != last) break;
    --rows;
  }
  return rows;
}

std::string cut_note(int64_t vocabulary, const std::string& by, int64_t rows) {
  return fmt::format("vocabulary {}, by {}: the last {} of {} rows are padding and are cut (a config.json says otherwise)",
                     vocabulary, by, rows - vocabulary, rows);
}

// Returns the vocabulary size among `rows` stored rows, and its source: true_vocab_size of the arguments, else `given`
// (0: none), else their vocab_size, else a tokenizer next to the files; 0 if unknown. Contradictions, and sizes above
// `rows`, are noted.
std::pair<int64_t, std::string> declared_vocabulary(const MegatronFolder& f, const std::string& path, int64_t rows,
                                                    int64_t given, std::vector<std::string>& notes) {
  std::pair<int64_t, std::string> out{0, ""};
  for (const char* key : {"true_vocab_size", "vocab_size"}) {
    if (out.first == 0 && given > 0 && std::string_view(key) == "vocab_size") out = {given, "--vocab-size"};
    const int64_t declared = argument(*f.ranks[0].file, key).value_or(0);
    if (declared > rows)
      notes.push_back(
          fmt::format("args.{} is {}, and the embedding has {} rows: it is not believed (a config.json says the "
                      "size)",
                      key, declared, rows));
    else if (declared > 0 && out.first == 0)
      out = {declared, fmt::format("args.{}", key)};
  }
  if (given > rows)
    throw UserError(fmt::format("--vocab-size {}", given), f.path, fmt::format("the embedding has {} rows", rows),
                    "correct it, or leave it out");
  for (const std::string& folder : {f.path, path, fs::path(f.path).parent_path().string()})
    if (has_tokenizer(folder)) try {
        const int64_t ids = open_tokenizer(folder)->size();
        if (out.first > 0 && ids != out.first)
          notes.push_back(
              fmt::format("{} is {}, and the tokenizer in {} has {} ids: the first counts (a config.json says "
                          "otherwise)",
                          out.second, out.first, folder, ids));
        else if (out.first == 0 && ids > rows)
          notes.push_back(fmt::format("the tokenizer in {} has {} ids, and the embedding has {} rows: it is another model's",
                                      folder, ids, rows));
        else if (out.first == 0)
          out = {ids, "the tokenizer in " + folder};
        return out;
      } catch (const UserError&) {  // then it is ignored
      }
  return out;
}

[[noreturn]] void misshapen(const Elements& e, const Shape& want) {
  throw UserError("misshapen tensor", e.where(),
                  fmt::format("its shape is {}, the model makes it {}", e.shape().text(), want.text()),
                  "use weights that belong to the config");
}

void expect(const Shards& shards, const Shape& want) {
  for (const ElementsPtr& e : shards)
    if (!(e->shape() == want)) misshapen(*e, want);
}

ElementsPtr stack(const Shards& shards, const std::string& rule) {
  if (shards.size() == 1) return shards[0];
  std::vector<Rows> rows;
  for (const ElementsPtr& e : shards) rows.push_back(all_rows(e));
  return stack_rows(rows, rule);
}

struct Joiner {
  const Geometry& g;
  Weights& w;
  const int64_t tensor;

  int64_t part(int64_t n, const char* what) const {
    if (n % tensor != 0)
      throw UserError("sizes do not fit", w.config_where,
                      fmt::format("{} {} are divided over {} tensor ranks", n, what, tensor), "use the config of this model");
    return n / tensor;
  }
  std::string ranks(const char* what) const {
    return tensor == 1 ? "as it is" : fmt::format("{} of {} tensor ranks", what, tensor);
  }

  void qkv(int64_t layer, const Shards& shards, bool bias) {
    const int64_t groups = part(g.kv_heads, "key/value heads"), d = g.head_size, per = (g.group() + 2) * d;
    expect(shards, bias ? Shape{groups * per} : Shape{groups * per, g.hidden});
    const struct {
      const char* name;
      int64_t first, count;
    } parts[] = {{"q", 0, g.group() * d}, {"k", g.group() * d, d}, {"v", (g.group() + 1) * d, d}};
    for (const auto& p : parts) {
      std::vector<Rows> rows;
      for (const ElementsPtr& e : shards)
        for (int64_t i = 0; i < groups; ++i) rows.push_back({e, i * per + p.first, p.count});
      w.add(layer_name(layer, fmt::format("self_attn.{}_proj.{}", p.name, bias ? "bias" : "weight")),
            stack_rows(rows, fmt::format("{} of each of {} groups", p.name, g.kv_heads)));
    }
  }
  // mlp: "mlp", or the shared expert; width: its width.
  void gate_up(int64_t layer, const std::string& mlp, int64_t width, const Shards& shards, bool bias) {
    if (!g.gated)
      return rows(layer_name(layer, fmt::format("{}.up_proj.{}", mlp, bias ? "bias" : "weight")), shards, width, bias);
    const int64_t f = part(width, "MLP rows");
    expect(shards, bias ? Shape{2 * f} : Shape{2 * f, g.hidden});
    for (int i = 0; i < 2; ++i) {
      std::vector<Rows> rows;
      for (const ElementsPtr& e : shards) rows.push_back({e, i * f, f});
      w.add(layer_name(layer, fmt::format("{}.{}_proj.{}", mlp, i == 0 ? "gate" : "up", bias ? "bias" : "weight")),
            stack_rows(rows, i == 0 ? "first half: gate" : "second half: up"));
    }
  }
  void rows(const std::string& to, const Shards& shards, int64_t all, bool bias) {
    const int64_t n = part(all, "rows");
    expect(shards, bias ? Shape{n} : Shape{n, g.hidden});
    w.add(to, stack(shards, ranks("rows")));
  }
  void cols(const std::string& to, const Shards& shards, int64_t all) {
    expect(shards, {g.hidden, part(all, "columns")});
    w.add(to, shards.size() == 1 ? shards[0] : join_cols(shards, ranks("columns")));
  }
  // Adds a tensor that every rank holds whole.
  void table(const std::string& to, const Shards& shards) {
    if (const Shape want = expected_shape(to, g); want.rank() > 0) expect(shards, want);
    w.add(to, shards[0]);
  }
  // Adds a tensor split by rows, with any number of columns; with `whole` every rank may also hold it whole.
  void rows_of(const std::string& to, const Shards& shards, bool whole = false) {
    const Shape all = expected_shape(to, g);
    if (all.rank() == 0)
      throw UserError("unknown tensor", shards[0]->where(), fmt::format("{} has no '{}'", w.config_where, to),
                      "use weights that belong to the config");
    if (whole && shards[0]->shape() == all) return table(to, shards);
    Shape one = all;
    one[0] = part(all[0], "rows");
    expect(shards, one);
    w.add(to, stack(shards, ranks("rows")));
  }
  // Adds the experts of a layer, stacked by number; for each, the tensor ranks are joined.
  void experts(int64_t layer, const std::map<int64_t, Shards>& first, const std::map<int64_t, Shards>& second) {
    const MoeSpec& moe = *g.spec().moe;
    const int64_t all = moe.routing.experts, f = part(moe.width, "rows of an expert");
    for (const auto* matrices : {&first, &second})
      for (int64_t e = 0; e < all; ++e)
        if (!matrices->contains(e) || static_cast<int64_t>(matrices->size()) != all)
          throw UserError("missing tensor", w.config_where,
                          fmt::format("layer {} has {} experts, the files hold {}{}", layer, all, matrices->size(),
                                      matrices->contains(e) ? "" : fmt::format(", not number {}", e)),
                          kComplete);
    std::vector<Rows> gate, up, down;
    for (const auto& [number, shards] : first) {
      expect(shards, {2 * f, g.hidden});
      for (const ElementsPtr& e : shards) gate.push_back({e, 0, f}), up.push_back({e, f, f});
    }
    for (const auto& [number, shards] : second) {
      expect(shards, {g.hidden, f});
      down.push_back(all_rows(shards.size() == 1 ? shards[0] : join_cols(shards, ranks("columns"))));
    }
    const std::string rule = fmt::format("{} experts, one after another", all);
    auto add = [&](const char* name, const std::vector<Rows>& rows, const Shape& shape) {
      w.add(layer_name(layer, fmt::format("mlp.experts.{}.weight", name)), reshaped(stack_rows(rows, rule), shape));
    };
    add("gate_proj", gate, {all, moe.width, g.hidden}), add("up_proj", up, {all, moe.width, g.hidden});
    add("down_proj", down, {all, g.hidden, moe.width});
  }
  void copy(const std::string& to, const Shards& shards, int64_t n) {
    expect(shards, {n});
    w.add(to, shards[0]);
  }
};

// Returns Ravine's name of a tensor of latent attention, by its name in a layer of megatron-core; "" for other tensors.
std::string latent_name(const Geometry& g, const std::string& name) {
  if (!g.spec().attention.latent) return "";
  for (const auto& [theirs, ours] : {std::pair{"linear_q_proj", "q_proj"},
                                     {"linear_q_down_proj", "q_a_proj"},
                                     {"linear_q_up_proj", "q_b_proj"},
                                     {"linear_kv_down_proj", "kv_a_proj_with_mqa"},
                                     {"linear_kv_up_proj", "kv_b_proj"},
                                     {"q_layernorm", "q_a_layernorm"},
                                     {"kv_layernorm", "kv_a_layernorm"}})
    if (name == fmt::format("self_attention.{}.weight", theirs)) return fmt::format("self_attn.{}.weight", ours);
  return "";
}

}  // namespace

Weights read_megatron(const std::string& path, const Json& config, const std::string& config_where, bool allow_unknown,
                      StateKind kind, int64_t vocabulary) {
  const MegatronFolder f = open_megatron(path, kind);
  int64_t layers = 0;
  std::map<std::string, Shards> tensors = gather_shards(f, &layers);
  for (const auto& [name, shards] : tensors)
    if (name.find(".lora_A.") != std::string::npos)
      throw UserError("a checkpoint of LoRA", shards[0]->where(), "it holds adapters only, without their base model",
                      "convert it to an adapter: --to peft --model-config BASE/config.json");
  auto embedding = tensors.find("embedding.word_embeddings.weight");
  if (embedding == tensors.end())
    throw UserError("missing tensor", f.path, "the first stage holds word_embeddings.weight", kComplete);
  Weights w;
  w.config = config;
  w.config_where = config_where;
  w.folder = path;
  for (const std::string& config_folder : {path, f.path})
    if (w.config.is_null() && fs::exists(config_folder + "/config.json"))
      w.config = read_json(w.config_where = config_folder + "/config.json");
  const bool guess = w.config.is_null();
  refuse_other_arithmetic(*f.ranks[0].file, guess);
  if (guess) w.config = megatron_config(f, tensors, layers), w.config_where = f.ranks[0].file->path() + ": args";
  auto head = tensors.find("output_layer.weight");
  if (head != tensors.end() && field_or(w.config, "tie_word_embeddings", w.config_where, false)) {
    if (is_moment(kind) || copies_embedding(embedding->second, head->second)) {
      tensors.erase(head);  // the copy kept by the last stage
      head = tensors.end();
    } else {
      w.config["tie_word_embeddings"] = false;
      w.notes.push_back(two_tables_text(w.config_where));
    }
  }
  const auto table = [&](const Shards& shards) {
    for (const ElementsPtr& e : shards)
      if (e->shape().rank() != 2 || !(e->shape() == shards[0]->shape())) misshapen(*e, shards[0]->shape());
    return stack(shards, fmt::format("rows of {} tensor ranks", f.tensor));
  };
  const ElementsPtr words = table(embedding->second), out = head == tensors.end() ? nullptr : table(head->second);
  if (guess) {
    int64_t rows = words->shape()[0];
    const auto [declared, by] = declared_vocabulary(f, path, rows, vocabulary, w.notes);
    if (declared > 0) {
      if (declared < rows) w.notes.push_back(cut_note(declared, by, rows));
      rows = declared;
    } else if (rows > 0) {
      // Whole tensors of torch_dist are padded for the number of ranks that wrote them.
      const int64_t ranks = std::max(f.tensor, argument(*f.ranks[0].file, "tensor_model_parallel_size").value_or(1)),
                    multiple = argument(*f.ranks[0].file, "make_vocab_size_divisible_by").value_or(128) * ranks;
      rows = unpadded_rows(*words, multiple);
      if (out && out->shape()[0] == words->shape()[0]) rows = std::max(rows, unpadded_rows(*out, multiple));
      if (rows < words->shape()[0])
        w.notes.push_back(
            fmt::format("vocabulary {}: the last {} of {} rows repeat the row before and are taken for padding (a config.json "
                        "says otherwise)",
                        rows, words->shape()[0] - rows, words->shape()[0]));
    }
    w.config["vocab_size"] = rows;
  }
  const Geometry g = geometry_of(w.config, w.config_where);
  if (vocabulary > 0 && g.vocabulary != vocabulary)
    throw UserError(fmt::format("--vocab-size {}", vocabulary), w.config_where,
                    fmt::format("it says that the vocabulary has {} rows", g.vocabulary),
                    "leave it out, or change the number of rows by --resize-vocab");
  refuse_for_megatron(g, w.config_where);
  if (!guess && g.vocabulary < words->shape()[0]) w.notes.push_back(cut_note(g.vocabulary, w.config_where, words->shape()[0]));
  if (g.layers != layers)
    throw UserError("missing layers", f.path,
                    fmt::format("{} says {} layers, the files hold {}", w.config_where, g.layers, layers),
                    "use the config of this model");
  for (const auto& [name, t] : {std::pair{"model.embed_tokens.weight", words}, {"lm_head.weight", out}}) {
    if (!t) continue;
    if (t->shape()[0] < g.vocabulary || t->shape()[1] != g.hidden) misshapen(*t, {g.vocabulary, g.hidden});
    w.add(name, padded_rows(t, g.vocabulary));
  }
  Joiner j{g, w, f.tensor};
  const MoeSpec* moe = g.spec().moe ? &*g.spec().moe : nullptr;
  const std::string shared = moe ? fmt::format("mlp.{}", moe->shared_name) : "";
  std::map<int64_t, std::map<int64_t, Shards>> first, second;  // matrices of experts, by layer and number
  for (const auto& [name, shards] : tensors) {
    if (name == "embedding.word_embeddings.weight" || name == "output_layer.weight") continue;
    std::string s;
    const int64_t i = split_layer(name, &s);
    const bool bias = name.ends_with(".bias");
    if (is_moment(kind) && s == "mlp.router.expert_bias") continue;  // changed by no gradient
    auto to = [&](const char* module) { return layer_name(i, fmt::format("{}.{}", module, bias ? "bias" : "weight")); };
    const size_t dot = s.rfind('.');
    const std::string module =
        i >= 0 && dot != std::string::npos && (bias || name.ends_with(".weight")) ? s.substr(0, dot) : "";
    if (name == "embedding.norm.weight" || name == "embedding.norm.bias")
      j.copy(bias ? "model.embed_norm.bias" : "model.embed_norm.weight", shards, g.hidden);
    else if (name == "embedding.position_embeddings.weight")
      j.table("model.embed_positions.weight", shards);
    else if (name == "decoder.final_layernorm.weight" || name == "decoder.final_layernorm.bias")
      j.copy(bias ? "model.norm.bias" : "model.norm.weight", shards, g.hidden);
    else if (module == "input_layernorm")
      j.copy(to("input_layernorm"), shards, g.hidden);
    else if (module == "pre_mlp_layernorm")
      j.copy(to("post_attention_layernorm"), shards, g.hidden);
    else if (module == "self_attention.linear_qkv")
      j.qkv(i, shards, bias);
    else if (const std::string latent = latent_name(g, s); !latent.empty())
      j.rows_of(layer_name(i, latent), shards, s.find("_up_proj") == s.npos && s.find("linear_q_proj") == s.npos);
    else if (module == "self_attention.q_layernorm")
      j.copy(to("self_attn.q_norm"), shards, g.head_size);
    else if (module == "self_attention.k_layernorm")
      j.copy(to("self_attn.k_norm"), shards, g.head_size);
    else if (module == "self_attention.linear_proj" && bias)
      j.copy(to("self_attn.o_proj"), shards, g.hidden);
    else if (module == "self_attention.linear_proj")
      j.cols(to("self_attn.o_proj"), shards,
             g.heads * (g.spec().attention.latent ? g.spec().attention.value_size : g.head_size));
    else if (module == "mlp.linear_fc1")
      j.gate_up(i, "mlp", g.ffn, shards, bias);
    else if (moe && module.starts_with("mlp.experts."))
      (module.ends_with("1") ? first : second)[i][std::stoll(module.substr(std::string_view("mlp.experts.").size()))] = shards;
    else if (moe && s == "mlp.router.expert_bias")
      j.table(layer_name(i, "mlp.gate.e_score_correction_bias"), shards);
    else if (moe && module == "mlp.router" && !bias)
      j.table(to("mlp.gate"), shards);
    else if (moe && module == "mlp.shared_experts.linear_fc1" && !bias)
      j.gate_up(i, shared, moe->shared.width, shards, bias);
    else if (moe && module == "mlp.shared_experts.linear_fc2" && !bias)
      j.cols(to((shared + ".down_proj").c_str()), shards, moe->shared.width);
    else if (moe && s == "mlp.shared_experts.gate_weight")
      j.table(layer_name(i, "mlp.shared_expert_gate.weight"), shards);
    else if (module == "mlp.gate")
      j.rows(to("mlp.gate_proj"), shards, g.ffn, bias);
    else if (module == "mlp.up")
      j.rows(to("mlp.up_proj"), shards, g.ffn, bias);
    else if (module == "mlp.linear_fc2" && bias)
      j.copy(to("mlp.down_proj"), shards, g.hidden);
    else if (module == "mlp.linear_fc2")
      j.cols(to("mlp.down_proj"), shards, g.ffn);
    else if (allow_unknown)
      w.notes.push_back(fmt::format("left out: '{}'", printable(name)));
    else
      throw UserError("unknown tensor", shards[0]->where(), "none of the families has it",
                      "use --allow-unknown to leave it out");
  }
  for (const auto& [layer, matrices] : first) j.experts(layer, matrices, second[layer]);
  const TorchFile& file = *f.ranks[0].file;
  const auto whole = [&](const char* key) {
    const auto v = file.pickle().find(file.pickle().root(), key);
    return v ? file.pickle().integer(*v).value_or(0) : 0;
  };
  w.position.step = whole("iteration");
  w.position.optimizer_steps = optimizer_steps(file);
  w.position.global_batch = argument(file, "global_batch_size").value_or(0);
  w.position.tokens = argument(file, "consumed_train_samples").value_or(0) * argument(file, "seq_length").value_or(0);
  // Written by a run of Ravine in Megatron's format.
  if (const Json kept = kept_scalars_in(file.pickle()); kept.is_object()) {
    w.position.tokens = std::max<int64_t>(field_or(kept, "tokens", file.path(), int64_t{0}), 0);
    if (const auto it = kept.find("data"); it != kept.end()) w.data_history = *it;
  }
  return w;
}

Weights open_megatron_model(const std::string& path) {
  Weights w = read_megatron(path, Json(), "", false);
  const Geometry g = geometry_of(w.config, w.config_where);
  check_weights(w, g, false);
  to_family_files(w, g);
  return w;
}

}  // namespace ravine
