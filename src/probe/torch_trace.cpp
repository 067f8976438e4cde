#include "probe/torch_trace.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include "base/error.h"
#include "files/safetensors.h"
#include "probe/module_calls.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char* kTraceMark = "trace.json";
constexpr int64_t kMostManifest = 64 << 20;

struct StepFile {
  std::string name;  // in the folder
  std::unique_ptr<SafetensorsReader> reader;
};

class TraceReader {
 public:
  explicit TraceReader(std::string folder) : folder_(std::move(folder)) {
    manifest_ = read_json(folder_ + "/" + kTraceMark, kMostManifest);
    const Json steps = manifest_.contains("steps") ? manifest_["steps"] : Json();
    if (!steps.is_object() || steps.empty())
      throw UserError("no steps in the file", folder_ + "/" + kTraceMark, "a trace of tools/trace_torch.py names its steps",
                      "run the script to the end of a step");
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("step_") || !name.ends_with(".safetensors")) continue;
      const std::string digits = name.substr(5, name.size() - 17);
      if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) continue;
      const int64_t step = std::stoll(digits);  // a step of the manifest, or the state before one
      if (!steps.contains(std::to_string(step)) && !steps.contains(std::to_string(step + 1))) continue;
      files_[step] = {name, std::make_unique<SafetensorsReader>(entry.path())};
    }
    if (files_.empty())
      throw UserError("no step_*.safetensors in it", folder_, "a trace holds one file for each step",
                      "record at least one step");
  }

  Dump read() {
    rank_.session = {{"rank", 0}, {"program", "PyTorch"}, {"model", manifest_.contains("model") ? manifest_["model"] : Json()}};
    for (const auto& [step, file] : files_) {
      step_ = step;
      add_calls();
      update();
    }
    Dump out{.folder = folder_, .of_modules = true, .ranks = {}};
    out.ranks.push_back(std::move(rank_));
    return out;
  }

 private:
  void add_calls() {
    ModuleTensors in{.step = step_};
    for (const TensorInfo& t : files_.at(step_).reader->tensors()) {
      if (!t.name.starts_with("forward/")) continue;
      in.micros = std::max<int64_t>(in.micros, std::atoll(t.name.c_str() + 8));
      in.layers = std::max(in.layers, layers_in(t.name));
    }
    in.find = [&](const std::string& name) {
      return name.starts_with("weights/") ? in_step(step_ - 1, "state/" + name.substr(8) + "/weights") : in_step(step_, name);
    };
    in.fetch = fetch();
    add_module_calls(in, rank_.records);
  }

  std::optional<ForeignTensor> in_step(int64_t step, const std::string& name) const {
    const auto it = files_.find(step);
    if (it == files_.end()) return {};
    for (const char* prefix : {"", "base_model.model.", "module."}) {
      const size_t slash = name.find('/', name.find('/') + 1);
      const std::string full = name.starts_with("forward/") || name.starts_with("backward/")
                                   ? name.substr(0, slash + 1) + prefix + name.substr(slash + 1)
                                   : name.substr(0, name.find('/') + 1) + prefix + name.substr(name.find('/') + 1);
      if (const TensorInfo* t = it->second.reader->find(full))
        return ForeignTensor{.dtype = t->dtype, .shape = t->shape, .figures = {}, .stored = {it->second.name, full}};
    }
    return {};
  }
  std::function<std::span<const std::byte>(const StoredPart&)> fetch() const {
    return [this](const StoredPart& p) {
      for (const auto& [step, file] : files_)
        if (file.name == p.file) return file.reader->bytes(file.reader->tensor(p.stored));
      throw UserError("no such file", folder_ + "/" + p.file, "a trace holds one file for each step", "record it again");
    };
  }

  void update() {
    static constexpr std::pair<const char*, const char*> kStates[] = {
        {"weights", "weights"}, {"exp_avg", "m"}, {"exp_avg_sq", "v"}, {"momentum_buffer", "buffer"}, {"sum", "sum"}};
    const std::string number = std::to_string(step_);
    const Json& steps = manifest_["steps"];
    const Json step_json = steps.contains(number) ? steps[number] : Json::object();
    if (steps.contains(number) && (!step_json.contains("settings") || !step_json["settings"].is_object()))
      throw UserError("no settings of step " + number, folder_ + "/" + kTraceMark, "they are a map of parameters to numbers",
                      "record the trace again");
    for (const TensorInfo& t : files_.at(step_).reader->tensors()) {
      const bool gradient = t.name.starts_with("gradient/");
      if (!gradient && !t.name.starts_with("state/")) continue;
      const size_t last = gradient ? t.name.size() : t.name.rfind('/');
      const std::string full = t.name.substr(t.name.find('/') + 1, last - t.name.find('/') - 1);
      std::string name = full;
      for (const std::string prefix : {"base_model.model.", "module."})
        if (name.starts_with(prefix)) name = name.substr(prefix.size());
      DumpRecord r{.step = step_, .micro = 1, .phase = Phase::update, .path = name, .op = gradient ? kGradientOp : kStateOp};
      r.tensor = gradient ? "grad" : t.name.substr(last + 1), r.output = true;
      for (const auto& [theirs, ours] : kStates)
        if (!gradient && r.tensor == theirs) r.tensor = ours;
      const ForeignTensor all{.dtype = t.dtype, .shape = t.shape, .figures = {}, .stored = {files_.at(step_).name, t.name}};
      rank_.records.push_back(*record_of_parts(std::move(r), {all}, false, fetch()));
      if (rank_.records.back().tensor == "weights" && step_json.contains("settings") && step_json["settings"].contains(full))
        for (const auto& [key, x] : step_json["settings"][full].items())
          if (x.is_number()) rank_.records.back().settings.emplace_back(key, x.get<double>());
    }
    if (!step_json.contains("losses")) return;
    DumpedStep& end = rank_.steps[step_];
    double sum = 0;
    for (const Json& l : step_json["losses"]) sum += l.is_number() ? l.get<double>() : 0;
    end.loss = step_json["losses"].empty() ? std::numeric_limits<double>::quiet_NaN()
                                           : sum / static_cast<double>(step_json["losses"].size());
    end.grad_norm =
        step_json.contains("grad_norm") && step_json["grad_norm"].is_number() ? step_json["grad_norm"].get<double>() : 0;
  }

  std::string folder_;
  Json manifest_;
  std::map<int64_t, StepFile> files_;
  RankDump rank_;
  int64_t step_ = 0;
};

}  // namespace

