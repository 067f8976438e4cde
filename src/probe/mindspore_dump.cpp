#include "probe/mindspore_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"
#include "eval/csv_rows.h"
#include "io/convert/mindformers_names.h"
#include "probe/foreign_tensor.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char *kStatistics = "statistic.csv", *kMapping = "mapping.csv", *kParameter = "Parameter";
constexpr int kIterationDepth = 5;  // depth of an iteration's folder in the dump

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string::npos;
}

// A tensor, from the name of its file or from its row.
struct Named {
  std::string type, op, time, side, slot;
};

std::optional<Named> named(std::string name) {
  if (!name.ends_with(".npy")) return {};
  const std::vector<std::string> parts = split(name.substr(0, name.size() - 4), '.');
  for (size_t i = parts.size(); i-- > 5;)  // type, op (may have dots), task, stream, time, side, slot, format, type
    if ((parts[i] == "input" || parts[i] == "output") && i + 1 < parts.size() && is_number(parts[i + 1])) {
      if (!is_number(parts[i - 1]) || !is_number(parts[i - 2]) || !is_number(parts[i - 3])) return {};
      Named out{.type = parts[0], .op = parts[1], .time = parts[i - 1], .side = parts[i], .slot = parts[i + 1]};
      for (size_t k = 2; k + 3 < i; ++k) out.op += "." + parts[k];
      return out;
    }
  return {};
}

struct Iteration {
  int rank = 0;
  int64_t step = 1, graph = 0;
  std::string inside;  // path in the dump, ending in a slash, or empty
};

bool is_rank(const fs::path& part) {
  const std::string name = part.string();
  return name.starts_with("rank_") && is_number(name.substr(5)) && name.size() < 12;
}

bool holds_tensors(const fs::path& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder / kStatistics, error)) return true;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (named(entry.path().filename())) return true;
  return false;
}

void add_iterations(const fs::path& root, const std::string& inside, int depth, std::vector<Iteration>& to) {
  const fs::path folder = inside.empty() ? root : root / inside;
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  if (holds_tensors(folder)) {
    Iteration it{.inside = inside};
    if (is_number(whole.filename().string())) it.step = std::stoll(whole.filename().string()) + 1;
    if (is_number(whole.parent_path().filename().string())) it.graph = std::stoll(whole.parent_path().filename().string());
    for (const fs::path& part : whole)
      if (is_rank(part)) it.rank = std::stoi(part.string().substr(5));
    to.push_back(it);
    return;
  }
  if (depth == 0) return;
  const bool in_rank = std::any_of(whole.begin(), whole.end(), is_rank);  // other folders are not searched
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error) && !entry.path().filename().string().starts_with('.') &&
        (in_rank || is_rank(entry.path().filename())))
      add_iterations(root, inside + entry.path().filename().string() + "/", depth - 1, to);
}

std::vector<Iteration> iterations_of(const std::string& folder) {
  std::vector<Iteration> out;
  add_iterations(folder, "", kIterationDepth, out);
  std::sort(out.begin(), out.end(), [](const Iteration& x, const Iteration& y) {
    return std::tie(x.rank, x.step, x.graph, x.inside) < std::tie(y.rank, y.step, y.graph, y.inside);
  });
  return out;
}

// Returns Ravine's name of a parameter: "model_layers_0_attention_wq_weight" is
// "model.layers.0.self_attn.q_proj.weight". "" if there is none. File names have '_' in place of '.'.
std::string our_parameter(const std::string& name) {
  auto flat = [](std::string text) {
    std::replace(text.begin(), text.end(), '.', '_');
    return text;
  };
  auto known = [&](const std::string& from, const auto& table) -> std::string {
    for (const SpellingPair& p : table)
      for (const char* spelling : {p.theirs, p.ours})
        if (const std::string start = flat(spelling); from.starts_with(start)) {
          const std::string rest = from.substr(start.size());
          if (rest.empty() == (start.back() == '_')) continue;
          return p.ours + rest;
        }
    return "";
  };
  for (const char* prefix : {"model_layers_", "decoder_layers_"}) {
    if (!name.starts_with(prefix)) continue;
    const size_t from = std::string(prefix).size(), end = name.find('_', from);
    if (end == std::string::npos || !is_number(name.substr(from, end - from))) return "";
    std::string ours = known(name.substr(end + 1), kLegacyLayer);
    if (ours.empty()) ours = known(name.substr(end + 1), kCoreLayer);
    return ours.empty() ? "" : fmt::format("model.layers.{}.{}", name.substr(from, end - from), ours);
  }
  const std::string ours = known(name, kLegacyTop);
  return ours.empty() ? known(name, kCoreTop) : ours;
}

