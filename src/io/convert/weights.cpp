#include "io/convert/weights.h"

#include <algorithm>

#include "files/compare.h"
#include "files/convert.h"
#include "model/families/families.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

// Returns the rows of the file's tensor that belong to parameter `param`.
std::vector<Rows> rows_in(const FileTensor& t, size_t param, const ElementsPtr& file) {
  std::vector<Rows> out;
  for (const FileTensor::Run& r : t.runs)
    if (r.param == param) out.push_back({file, r.row, r.count});
  return out;
}

}  // namespace

std::string_view state_prefix(StateKind kind) {
  switch (kind) {
    case StateKind::first_moment:
      return "m/";
    case StateKind::second_moment:
      return "v/";
    case StateKind::momentum:
      return "momentum/";
    default:
      return "weights/";
  }
}

void Weights::add(const std::string& name, ElementsPtr tensor) {
  auto [it, fresh] = tensors.emplace(name, tensor);
  if (!fresh)
    throw UserError("tensor is stored twice", tensor->where(),
                    fmt::format("{} is also '{}'", it->second->where(), printable(name)), "remove one of them");
}

bool has_geometry(const Json& config) {
  if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string()) return false;
  return std::any_of(families().begin(), families().end(),
                     [&](const Family& f) { return config["model_type"] == f.model_type; });
}

Geometry geometry_of(const Json& config, const std::string& where) {
  Geometry g;
  g.model = make_model(config, where);
  const ModelFacts& f = g.model->facts();
  g.family = f.family;
  g.layers = f.layers, g.hidden = f.hidden, g.heads = f.heads, g.kv_heads = f.kv_heads, g.head_size = f.head_size;
  g.vocabulary = f.vocabulary;
  require(g.model->decoder() != nullptr, "convert: the {} family is no decoder", g.family);
  g.tied = g.spec().head.tied;
  g.ffn = g.spec().mlp.width;
  g.gated = gated(g.spec().mlp.act);
  return g;
}

std::string two_tables_text(const std::string& where) {
  return fmt::format(
      "{}: tie_word_embeddings ties the head to the embedding, and the files hold two tables of other values: the head is that "
      "of the files (set tie_word_embeddings to false, or remove the stored head)",
      where);
}

bool same_values(const Elements& a, const Elements& b) {
  if (!(a.shape() == b.shape())) return false;
  constexpr int64_t kStep = int64_t{1} << 20;  // elements
  std::vector<std::byte> left, right;
  for (int64_t at = 0; at < a.count(); at += kStep) {
    const int64_t n = std::min(kStep, a.count() - at);
    left.resize(static_cast<size_t>(n * size_of(a.dtype()))), right.resize(static_cast<size_t>(n * size_of(b.dtype())));
    a.read(at, left), b.read(at, right);
    if (compare(a.dtype(), left, b.dtype(), right).differing > 0) return false;
  }
  return true;
}

bool part_own_head(Weights& w, const Geometry& g) {
  if (!g.tied) return false;
  const WeightFiles& files = g.model->files();
  auto find = [&](std::vector<std::string> names) -> const Elements* {
    for (const std::string& n : std::vector<std::string>(names))
      if (n.starts_with(files.base)) names.push_back(n.substr(files.base.size()));  // names of the bare model
    for (const std::string& n : names)
      if (const auto it = w.tensors.find(n); it != w.tensors.end()) return it->second.get();
    return nullptr;
  };
  std::vector<std::string> embedding = {kEmbedding}, head = files.copies;
  head.emplace_back(kHead);
  for (const FileTensor& t : files.tensors)
    if (t.params.size() == 1 && t.params[0]->name == kEmbedding) embedding.push_back(t.name);
  const Elements *one = find(embedding), *other = find(head);
  if (!one || !other || same_values(*one, *other)) return false;
  w.config["tie_word_embeddings"] = false;
  w.notes.push_back(two_tables_text(w.config_where));
  return true;
}

Shape expected_shape(const std::string& name, const Geometry& g) {
  const Param* p = g.find(name);
  return p ? p->shape : Shape{};
}

void check_weights(Weights& w, const Geometry& g, bool allow_unknown, bool partial) {
  const size_t all = w.tensors.size();
  std::erase_if(w.tensors, [&](const auto& t) { return g.model->files().is_further(t.first); });
  if (w.tensors.size() < all) w.notes.push_back(kFurtherLayers);
  for (auto it = w.tensors.begin(); it != w.tensors.end();) {
    const auto& [name, tensor] = *it;
    const Param* p = g.find(name);
    if (g.model->files().constant(name) || name.ends_with("rotary_emb.inv_freq") || (g.tied && name == "lm_head.weight")) {
      it = w.tensors.erase(it);  // a constant; a copy of the embedding
      continue;
    }
    if (!p && name.find(".lora_") != name.npos)  // without the adapter it would be the untrained base
      throw UserError("a checkpoint of an adapter, not of a model", tensor->where(),
                      "it holds the trained parameters only, not the other weights of the model",
                      "let the run finish, then `ravine merge-lora --model BASE --adapter RUN/adapter --output DIR`");
    if (!p) {
      if (!allow_unknown)
        throw UserError("unknown tensor", tensor->where(),
                        fmt::format("the {} of {} has no '{}'", g.family, w.config_where, printable(name)),
                        "use weights that belong to the config, or --allow-unknown to leave it out");
      w.notes.push_back(fmt::format("left out: '{}'", printable(name)));
      it = w.tensors.erase(it);
      continue;
    }
    if (!(tensor->shape() == p->shape))
      throw UserError("misshapen tensor", tensor->where(),
                      fmt::format("'{}' is {}, {} makes it {}", name, tensor->shape().text(), w.config_where, p->shape.text()),
                      "use weights that belong to the config");
    ++it;
  }
  if (partial) return;
  for (const Param& p : g.model->params().params())
    if (!p.tied && !w.tensors.contains(p.name))
      throw UserError("missing tensor", w.config_where, fmt::format("the model needs '{}'", p.name),
                      "use a complete checkpoint of this model");
}