bool is_torch_trace(const std::string& folder) {
  std::error_code error;
  const std::string mark = folder + "/" + kTraceMark;
  if (!fs::is_regular_file(mark, error)) return false;
  try {
    const Json j = read_json(mark, kMostManifest);
    return j.is_object() && j.contains("trace") && j["trace"] == "torch";
  } catch (const UserError&) {
    return false;
  }
}

Dump read_torch_trace(const std::string& folder) { return TraceReader(folder).read(); }

void fill_parameter_settings(RankDump& rank) {
  std::map<std::pair<int64_t, std::string>, std::vector<std::pair<std::string, double>>> of;
  std::map<std::string, double> rates;  // by call
  for (const DumpRecord& r : rank.records)
    if (r.phase == Phase::update && r.tensor == "scalars" && !r.values.empty()) rates[r.call()] = r.values[0];
  for (const DumpRecord& r : rank.records) {
    if (r.phase != Phase::update || !r.output || r.settings.empty() || r.tensor != "param") continue;
    for (const std::string& p : r.parameters) {
      auto& settings = of[{r.step, p}] = r.settings;
      if (const auto rate = rates.find(r.call()); rate != rates.end()) settings.emplace_back("lr", rate->second);
    }
  }
  for (DumpRecord& r : rank.records)
    if (r.op == kStateOp && r.tensor == "weights")
      if (const auto it = of.find({r.step, r.path}); it != of.end()) r.settings = it->second;
}

}  // namespace ravine
