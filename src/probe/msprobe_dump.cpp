#include "probe/msprobe_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <unordered_map>

#include "base/counted.h"
#include "base/error.h"
#include "base/python_json.h"
#include "base/read_text.h"
#include "files/read_head.h"
#include "probe/module_calls.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kMostDump = int64_t{256} << 20;  // most bytes of dump.json
constexpr int kMostNested = 16;                    // most nested lists

struct RankFolder {
  int64_t step = 1;
  int rank = -1;       // -1: a process folder, numbered in the order of ids
  int64_t order = 0;   // id of the process
  std::string inside;  // path in the dump; "": the folder of the dump
};

std::optional<int64_t> number_behind(const std::string& name, const std::string& word) {
  if (!name.starts_with(word)) return {};
  const std::string digits = name.substr(word.size());
  if (digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) return {};
  return digits.empty() ? -1 : std::stoll(digits);
}

bool is_rank_folder(const fs::path& folder) {
  std::error_code error;
  const std::string file = folder / "dump.json";
  if (!fs::is_regular_file(file, error)) return false;
  const std::string head = read_head(file, 4096);
  return head.find("\"task\"") != std::string::npos && head.find("\"level\"") != std::string::npos;
}

RankFolder rank_folder(const fs::path& folder, const std::string& inside, int64_t step) {
  RankFolder out{.step = step, .inside = inside};
  const std::string name = folder.filename();
  if (const auto rank = number_behind(name, "rank")) out.rank = static_cast<int>(std::max<int64_t>(0, *rank));
  out.order = number_behind(name, "proc").value_or(0);
  return out;
}

int64_t step_of(const fs::path& folder) {
  const auto step = number_behind(folder.filename(), "step");
  return step && *step >= 0 ? *step + 1 : 1;
}

void add_ranks_of_step(const fs::path& folder, const std::string& inside, std::vector<RankFolder>& to) {
  std::vector<RankFolder> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if ((number_behind(name, "rank") || number_behind(name, "proc")) && is_rank_folder(entry.path()))
      found.push_back(rank_folder(entry.path(), inside + name, step_of(folder)));
  }
  std::sort(found.begin(), found.end(),
            [](const RankFolder& x, const RankFolder& y) { return std::pair(x.rank, x.order) < std::pair(y.rank, y.order); });
  for (int next = 0; RankFolder & f : found) {
    if (f.rank < 0) f.rank = next;
    next = f.rank + 1;
    to.push_back(f);
  }
}

std::vector<RankFolder> folders_of(const std::string& path) {
  std::vector<RankFolder> out;
  const fs::path root = fs::path(path).filename().empty() ? fs::path(path).parent_path() : fs::path(path);
  if (is_rank_folder(root)) {
    RankFolder one = rank_folder(root, "", step_of(root.parent_path()));
    one.rank = std::max(0, one.rank);
    return {one};
  }
  std::error_code error;
  std::vector<std::string> steps;
  for (const auto& entry : fs::directory_iterator(root, error))
    if (number_behind(entry.path().filename(), "step").value_or(-1) >= 0) steps.push_back(entry.path().filename());
  std::sort(steps.begin(), steps.end(), [](const std::string& x, const std::string& y) { return step_of(x) < step_of(y); });
  for (const std::string& step : steps) add_ranks_of_step(root / step, step + "/", out);
  if (out.empty()) add_ranks_of_step(root, "", out);
  return out;
}

std::optional<double> number_of(const Json& j) {
  if (j.is_number()) return j.get<double>();
  if (j.is_boolean()) return j.get<bool>() ? 1 : 0;
  if (!j.is_string()) return {};
  std::string text = j.get<std::string>();
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf" || text == "infinity") return std::numeric_limits<double>::infinity();
  if (text == "-inf" || text == "-infinity") return -std::numeric_limits<double>::infinity();
  return {};
}

enum class EntryKind : uint8_t { forward, backward, gradient };

struct Entry {
  bool module = false;
  EntryKind kind = EntryKind::forward;
  std::string path, type;  // of a module; for a call: with its number
  int64_t call = 0;
};

std::optional<EntryKind> kind_of(std::string_view word) {
  if (word == "forward") return EntryKind::forward;
  if (word == "backward") return EntryKind::backward;
  if (word == "parameters_grad") return EntryKind::gradient;
  return {};
}