class MindSporeReader {
 public:
  explicit MindSporeReader(const std::string& folder) : folder_(folder), files_(folder) {}

  Dump read(bool own_names) {
    Dump out{.folder = folder_, .of_modules = true, .own_names = own_names, .aside = {}, .ranks = {}};
    for (const Iteration& it : iterations_of(folder_)) {
      if (out.ranks.empty() || out.ranks.back().rank != it.rank) {
        out.ranks.push_back(RankDump{.rank = it.rank});
        out.ranks.back().session = {{"rank", it.rank}, {"program", "MindSpore"}};
      }
      if (it.step != step_ || it.rank != rank_) seen_.clear();
      step_ = it.step, rank_ = it.rank;
      read_iteration(it, own_names, out.ranks.back());
    }
    if (others_ > 0)
      out.aside.push_back(
          fmt::format("{} ({}, ..) of graphs, whose ops are none of ours", counted(others_, "tensor"), first_other_));
    return out;
  }

 private:
  struct Found {
    Named name;
    std::string file;  // empty: only in the table
    std::string type;
    std::vector<int64_t> shape;
    KnownFigures known;
  };

  void read_iteration(const Iteration& it, bool own_names, RankDump& to) {
    std::vector<Found> all;
    std::error_code error;
    const std::string folder = folder_ + "/" + it.inside;
    const std::unordered_map<std::string, std::string> originals = mapping(folder + kMapping);
    std::unordered_map<std::string, bool> has_file;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string file = entry.path().filename();
      const auto original = originals.find(file);
      if (auto n = named(original == originals.end() ? file : original->second)) {
        has_file[key(*n)] = true;
        all.push_back({.name = *n, .file = it.inside + file, .type = {}, .shape = {}, .known = {}});
      }
    }
    if (fs::is_regular_file(folder + kStatistics, error)) add_rows(folder + kStatistics, has_file, all);
    std::stable_sort(all.begin(), all.end(), [](const Found& x, const Found& y) {
      return std::tuple(x.name.time.size(), x.name.time, x.name.op, x.name.side, x.name.slot) <
             std::tuple(y.name.time.size(), y.name.time, y.name.op, y.name.side, y.name.slot);
    });
    for (const Found& f : all) add(f, own_names, to);
  }

  static std::string key(const Named& n) { return fmt::format("{} {} {} {} {}", n.type, n.op, n.time, n.side, n.slot); }

  static std::unordered_map<std::string, std::string> mapping(const std::string& path) {
    std::unordered_map<std::string, std::string> out;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return out;
    for (const CsvRow& row : read_csv_rows(path))
      if (row.fields.size() >= 2) out[row.fields[0]] = row.fields[1];
    return out;
  }

  static void add_rows(const std::string& path, const std::unordered_map<std::string, bool>& has_file,
                       std::vector<Found>& all) {
    const std::vector<CsvRow> rows = read_csv_rows(path);
    static constexpr const char* kFixed[] = {"Op Type", "Op Name", "Task ID",   "Stream ID", "Timestamp",
                                             "IO",      "Slot",    "Data Size", "Data Type", "Shape"};
    auto refuse = [&](int64_t line, const std::string& what) {
      throw UserError(what, fmt::format("{}:{}", path, line),
                      "a row has the columns of the first, and begins with those of MindSpore", "record the dump again");
    };
    if (rows.empty()) return;
    const std::vector<std::string>& titles = rows.front().fields;
    for (size_t i = 0; i < std::size(kFixed); ++i)
      if (titles.size() <= i || titles[i] != kFixed[i]) refuse(1, fmt::format("no column '{}'", kFixed[i]));
    for (size_t i = 1; i < rows.size(); ++i) {
      const std::vector<std::string>& f = rows[i].fields;
      if (f.size() < std::size(kFixed)) refuse(rows[i].line, counted(static_cast<int64_t>(f.size()), "column"));
      Found one{.name = {.type = f[0], .op = f[1], .time = f[4], .side = f[5], .slot = f[6]},
                .file = {},
                .type = f[8],
                .shape = {},
                .known = {}};
      std::replace(one.name.op.begin(), one.name.op.end(), '/', '_');
      if (has_file.contains(key(one.name))) continue;
      for (const std::string& size : split(f[9], ',')) {
        std::string digits;
        for (const char c : size)
          if (c != '(' && c != ')' && c != ' ') digits += c;
        if (digits.empty()) continue;
        if (!is_number(digits)) refuse(rows[i].line, fmt::format("'{}' is no shape", printable(f[9])));
        one.shape.push_back(std::stoll(digits));
      }
      for (size_t c = std::size(kFixed); c < std::min(f.size(), titles.size()); ++c) {
        char* end = nullptr;
        const double x = std::strtod(f[c].c_str(), &end);
        const std::optional<double> number = !f[c].empty() && *end == 0 ? std::optional(x) : std::nullopt;
        if (titles[c] == "Max Value") one.known.max = number;
        if (titles[c] == "Min Value") one.known.min = number;
        if (titles[c] == "Avg Value") one.known.mean = number;
        if (titles[c] == "L2Norm Value") one.known.l2 = number;
        if (titles[c] == "MD5" || titles[c] == "SHA1") one.known.digest = f[c];
      }
      all.push_back(std::move(one));
    }
  }

  static Phase phase_of(const std::string& op) {
    if (op.find("optimizer-") != std::string::npos) return Phase::update;
    return op.starts_with("Gradients") || op.find("_Grad_") != std::string::npos || op.starts_with("Expand") ? Phase::backward
                                                                                                             : Phase::forward;
  }

  void add(const Found& f, bool own_names, RankDump& to) {
    DumpRecord r{.step = step_, .micro = 1, .phase = phase_of(f.name.op), .path = f.name.op, .op = f.name.type};
    r.tensor = f.name.side + "." + f.name.slot, r.output = f.name.side == "output";
    if (f.name.type == kParameter) {
      r.phase = Phase::update, r.op = kStateOp, r.tensor = "weights", r.output = true;
      std::string of = f.name.op;
      for (const auto& [prefix, tensor] : {std::pair{"adam_m_", "m"}, {"adam_v_", "v"}, {"moment1_", "m"}, {"moment2_", "v"}})
        if (of.starts_with(prefix)) of = of.substr(std::string(prefix).size()), r.tensor = tensor;
      if (const std::string ours = our_parameter(of); !ours.empty())
        r.path = ours;
      else if (!own_names)
        return count(f);
    } else if (!own_names) {
      return count(f);
    }
    if (!f.file.empty()) {
      const ForeignTensor t = files_.read(f.file);
      r.dtype = t.dtype, r.shape = t.shape, r.figures = t.figures, r.parts = {t.stored};
    } else {
      const auto dtype = foreign_dtype(f.type);
      if (!dtype) return count(f);
      r.dtype = *dtype, r.shape = foreign_shape(f.shape, folder_);
      r.figures = rough_figures(r.shape.count(), f.known);
    }
    r.n = seen_[r.key()]++;
    to.records.push_back(std::move(r));
  }
  void count(const Found& f) {
    if (others_++ == 0) first_other_ = f.name.type + " " + f.name.op;
  }

  std::string folder_;
  StoredTensors files_;
  std::unordered_map<std::string, int64_t> seen_;  // number of tensors with a name in the iteration
  int64_t step_ = 0, others_ = 0;
  int rank_ = -1;
  std::string first_other_;
};

}  // namespace

bool is_mindspore_dump(const std::string& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && !iterations_of(folder).empty();
}

Dump read_mindspore_names(const std::string& folder) { return MindSporeReader(folder).read(true); }
Dump read_mindspore_parameters(const std::string& folder) { return MindSporeReader(folder).read(false); }

}  // namespace ravine
