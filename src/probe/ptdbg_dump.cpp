#include "probe/ptdbg_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/read_text.h"
#include "base/text.h"
#include "files/read_head.h"
#include "probe/foreign_tensor.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char *kStackFile = "api_stack_dump.pkl", *kArrays = "api_stack_dump";
constexpr int64_t kMostLog = int64_t{256} << 20;

struct RankFile {
  int rank = 0;
  std::string inside;  // folder of the file in the dump
};

// Returns the folder of the dump, and its files.
std::pair<std::string, std::vector<RankFile>> stack_files(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error) && fs::path(path).filename().string().ends_with(".pkl") &&
      fs::path(path).filename() == kStackFile) {
    const std::string folder = fs::path(path).parent_path().string();
    return {folder.empty() ? "." : folder, {{}}};
  }
  std::vector<RankFile> out;
  if (fs::is_regular_file(path + "/" + kStackFile, error)) return {path, {{}}};
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("rank") || name.size() > 10 || name.find_first_not_of("0123456789", 4) != std::string::npos) continue;
    if (fs::is_regular_file(entry.path() / kStackFile, error))
      out.push_back({name.size() > 4 ? std::stoi(name.substr(4)) : 0, name + "/"});
  }
  return {path, out};
}

class PtdbgReader {
 public:
  explicit PtdbgReader(const std::string& folder) : folder_(folder), files_(folder) {}

  RankDump read(const RankFile& f) {
    RankDump out{.rank = f.rank};
    out.session = {{"rank", f.rank}, {"program", "PTDBG"}};
    inside_ = f.inside;
    const std::string path = folder_ + "/" + f.inside + kStackFile, text = read_text(path, kMostLog, "a dump of PTDBG");
    if (!text.empty() && text.front() != '[')
      throw UserError("a pickle", path,
                      "PTDBG writes text under this name, a JSON list per line; a real pickle is not executed",
                      "record the dump again, with PTDBG or msprobe");
    int64_t number = 0;
    for (const std::string& line : split(text, '\n')) {
      where_ = fmt::format("{}:{}", path, ++number);
      if (!line.empty()) add_line(parse_json(line, where_), out);
    }
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(what, where_, "a line is [name, step, checksum, type, shape, [max, min, mean], ..]",
                    "record the dump again");
  }

  // Splits "Functional_linear_0_forward_input.0" into call and tensor. Returns false for other names.
  static bool name_call(const std::string& name, DumpRecord& r) {
    for (const auto& [word, phase] : {std::pair{"_forward_", Phase::forward}, {"_backward_", Phase::backward}}) {
      const size_t at = name.rfind(word);
      if (at == std::string::npos) continue;
      std::string call = name.substr(0, at);
      const size_t number = call.rfind('_'), first = call.find('_');
      if (number == std::string::npos || number + 1 >= call.size() || first == number ||
          call.find_first_not_of("0123456789", number + 1) != std::string::npos)
        return false;
      call[first] = call[number] = '.';
      r.phase = phase, r.path = call, r.op = call.substr(0, number);
      r.tensor = name.substr(at + std::string(word).size());
      r.output = r.tensor.starts_with("output");
      if (r.tensor == "output" || r.tensor == "input") r.tensor += ".0";
      return r.output || r.tensor.starts_with("input");
    }
    return false;
  }

  void add_line(const Json& line, RankDump& to) {
    if (!line.is_array() || line.size() < 2 || !line[0].is_string()) refuse("no record");
    const std::string name = line[0].get<std::string>();
    if (name.find("stack_info") != std::string::npos) return;
    if (line.size() < 6 || !line[3].is_string() || !line[4].is_array()) refuse("no record");
    DumpRecord r{.step = 1, .micro = 1};
    const auto dtype = foreign_dtype(line[3].get<std::string>());
    if (!name_call(name, r) || !dtype) return;
    if (line[1].is_number_integer() && line[1].get<int64_t>() > 0) r.step = line[1].get<int64_t>();
    std::vector<int64_t> sizes;
    for (const Json& s : line[4]) {
      if (!s.is_number_integer()) refuse("no shape");
      sizes.push_back(s.get<int64_t>());
    }
    r.dtype = *dtype, r.shape = foreign_shape(sizes, where_);
    const std::string file = fmt::format("{}{}/{}.npy", inside_, kArrays, name_inside(name, where_));
    std::error_code error;
    if (fs::is_regular_file(folder_ + "/" + file, error)) {
      const ForeignTensor t = files_.read(file, r.shape);
      r.dtype = t.dtype, r.shape = t.shape, r.figures = t.figures, r.parts = {t.stored};
    } else {
      KnownFigures known;
      if (line[5].is_array() && line[5].size() >= 3) {
        auto number = [&](size_t i) { return line[5][i].is_number() ? std::optional(line[5][i].get<double>()) : std::nullopt; };
        known.max = number(0), known.min = number(1), known.mean = number(2);
        if (line[5].size() > 3) known.l2 = number(3);
        if (line.size() > 7 && line[7].is_number()) known.l2 = line[7].get<double>();
      }
      if (line[2].is_string()) known.digest = line[2].get<std::string>();
      r.figures = rough_figures(r.shape.count(), known);
    }
    to.records.push_back(std::move(r));
  }

  std::string folder_, inside_, where_;
  StoredTensors files_;
};

}  // namespace

bool is_ptdbg_dump(const std::string& path) { return !stack_files(path).second.empty(); }

Dump read_ptdbg_dump(const std::string& path) {
  const auto [folder, files] = stack_files(path);
  Dump out{.folder = folder, .of_modules = true, .own_names = true, .aside = {}, .ranks = {}};
  PtdbgReader reader(folder);
  for (const RankFile& f : files) out.ranks.push_back(reader.read(f));
  std::sort(out.ranks.begin(), out.ranks.end(), [](const RankDump& a, const RankDump& b) { return a.rank < b.rank; });
  return out;
}

}  // namespace ravine