// Parses a name in the data of dump.json; empty for other names.
std::optional<Entry> entry_of(std::string name) {
  auto last = [&](std::string& text) {
    const size_t dot = text.rfind('.');
    const std::string word = dot == std::string::npos ? text : text.substr(dot + 1);
    text.resize(dot == std::string::npos ? 0 : dot);
    return word;
  };
  Entry e;
  std::string word = last(name);
  if (name.starts_with("Module.") || name.starts_with("Cell.")) {
    e.module = true;
    if (const auto call = number_behind(word, "")) {
      e.call = std::max<int64_t>(0, *call);
      word = last(name);
    }
    const auto kind = kind_of(word);
    if (!kind) return {};
    e.kind = *kind, e.type = last(name), e.path = name.substr(std::min(name.size(), name.find('.') + 1));
    for (const std::string prefix : {"base_model.model.", "module."})
      if (e.path.starts_with(prefix)) e.path = e.path.substr(prefix.size());
    return e;
  }
  const auto kind = kind_of(word);
  if (!kind) return {};
  e.kind = *kind, e.path = name;
  if (!number_behind(last(name), "")) return {};
  e.type = name;
  return e;
}

class MsprobeReader {
 public:
  explicit MsprobeReader(std::string folder) : folder_(std::move(folder)), files_(folder_) {}

  Dump read(bool own_names) {
    own_names_ = own_names;
    Dump out{.folder = folder_, .of_modules = true, .own_names = own_names, .aside = {}, .ranks = {}};
    for (const RankFolder& f : folders_of(folder_)) {
      auto rank = std::find_if(out.ranks.begin(), out.ranks.end(), [&](const RankDump& r) { return r.rank == f.rank; });
      if (rank == out.ranks.end()) {
        rank = out.ranks.insert(out.ranks.end(), RankDump{.rank = f.rank});
        rank->session = {{"rank", f.rank}, {"program", "msprobe"}};
      }
      read_step(f, *rank);
    }
    std::sort(out.ranks.begin(), out.ranks.end(), [](const RankDump& a, const RankDump& b) { return a.rank < b.rank; });
    if (calls_ > 0 && !own_names)
      out.aside.push_back(fmt::format("{} of the API ({}, ..), which belong to no module: none is in ours",
                                      counted(calls_, "call"), first_call_));
    if (unknown_ > 0)
      out.aside.push_back(fmt::format("{} of types that are not known here ({})", counted(unknown_, "tensor"), unknown_type_));
    return out;
  }

 private:
  void read_step(const RankFolder& f, RankDump& rank) {
    where_ = folder_ + (f.inside.empty() ? "" : "/" + f.inside) + "/dump.json";
    inside_ = f.inside.empty() ? "" : f.inside + "/";
    const Json all = parse_python_json(read_text(where_, kMostDump, "a dump of msprobe"), where_);
    const Json& data = all.is_object() && all.contains("data") ? all["data"] : all;
    if (!data.is_object() || !all.contains("data"))
      throw UserError("no 'data' in it", where_, "msprobe writes there what was recorded, at stop()",
                      "record the dump again, and call stop() of the debugger");
    step_ = f.step, micros_ = layers_ = 0;
    tensors_.clear();
    for (const auto& [name, content] : data.items()) {
      const auto entry = entry_of(name);
      if (!entry || !content.is_object()) continue;
      if (!entry->module && !own_names_) {
        if (calls_++ == 0) first_call_ = name;
        continue;
      }
      name_ = name;
      if (own_names_)
        add_entry(*entry, content, rank);
      else
        note_module(*entry, content);
    }
    if (!own_names_) add_modules(rank);
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& rule) const {
    throw UserError(what, fmt::format("{}: {}", where_, printable(name_)), rule, "record the dump again");
  }

  // Calls of(name, tensor) or scalar(name, value) for all nested contents of an argument.
  template <class Of, class Scalar>
  void walk(const Json& j, const std::string& name, const Of& of, const Scalar& scalar, int depth = 0) {
    if (depth > kMostNested) refuse("lists in lists without end", "arguments are nested 16 deep at most");
    if (j.is_array()) {
      for (size_t i = 0; i < j.size(); ++i) walk(j[i], fmt::format("{}.{}", name, i), of, scalar, depth + 1);
    } else if (j.is_object() && j.contains("dtype") && j.contains("shape")) {
      if (auto t = tensor_of(j)) of(name, *t);
    } else if (j.is_object() && j.contains("type") && j.contains("value")) {
      if (const auto x = number_of(j["value"])) scalar(name, *x);
    } else if (j.is_object() && !j.contains("type")) {
      for (const auto& [key, value] : j.items()) walk(value, name + "." + key, of, scalar, depth + 1);
    }
  }

