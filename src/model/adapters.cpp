#include "model/adapters.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "base/cut_text.h"
#include "base/text.h"
#include "model/decoder.h"
#include "model/vocabulary.h"
#include "text/tokenizers/regex.h"

namespace ravine {
namespace {

constexpr std::string_view kWeight = ".weight", kDown = ".lora_A", kUp = ".lora_B", kTableDown = ".lora_embedding_A",
                           kTableUp = ".lora_embedding_B", kPeft = "base_model.model.";

std::string module_of(std::string name) {
  name.resize(name.size() - kWeight.size());
  return name;
}

// Returns 7 for "model.layers.7.mlp.up_proj"; -1 outside of layers.
int64_t layer_of(const std::string& declared) {
  constexpr std::string_view kLayers = "model.layers.";
  return declared.starts_with(kLayers) ? std::stoll(declared.substr(kLayers.size())) : -1;
}

bool is_end(const std::string& name, const std::string& end) { return name == end || name.ends_with("." + end); }

// Returns a regex that matches `begin` and `pattern` as a whole name. An error in `pattern` is reported with the
// pattern as it was written.
Regex whole_name(const std::string& begin, const std::string& pattern, const std::string& where) {
  const Regex alone(pattern, where);
  return {"^(?:" + begin + "(?:" + pattern + "))$", where};
}

bool matches(const Regex& regex, const std::string& name) {
  RegexScratch scratch;
  scratch.start(name);
  size_t begin = 0, end = 0;
  return regex.find(name, 0, scratch, begin, end);
}

constexpr size_t kMostPatterns = 4096;  // a model has some hundred modules

// Values of modules by pattern; each pattern is compiled once.
template <class T>
class ByPattern {
 public:
  ByPattern(const char* key, const std::map<std::string, T>& patterns, const std::string& where) {
    if (patterns.size() > kMostPatterns)
      throw UserError(fmt::format("{} patterns in {}", patterns.size(), key), where, fmt::format("at most {}", kMostPatterns),
                      "name modules by fewer patterns");
    for (const auto& [pattern, value] : patterns) patterns_.push_back({whole_name("(.*\\.)?", pattern, where), pattern, value});
  }
  // Returns the value of the first pattern that matches the module, else `otherwise`.
  T of(const std::string& module, T otherwise) {
    for (Pattern& p : patterns_) {
      size_t begin = 0, end = 0;
      scratch_.start(module);
      if (!p.regex.find(module, 0, scratch_, begin, end)) continue;
      p.used = true;
      return p.value;
    }
    return otherwise;
  }
  // Returns a pattern that has matched no module; "" if there is none.
  std::string unused() const {
    for (const Pattern& p : patterns_)
      if (!p.used) return p.text;
    return "";
  }