void from_family_files(Weights& w, const Geometry& g) { from_files(w, g.model->files(), w.config_where); }

void from_files(Weights& w, const WeightFiles& files, const std::string& where) {
  auto take = [&](const std::string& name) {
    ElementsPtr e;
    for (const std::string& n : {name, name.starts_with(files.base) ? name.substr(files.base.size()) : name})
      if (auto it = w.tensors.find(n); !e && it != w.tensors.end()) e = it->second, w.tensors.erase(it);
    return e;  // names of the bare model lack the prefix
  };
  std::vector<std::pair<std::string, ElementsPtr>> out;
  std::map<const Param*, std::vector<Rows>> stacks;
  for (const FileTensor& t : files.tensors) {
    ElementsPtr e = take(t.name);
    if (!e && t.params[0]->name == kEmbedding)  // the tied table may be stored under the head's name alone
      for (const std::string& copy : files.copies)
        if (!e) e = take(copy);
    if (!e) continue;
    if (!(e->shape() == t.shape))
      throw UserError("misshapen tensor", e->where(),
                      fmt::format("'{}' is {}, {} makes it {}", printable(t.name), e->shape().text(), where, t.shape.text()),
                      "use weights that belong to the config");
    if (t.of_stack()) {
      stacks[t.params[0]].push_back(all_rows(e));
      continue;
    }
    if (t.transposed) e = transposed(e);
    for (size_t i = 0; i < t.params.size(); ++i)
      out.emplace_back(
          t.params[i]->name,
          t.params.size() == 1 ? e : stack_rows(rows_in(t, i, e), fmt::format("part {} of {}", i + 1, t.params.size())));
  }
  for (const auto& [param, rows] : stacks) {
    if (static_cast<int64_t>(rows.size()) != param->shape[0])
      throw UserError("missing tensor", where,
                      fmt::format("'{}' has {} experts, the files hold {}", param->name, param->shape[0], rows.size()),
                      "use a complete checkpoint of this model");
    out.emplace_back(param->name,
                     reshaped(stack_rows(rows, fmt::format("{} experts, one after another", rows.size())), param->shape));
  }
  for (const std::string& name : files.copies) take(name);
  for (auto& [name, e] : out) w.add(name, e);
}

void to_family_files(Weights& w, const Geometry& g) { to_files(w, g.model->files()); }

void to_files(Weights& w, const WeightFiles& files) {
  std::map<std::string, ElementsPtr> out;
  for (const FileTensor& t : files.tensors) {
    std::vector<ElementsPtr> of;
    for (const Param* p : t.params)
      if (auto it = w.tensors.find(p->name); it != w.tensors.end()) of.push_back(it->second);
    if (of.size() != t.params.size()) continue;
    ElementsPtr e = of[0];
    if (t.of_stack()) {
      const Shape& stack = t.params[0]->shape;
      const FileTensor::Run& r = t.runs[0];
      e = stack_rows({{reshaped(e, {stack[0] * stack[1], stack[2]}), r.param_row, r.count}}, "one of many experts");
    } else if (t.params.size() > 1) {
      std::vector<Rows> rows;
      for (const FileTensor::Run& r : t.runs) rows.push_back({of[r.param], r.param_row, r.count});
      e = stack_rows(rows, fmt::format("{} parts joined", t.params.size()));
    }
    out.emplace(t.name, t.transposed ? transposed(e) : e);
  }
  w.tensors = std::move(out);
}

ElementsPtr padded_rows(ElementsPtr table, int64_t rows) {
  const int64_t have = table->shape()[0];
  if (rows == have) return table;
  if (rows < have) return stack_rows({{table, 0, rows}}, fmt::format("first {} rows", rows));
  return stack_rows({all_rows(table), {table, have - 1, rows - have, 0}},
                    fmt::format("{} rows of padding, copies of the last", rows - have));
}

void resize_vocabulary(Weights& w, const Json& implied, int64_t rows, bool moments) {
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    auto it = w.tensors.find(name);
    if (it == w.tensors.end()) continue;
    const ElementsPtr table = it->second;
    const int64_t have = table->shape()[0], wide = table->count() / std::max<int64_t>(have, 1), size = size_of(table->dtype());
    if (rows <= have) {
      it->second = padded_rows(table, rows);
      continue;
    }
    if (moments) {
      it->second = stack_rows({all_rows(table), all_rows(zeros(table->dtype(), {rows - have, wide}))}, "zeros for new rows");
      continue;
    }
    std::vector<double> sum(static_cast<size_t>(wide)), row(sum.size());
    std::vector<std::byte> bytes(static_cast<size_t>(wide * size));
    for (int64_t r = 0; r < have; ++r) {
      table->read(r * wide, bytes);
      convert(table->dtype(), bytes.data(), DType::f64, row.data(), wide);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
    }
    for (double& x : sum) x /= static_cast<double>(have);
    convert(DType::f64, sum.data(), table->dtype(), bytes.data(), wide);
    const ElementsPtr mean = in_memory(table->dtype(), {1, wide}, std::move(bytes));
    it->second =
        stack_rows({all_rows(table), {mean, 0, rows - have, 0}}, fmt::format("{} new rows, the mean of the old", rows - have));
  }
  set_vocabulary(w.config, implied, rows);
}

}  // namespace ravine