  std::optional<ForeignTensor> tensor_of(const Json& j) {
    const auto type = j["dtype"].is_string() ? j["dtype"].get<std::string>() : "";
    const auto dtype = foreign_dtype(type);
    if (!dtype) {
      if (unknown_++ == 0) unknown_type_ = printable(type);
      return {};
    }
    std::vector<int64_t> sizes;
    if (!j["shape"].is_array()) refuse("no shape", "it is a list of sizes");
    for (const Json& s : j["shape"]) {
      if (!s.is_number_integer()) refuse("no shape", "it is a list of sizes");
      sizes.push_back(s.get<int64_t>());
    }
    ForeignTensor out{
        .dtype = *dtype, .shape = foreign_shape(sizes, where_ + ": " + printable(name_)), .figures = {}, .stored = {}};
    if (j.contains("data_name") && j["data_name"].is_string() && j["data_name"] != "-1") {
      const std::string file = inside_ + "dump_tensor_data/" + name_inside(j["data_name"].get<std::string>(), where_);
      return files_.read(file, out.shape);
    }
    KnownFigures known;
    for (const auto& [key, to] :
         {std::pair{"Min", &known.min}, {"Max", &known.max}, {"Mean", &known.mean}, {"Norm", &known.l2}})
      if (j.contains(key)) *to = number_of(j[key]);
    for (const char* key : {"md5", "xor"})
      if (j.contains(key) && j[key].is_string()) known.digest = j[key].get<std::string>();
    out.figures = rough_figures(out.shape.count(), known);
    if (!own_names_ && !out.figures.has_statistics && out.figures.count > 0)
      refuse("no figures", "checksums of msprobe are compared with those of another dump of msprobe only; ours are others");
    return out;
  }

  static constexpr std::pair<const char*, const char*> kSides[] = {{"input_args", "input"},
                                                                   {"input_kwargs", "kwargs"},
                                                                   {"input", "input"},
                                                                   {"parameters", "parameters"},
                                                                   {"output", "output"}};

  void add_entry(const Entry& e, const Json& content, RankDump& rank) {
    DumpRecord call{.step = step_, .micro = 1, .phase = Phase::forward, .path = e.path, .op = e.type};
    if (e.kind == EntryKind::backward) call.phase = Phase::backward;
    if (e.module) call.micro = e.call + 1;
    if (e.kind == EntryKind::gradient) {
      for (const auto& [parameter, list] : content.items())
        walk(
            list, "", [&](const std::string&, const ForeignTensor& t) { add_gradient(e, parameter, t, rank); },
            [](const std::string&, double) {});
      return;
    }
    if (e.type.find("empty") != std::string::npos) return;  // uninitialised memory
    std::vector<std::pair<std::string, double>> settings;
    for (const auto& [key, side] : kSides) {
      if (!content.contains(key)) continue;
      const std::string prefix = std::string(side) + ".";
      walk(
          content[key], side,
          [&](const std::string& name, const ForeignTensor& t) {
            DumpRecord r = call;
            r.tensor = name, r.output = side == std::string_view("output"), r.dtype = t.dtype, r.shape = t.shape;
            r.figures = t.figures;
            if (side == std::string_view("parameters")) r.parameters = {e.path + "." + name.substr(prefix.size())};
            if (r.output) r.settings = settings;
            if (!t.stored.file.empty()) r.parts = {t.stored};
            rank.records.push_back(std::move(r));
          },
          [&](const std::string& name, double x) {
            if (side != std::string_view("output")) settings.emplace_back(name, x);
          });
    }
  }

  void add_gradient(const Entry& e, const std::string& parameter, const ForeignTensor& t, RankDump& rank) {
    DumpRecord r{.step = step_, .micro = 1, .phase = Phase::update, .path = e.path + "." + parameter, .op = kGradientOp};
    r.tensor = "grad", r.output = true, r.dtype = t.dtype, r.shape = t.shape, r.figures = t.figures;
    if (!t.stored.file.empty()) r.parts = {t.stored};
    const auto [known, fresh] = gradients_.try_emplace(fmt::format("{} {}", rank.rank, r.key()), rank.records.size());
    if (fresh)
      rank.records.push_back(std::move(r));
    else  // the earlier one is the sum up to the previous micro batch
      rank.records[known->second] = std::move(r);
  }

  // Stores the tensors of a module under the names of module_calls.h.
  void note_module(const Entry& e, const Json& content) {
    const int64_t micro = e.call + 1;
    auto nothing = [](const std::string&, double) {};
    auto note = [&](const char* key, const std::string& as) {
      int64_t i = 0;
      if (content.contains(key))
        walk(
            content[key], "", [&](const std::string&, const ForeignTensor& t) { tensors_[fmt::format("{}.{}", as, i++)] = t; },
            nothing);
      return i > 0;
    };
    const std::string at = fmt::format("{}/{}/", micro, e.path);
    layers_ = std::max(layers_, layers_in(e.path));
    switch (e.kind) {
      case EntryKind::forward:
        micros_ = std::max(micros_, micro);
        if (!note("input_args", "forward/" + at + "in"))
          for (const char* key : {"input_ids", "hidden_states", "input"})
            if (content.contains("input_kwargs") && content["input_kwargs"].is_object() &&
                content["input_kwargs"].contains(key))
              walk(
                  content["input_kwargs"][key], "",
                  [&](const std::string&, const ForeignTensor& t) { tensors_["forward/" + at + "in.0"] = t; }, nothing);
        note("output", "forward/" + at + "out");
        if (micro == 1 && content.contains("parameters") && content["parameters"].is_object())
          for (const auto& [parameter, j] : content["parameters"].items())
            walk(
                j, "", [&](const std::string&, const ForeignTensor& t) { tensors_["weights/" + e.path + "." + parameter] = t; },
                nothing);
        break;
      case EntryKind::backward:
        note("input", "backward/" + at + "out"), note("output", "backward/" + at + "in");
        break;
      case EntryKind::gradient:
        for (const auto& [parameter, j] : content.items())
          walk(
              j, "", [&](const std::string&, const ForeignTensor& t) { tensors_["gradient/" + e.path + "." + parameter] = t; },
              nothing);
        break;
    }
  }