 private:
  struct Pattern {
    Regex regex;
    std::string text;
    T value;
    bool used = false;
  };
  std::vector<Pattern> patterns_;
  RegexScratch scratch_;
};

struct Module {
  std::string declared, file;  // names without ".weight"
  bool linear = false;         // a linear layer inside a layer of the model
  bool table = false;          // the embedding
  bool head = false;           // the output product
  bool copy = false;           // shares the weights of another module
  // one matrix of a stack, which is not a module in Transformers
  bool expert = false;
  bool takes() const { return linear || table || head; }  // true if it can have an adapter
};

std::vector<Module> modules_of(const Model& model) {
  std::vector<Module> out;
  for (const FileTensor& t : model.files().tensors)
    if (t.name.ends_with(kWeight))
      for (const Param* p : t.params)
        out.push_back({module_of(p->name), module_of(t.name),
                       p->use == Use::matrix && p->shape.rank() == 2 && layer_of(p->name) >= 0, p->name == kEmbedding,
                       p->name == kHead && p->use == Use::matrix, false, t.of_stack()});
  if (is_tied(model)) out.push_back({module_of(kHead), module_of(model.files().copies.at(0)), false, false, true, true});
  return out;
}

// Returns the last parts of the names of modules: of modules that can have an adapter, or of all. The last two parts,
// if a module that cannot have an adapter has the same last part.
std::vector<std::string> ends_of(const std::vector<Module>& modules, bool targets) {
  std::set<std::string> ends;
  for (const Module& m : modules) {
    if (targets ? !m.takes() : m.copy) continue;
    size_t dot = m.file.rfind('.');
    const std::string last = m.file.substr(dot + 1);
    if (targets && dot != std::string::npos && dot > 0 && std::any_of(modules.begin(), modules.end(), [&](const Module& n) {
          return !n.takes() && !n.expert && is_end(n.file, last);
        }))
      dot = m.file.rfind('.', dot - 1);
    ends.insert(m.file.substr(dot + 1));
  }
  return {ends.begin(), ends.end()};
}

// Returns the advice for a word that no module's name ends in.
std::string likely_word(const std::string& word, const std::vector<std::string>& words, const std::string& otherwise) {
  if (word.find(',') != std::string::npos) {
    std::vector<std::string> each;
    for (std::string one : split(word, ',')) {
      std::erase(one, ' ');
      if (!one.empty()) each.push_back(one);
    }
    return fmt::format("write a list: [{}]", fmt::join(each, ", "));
  }
  const std::string near = nearest(word, words);
  return near.empty() ? otherwise : fmt::format("did you mean '{}'?", near);
}

std::string likely_targets(const std::string& word, const std::vector<Module>& modules) {
  std::vector<std::string> ends = ends_of(modules, true);
  const std::string otherwise = fmt::format("choose among {}, or all-linear", fmt::join(ends, ", "));
  if (word == "all" || word == "all_linear" || word == "linear") return "did you mean 'all-linear'?";
  ends.emplace_back("all-linear");
  return likely_word(word, ends, otherwise);
}

std::string likely_saved_modules(const std::string& word, const std::vector<Module>& modules) {
  const std::vector<std::string> ends = ends_of(modules, false);
  return likely_word(word, ends, fmt::format("choose among {}", fmt::join(ends, ", ")));
}

// Megatron's word for a module, and the ends of the declared names it stands for; `proj` joins gate and up.
struct MegatronWord {
  const char* word;
  std::vector<const char*> declared;
};
const std::vector<MegatronWord>& megatron_words() {
  static const std::vector<MegatronWord> words = {
      {"query_key_value", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
      {"dense", {"self_attn.o_proj"}},
      {"gate_proj", {"mlp.gate_proj"}},
      {"dense_h_to_4h", {"mlp.up_proj"}},
      {"proj", {"mlp.gate_proj", "mlp.up_proj"}},
      {"dense_4h_to_h", {"mlp.down_proj"}},
      {"word_embeddings", {"model.embed_tokens"}},
      {"output_layer", {"lm_head"}},
  };
  return words;
}

// Returns the last part of a module's name in files, or the last two parts if another kind of module has the same last
// part.
std::string end_of(const Module& module, const std::string& declared_end, const std::vector<Module>& modules) {
  const size_t dot = module.file.rfind('.');
  const std::string last = module.file.substr(dot + 1);
  const bool shared = std::any_of(modules.begin(), modules.end(), [&](const Module& m) {
    return is_end(m.file, last) && !is_end(m.declared, declared_end) &&
           m.file.substr(0, m.file.rfind('.')) != module.file.substr(0, dot);
  });
  const size_t before = shared && dot != std::string::npos && dot > 0 ? module.file.rfind('.', dot - 1) : std::string::npos;
  return before == std::string::npos ? last : module.file.substr(before + 1);
}

}  // namespace

std::string LoraSettings::where_of(const std::string& key) const {
  const auto source = sources.find(key);
  return source == sources.end() ? where : source->second;
}

std::vector<std::string> family_spelling(const Model& base, const std::vector<std::string>& ends) {
  const std::vector<Module> modules = modules_of(base);
  std::vector<std::string> out;
  auto add = [&](const std::string& end) {
    if (std::find(out.begin(), out.end(), end) == out.end()) out.push_back(end);
  };
  for (const std::string& end : ends) {
    const bool own = std::any_of(modules.begin(), modules.end(), [&](const Module& m) { return is_end(m.file, end); });
    const auto word =
        std::find_if(megatron_words().begin(), megatron_words().end(), [&](const MegatronWord& w) { return end == w.word; });
    bool found = false;
    if (!own && word != megatron_words().end())
      for (const char* declared : word->declared)
        for (const Module& m : modules)
          if (is_end(m.declared, declared)) add(end_of(m, declared, modules)), found = true;
    if (!found) add(end);
  }
  return out;
}

namespace {

[[noreturn]] void refuse_experts(const std::string& target, const LoraSettings& lora, const std::vector<Module>& modules) {
  throw UserError(fmt::format("a target that is an expert: {}", shown_text(target)), lora.where_of("targets"),
                  "Transformers keeps experts stacked in one parameter, which PEFT reaches by target_parameters; that is not "
                  "offered here",
                  fmt::format("choose among {}, or all-linear", fmt::join(ends_of(modules, true), ", ")));
}

}  // namespace

std::map<std::string, AdapterSpec> adapter_specs(const Model& base, const LoraSettings& lora) {
  const std::vector<Module> modules = modules_of(base);
  std::optional<Regex> whole;
  if (lora.targets_whole) whole = whole_name("", lora.targets.at(0), lora.where);
  auto targeted = [&](const Module& m) {
    if (whole) return matches(*whole, m.file);
    return std::any_of(lora.targets.begin(), lora.targets.end(),
                       [&](const std::string& t) { return t == "all-linear" ? m.linear : is_end(m.file, t); });
  };
  for (int64_t layer : lora.layers)
    if (layer < 0 || layer >= base.facts().layers)
      throw UserError(fmt::format("layer {} of {}", layer, base.facts().layers), lora.where_of("layers"), "layers count from 0",
                      fmt::format("name layers below {}", base.facts().layers));
  for (const std::string& t : lora.targets) {
    if (lora.targets_whole || t == "all-linear") continue;
    bool found = false, outside_experts = false;
    for (const Module& m : modules)
      if (is_end(m.file, t)) found = true, outside_experts = outside_experts || !m.expert;
    if (found && !outside_experts) refuse_experts(t, lora, modules);
    if (found) continue;
    const bool of_files = !lora.from_options && t.find('.') != std::string::npos;  // a whole name, as PEFT writes them
    throw UserError(
        fmt::format("no module of the model ends in '{}'", shown_text(t)), lora.where_of("targets"),
        of_files ? "the adapter has weights for such a module: it was trained on another base model"
                 : "targets are the last parts of names of linear layers, of the embedding or of the head",
        of_files ? "use the model that base_model_name_or_path in its adapter_config.json names" : likely_targets(t, modules));
  }
  ByPattern ranks("rank_pattern", lora.rank_pattern, lora.where_of("rank_pattern"));
  ByPattern alphas("alpha_pattern", lora.alpha_pattern, lora.where_of("alpha_pattern"));
  std::map<std::string, AdapterSpec> chosen;  // by declared name
  for (const Module& m : modules) {
    if (!targeted(m) || (m.expert && !lora.targets_whole)) continue;
    if (m.expert) refuse_experts(m.file, lora, modules);
    if (!m.takes())
      throw UserError(fmt::format("a target that is no linear layer: {}", m.file), lora.where_of("targets"),
                      "only linear layers of attention and MLP, the embedding and the head can have adapters",
                      fmt::format("choose among {}, or all-linear; lora.save trains other modules whole",
                                  fmt::join(ends_of(modules, true), ", ")));
    if (!lora.layers.empty() && std::find(lora.layers.begin(), lora.layers.end(), layer_of(m.declared)) == lora.layers.end())
      continue;
    if (std::any_of(lora.save.begin(), lora.save.end(), [&](const std::string& word) { return m.file.ends_with(word); }))
      throw UserError(
          fmt::format("{} gets an adapter and is trained whole", m.file), lora.where_of("save"),
          "a module is trained either by an adapter or whole",
          lora.from_options
              ? "leave it out of lora.save, or name in lora.targets the modules that get an adapter, without it"
              : "PEFT trains such a module whole and ignores its adapter: remove it from target_modules, and its lora_A and lora_B from the file");
    const int64_t rank = ranks.of(m.file, lora.rank);
    const double alpha = alphas.of(m.file, lora.alpha);
    if (rank < 1)
      throw UserError(fmt::format("rank {} for {}", rank, m.file), lora.where, "a rank is at least 1", "give a larger one");
    const double by = lora.rslora ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank);
    chosen[m.declared] = {.rank = rank, .scale = alpha / by, .dropout = lora.dropout, .module = m.file};
  }
  if (lora.ties_weights && is_tied(base) && (chosen.contains(module_of(kEmbedding)) || chosen.contains(module_of(kHead))))
    throw UserError("adapters of tied embedding and head (ensure_weight_tying)", lora.where,
                    "embedding and head have an A and a B each, or are trained whole as one table",
                    "train the adapter again without ensure_weight_tying, or with the embedding in modules_to_save");
  if (lora.from_options)
    for (const auto& [key, unused] : {std::pair{"rank_pattern", ranks.unused()}, {"alpha_pattern", alphas.unused()}})
      if (!unused.empty())
        throw UserError(fmt::format("no module with an adapter matches '{}'", shown_text(unused)), lora.where_of(key),
                        "a pattern is the end of a module's name, or a regular expression",
                        "remove it, or name a module that lora.targets names");
  if (chosen.empty())
    throw UserError("no module gets an adapter", lora.where, "targets and layers must select at least one module",
                    fmt::format("choose among {}, or all-linear", fmt::join(ends_of(modules, true), ", ")));
  return chosen;
}

bool parts_tables(const Model& base, const LoraSettings& lora) {
  if (!is_tied(base)) return false;
  const std::map<std::string, AdapterSpec> specs = adapter_specs(base, lora);
  return specs.contains(module_of(kEmbedding)) || specs.contains(module_of(kHead)) || copies_table(base, lora);
}

bool saves_table(const Model& base, const LoraSettings& lora) {
  const std::vector<Module> modules = modules_of(base);
  return std::any_of(modules.begin(), modules.end(), [&](const Module& m) {
    return (m.table || m.head) &&
           std::any_of(lora.save.begin(), lora.save.end(), [&](const std::string& word) { return m.file.ends_with(word); });
  });
}

bool copies_table(const Model& base, const LoraSettings& lora) {
  return is_tied(base) && !lora.ties_weights && saves_table(base, lora);
}

std::unique_ptr<Model> with_adapters(const Model& base, const LoraSettings& lora) {
  require(base.decoder() != nullptr, "adapters: the model is not a decoder");
  const std::vector<Module> modules = modules_of(base);
  DecoderSpec spec = *base.decoder();
  spec.adapter_of = [chosen = adapter_specs(base, lora)](const std::string& module) {
    const auto it = chosen.find(module);
    return it == chosen.end() ? std::optional<AdapterSpec>() : it->second;
  };
  std::unique_ptr<Model> model = make_decoder(base.config(), base.facts(), std::move(spec));
  model->set_stored_vocabulary(base.stored_vocabulary());
  for (Param& p : model->params().params()) p.policy.trainable = p.adapter;
  for (const std::string& word : lora.save) {
    bool found = false;
    for (const FileTensor& t : model->files().tensors) {
      const std::string module = t.name.substr(0, t.name.rfind('.'));
      if (!module.ends_with(word)) continue;
      found = true;
      for (const Param* p : t.params) model->params().params()[p->index].policy.trainable = true;
    }
    for (const std::string& copy : model->files().copies)
      if (copy.substr(0, copy.rfind('.')).ends_with(word))
        throw UserError(fmt::format("'{}' and the embedding are one table (tie_word_embeddings)", copy), lora.where_of("save"),
                        "a module that is trained whole must have its own weights",
                        "remove it from the modules that are trained whole, or name the embedding, which trains both");
    if (!found)
      throw UserError(fmt::format("no module of the model ends in '{}'", word), lora.where_of("save"),
                      "modules that are trained whole are named by their last parts", likely_saved_modules(word, modules));
  }
  return model;
}

void keep_base(Model& model, BaseStorage base) {
  std::set<std::string> linear;
  for (const Module& m : modules_of(model))
    if (m.linear) linear.insert(m.declared + std::string(kWeight));
  for (Param& p : model.params().params()) {
    if (p.policy.trainable || p.tied || p.shape.rank() != 2) continue;
    if (linear.contains(p.name))
      p.policy.kept = base == BaseStorage::nf4 ? Kept::nf4 : Kept::bf16;
    else if (p.use == Use::table || p.use == Use::matrix)
      p.policy.kept = Kept::compute;
  }
}

BlockedBase blocked_base(const Model& model) {
  BlockedBase all;
  for (const Param& p : model.params().params())
    if (p.policy.kept == Kept::nf4) {
      all.bytes += nf4_box(p.shape, p.shape, {0, 0}).byte_count();
      all.elements += p.shape.count();
    }
  return all;
}

WeightFiles adapter_files(const Model& model) {
  WeightFiles out;
  out.architecture = model.files().architecture;
  std::map<std::string, const FileTensor*> base;  // by declared module
  FileTensor tied_head;
  for (const FileTensor& t : model.files().tensors)
    if (t.name.ends_with(kWeight))
      for (const Param* p : t.params) base[module_of(p->name)] = &t;
  if (is_tied(model)) {
    tied_head = *base.at(module_of(kEmbedding));
    tied_head.name = model.files().copies.at(0);
    base[module_of(kHead)] = &tied_head;
  }
  std::map<std::string, size_t> index_of;
  for (const Param& p : model.params().params()) {
    if (!p.adapter) continue;
    const std::string module = module_of(p.name);  // "model.layers.0.self_attn.q_proj.lora_A"
    // A [r, V] is a table of ids here
    if (const bool a = module.ends_with(kTableDown); a || module.ends_with(kTableUp)) {
      const FileTensor& t = *base.at(module.substr(0, module.rfind('.')));
      const int64_t rows = p.shape[0], rank = p.shape[1];
      out.tensors.push_back({fmt::format("{}{}{}", kPeft, module_of(t.name), a ? kTableDown : kTableUp),
                             {&p},
                             a ? Shape{rank, rows} : p.shape,
                             a,
                             {{0, 0, 0, rows}}});
      continue;
    }
    const bool down = module.ends_with(kDown);
    const FileTensor& t = *base.at(module.substr(0, module.size() - kDown.size()));
    const std::string name = fmt::format("{}{}{}{}", kPeft, module_of(t.name), down ? kDown : kUp, kWeight);
    const auto [it, fresh] = index_of.try_emplace(name, out.tensors.size());
    if (fresh) out.tensors.push_back({name, {}, {}, false, {}});
    FileTensor& f = out.tensors[it->second];
    f.params.push_back(&p);
    if (down) {
      f.shape = p.shape;
      f.runs = {{0, 0, 0, p.shape[0]}};
    } else {  // its rows are the rows of the weight, one per output
      f.shape = {t.transposed ? t.shape[1] : t.shape[0], p.shape[1]};
      f.runs = t.runs;
    }
  }
  for (const FileTensor& t : model.files().tensors) {
    if (std::none_of(t.params.begin(), t.params.end(), [](const Param* p) { return p->policy.trainable; })) continue;
    out.tensors.push_back(t);
    out.tensors.back().name = std::string(kPeft) + t.name;
  }
  return out;
}

}  // namespace ravine