  // Completes the tensors. A module's gradient of its input is its own part only. Norms share their input with the
  // residual stream, so its whole gradient is taken from other modules. The table of RoPE is made from cosines and
  // sines, which Transformers stores twice, one after the other.
  void complete() {
    auto move = [&](const std::string& from, const std::string& to) {
      const auto it = tensors_.find(from);
      if (it == tensors_.end())
        tensors_.erase(to);
      else
        tensors_[to] = ForeignTensor(it->second);
    };
    for (int64_t micro = 1; micro <= micros_; ++micro) {
      for (int64_t i = 0; i < layers_; ++i) {
        const std::string layer = fmt::format("backward/{}/model.layers.{}", micro, i);
        move(layer + "/in.0", layer + ".input_layernorm/in.0");
        move(layer + ".self_attn.o_proj/out.0", layer + ".post_attention_layernorm/in.0");
      }
      const std::string rope = fmt::format("forward/{}/model.rotary_emb/", micro);
      const auto cos = tensors_.find(rope + "out.0"), sin = tensors_.find(rope + "out.1");
      if (cos == tensors_.end() || sin == tensors_.end() || !(cos->second.shape == sin->second.shape) ||
          cos->second.shape.rank() != 3 || cos->second.shape[0] != 1)
        continue;
      const TensorFigures &c = cos->second.figures, &s = sin->second.figures;
      ForeignTensor table{
          .dtype = cos->second.dtype, .shape = {cos->second.shape[1], cos->second.shape[2]}, .figures = {}, .stored = {}};
      table.figures = rough_figures(table.shape.count(), {.min = std::min(c.min, s.min),
                                                          .max = std::max(c.max, s.max),
                                                          .mean = (c.mean + s.mean) / 2,
                                                          .l2 = std::sqrt((c.l2 * c.l2 + s.l2 * s.l2) / 2),
                                                          .digest = ""});
      tensors_[rope + "table"] = table;
    }
  }

  void add_modules(RankDump& rank) {
    complete();
    auto fetch = [this](const StoredPart& p) { return files_.bytes(p); };
    auto add = [&](const char* prefix, int64_t step, const char* op, const char* tensor) {
      for (auto it = tensors_.lower_bound(prefix); it != tensors_.end() && it->first.starts_with(prefix); ++it) {
        DumpRecord r{.step = step, .micro = 1, .phase = Phase::update, .path = it->first.substr(std::strlen(prefix)), .op = op};
        r.tensor = tensor, r.output = true;
        rank.records.push_back(*record_of_parts(std::move(r), {it->second}, false, fetch));
      }
    };
    add("weights/", step_ - 1, kStateOp, "weights");
    const ModuleTensors in{.step = step_,
                           .micros = micros_,
                           .layers = layers_,
                           .find = [&](const std::string& name) -> std::optional<ForeignTensor> {
                             const auto it = tensors_.find(name);
                             return it == tensors_.end() ? std::nullopt : std::optional(it->second);
                           },
                           .fetch = fetch};
    add_module_calls(in, rank.records);
    add("gradient/", step_, kGradientOp, "grad");
  }

  std::string folder_;
  StoredTensors files_;
  bool own_names_ = false;
  std::map<std::string, ForeignTensor> tensors_;       // of the current step
  std::unordered_map<std::string, size_t> gradients_;  // index in the records of their rank
  int64_t step_ = 1, micros_ = 0, layers_ = 0;
  int64_t calls_ = 0, unknown_ = 0;
  std::string first_call_, unknown_type_;
  std::string where_, inside_, name_;  // path of dump.json, its folder in the dump, and the current name in it
};

}  // namespace

bool is_msprobe_dump(const std::string& folder) { return !folders_of(folder).empty(); }

Dump read_msprobe_modules(const std::string& folder) { return MsprobeReader(folder).read(false); }
Dump read_msprobe_names(const std::string& folder) { return MsprobeReader(folder).read(true); }

}  // namespace ravine
