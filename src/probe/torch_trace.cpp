#include "probe/torch_trace.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include "base/error.h"
#include "files/safetensors.h"

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
      throw UserError("no steps in it", folder_ + "/" + kTraceMark, "a trace of tools/trace_torch.py names its steps",
                      "run the script to the end of a step");
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("step_") || !name.ends_with(".safetensors")) continue;
      const std::string digits = name.substr(5, name.size() - 17);
      if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) continue;
      const int64_t step = std::stoll(digits);  // a step that the manifest names, or the state before one
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
      find_names();
      for (int64_t micro = 1; micro <= micros_; ++micro) {
        micro_ = micro;
        forward();
      }
      for (int64_t micro = 1; micro <= micros_; ++micro) {
        micro_ = micro;
        backward();
      }
      update();
    }
    Dump out{.folder = folder_, .of_modules = true, .ranks = {}};
    out.ranks.push_back(std::move(rank_));
    return out;
  }

 private:
  enum class Join : uint8_t { columns, rows };
  using Parts = std::vector<StoredPart>;

  // Of the step under way: micro batches and layers.
  void find_names() {
    micros_ = 0, layers_ = 0;
    for (const TensorInfo& t : files_.at(step_).reader->tensors()) {
      if (!t.name.starts_with("forward/")) continue;
      micros_ = std::max<int64_t>(micros_, std::atoll(t.name.c_str() + 8));
      const size_t at = t.name.find("model.layers.");
      if (at != std::string::npos) layers_ = std::max<int64_t>(layers_, std::atoll(t.name.c_str() + at + 13) + 1);
    }
  }

  StoredPart in_step(int64_t step, const std::string& name) const {
    const auto it = files_.find(step);
    if (it == files_.end()) return {};
    for (const char* prefix : {"", "base_model.model.", "module."}) {
      const size_t slash = name.find('/', name.find('/') + 1);
      const std::string full = name.starts_with("forward/") || name.starts_with("backward/")
                                   ? name.substr(0, slash + 1) + prefix + name.substr(slash + 1)
                                   : name.substr(0, name.find('/') + 1) + prefix + name.substr(name.find('/') + 1);
      if (it->second.reader->find(full)) return {it->second.name, full};
    }
    return {};
  }
  StoredPart value(const std::string& module, const char* side) const {
    return in_step(step_, fmt::format("forward/{}/{}/{}", micro_, module, side));
  }
  StoredPart slope(const std::string& module, const char* side) const {
    return in_step(step_, fmt::format("backward/{}/{}/{}", micro_, module, side));
  }
  StoredPart weight(const std::string& name) const { return in_step(step_ - 1, "state/" + name + "/weights"); }

  // The call that follows add() belongs to.
  void call(Phase phase, const std::string& path, const char* op, int64_t n = 0) {
    at_ = {.step = step_, .micro = micro_, .phase = phase, .path = path, .op = op, .n = n};
  }
  // Left out where a part is not there.
  void add(const char* tensor, bool output, const Parts& parts, Join join = Join::columns,
           std::vector<std::string> parameters = {}) {
    for (const StoredPart& p : parts)
      if (p.stored.empty()) return;
    DumpRecord r = at_;
    r.tensor = tensor, r.output = output, r.parts = parts, r.parameters = std::move(parameters);
    r.join_rows = join == Join::rows;
    const TensorInfo& first = info(parts.front());
    int64_t count = 0, columns = 0;
    for (const StoredPart& p : parts) {
      count += info(p).shape.count(), columns += info(p).shape.rank() ? info(p).shape[-1] : 1;
      if (info(p).dtype != first.dtype) return;
    }
    r.dtype = first.dtype;
    if (parts.size() == 1)
      columns = first.shape.rank() ? first.shape[-1] : 1;
    else if (r.join_rows)
      columns = first.shape[-1];
    const bool flat = parts.size() == 1 && first.shape.rank() <= 1;
    r.shape = flat ? first.shape : Shape{columns ? count / columns : 0, columns};
    const std::vector<std::byte> bytes = joined_parts(r, [&](const StoredPart& p) { return stored(p); });
    r.figures = figures_of(view_of(const_cast<std::byte*>(bytes.data()), r.dtype, r.shape), true);
    rank_.records.push_back(std::move(r));
  }
  void read(const char* tensor, const Parts& parts, Join join = Join::columns, std::vector<std::string> parameters = {}) {
    add(tensor, false, parts, join, std::move(parameters));
  }
  void wrote(const char* tensor, const Parts& parts) { add(tensor, true, parts); }

  const SafetensorsReader& file_of(const StoredPart& p) const {
    for (const auto& [step, file] : files_)
      if (file.name == p.file) return *file.reader;
    throw UserError("no such file", folder_ + "/" + p.file, "a trace holds one file for each step", "record it again");
  }
  const TensorInfo& info(const StoredPart& p) const { return file_of(p).tensor(p.stored); }
  std::span<const std::byte> stored(const StoredPart& p) const { return file_of(p).bytes(info(p)); }

  void norm(const std::string& path, const StoredPart& x, const StoredPart& branch) {
    call(Phase::forward, path, "rms_norm");
    read("x", {x}), read("branch", {branch}), read("weight", {weight(path + ".weight")}, Join::columns, {path + ".weight"});
    if (!branch.stored.empty()) wrote("sum", {value(path, "in.0")});
    wrote("out", {value(path, "out.0")});
  }
  void product(const std::string& path, const std::vector<std::string>& modules) {
    Parts weights, out;
    std::vector<std::string> names;
    for (const std::string& m : modules)
      weights.push_back(weight(m + ".weight")), out.push_back(value(m, "out.0")), names.push_back(m + ".weight");
    call(Phase::forward, path, "matmul");
    read("a", {value(modules.front(), "in.0")}), read("b", weights, Join::rows, names), wrote("out", out);
  }
  // dx = dy W: of modules side by side what reaches the tensor that all of them read.
  void product_backward(const std::string& path, const std::vector<std::string>& modules, const StoredPart& dx) {
    Parts weights, dy;
    std::vector<std::string> names;
    for (const std::string& m : modules)
      weights.push_back(weight(m + ".weight")), dy.push_back(slope(m, "out.0")), names.push_back(m + ".weight");
    call(Phase::backward, path, "matmul");
    read("a", dy), read("b", weights, Join::rows, names), wrote("out", {dx});
  }
  static std::string layer(int64_t i) { return fmt::format("model.layers.{}", i); }

  void forward() {
    const std::string embedding = "model.embed_tokens";
    call(Phase::forward, embedding, "embedding");
    read("ids", {value(embedding, "in.0")});
    read("weight", {weight(embedding + ".weight")}, Join::columns, {embedding + ".weight"});
    wrote("out", {value(embedding, "out.0")});
    StoredPart residual = value(embedding, "out.0"), branch;
    for (int64_t i = 0; i < layers_; ++i) {
      const std::string l = layer(i), attention = l + ".self_attn", mlp = l + ".mlp";
      norm(l + ".input_layernorm", residual, branch);
      residual = value(l + ".input_layernorm", "in.0");
      product(attention + ".q_proj+k_proj+v_proj", {attention + ".q_proj", attention + ".k_proj", attention + ".v_proj"});
      const std::string inner = attention + ".attention";
      for (int64_t n = 0; n < 2; ++n) {
        call(Phase::forward, attention, "rope", n);
        read("x", {value(attention + (n ? ".k_proj" : ".q_proj"), "out.0")}), wrote("x", {value(inner, n ? "k" : "q")});
      }
      call(Phase::forward, attention, "attention");
      read("q", {value(inner, "q")}), read("k", {value(inner, "k")}), read("v", {value(inner, "v")});
      wrote("out", {value(attention + ".o_proj", "in.0")});
      product(attention + ".o_proj", {attention + ".o_proj"});
      norm(l + ".post_attention_layernorm", residual, value(attention + ".o_proj", "out.0"));
      residual = value(l + ".post_attention_layernorm", "in.0");
      product(mlp + ".gate_proj+up_proj", {mlp + ".gate_proj", mlp + ".up_proj"});
      call(Phase::forward, mlp, "swiglu");
      read("gate", {value(mlp + ".gate_proj", "out.0")}), read("up", {value(mlp + ".up_proj", "out.0")});
      wrote("out", {value(mlp + ".down_proj", "in.0")});
      product(mlp + ".down_proj", {mlp + ".down_proj"});
      branch = value(mlp, "out.0");
    }
    norm("model.norm", residual, branch);
  }

  void norm_backward(const std::string& path, const StoredPart& dsum) {
    call(Phase::backward, path, "rms_norm_backward");
    read("dout", {slope(path, "out.0")}), read("x", {value(path, "in.0")});
    read("weight", {weight(path + ".weight")}, Join::columns, {path + ".weight"}), read("dsum", {dsum});
    wrote("dx", {slope(path, "in.0")});
  }

  void backward() {
    call(Phase::backward, "lm_head", "loss_head");
    read("x", {value("model.norm", "out.0")}), read("weight", {weight("lm_head.weight")}, Join::columns, {"lm_head.weight"});
    wrote("dx", {slope("model.norm", "out.0")});
    norm_backward("model.norm", {});
    StoredPart dsum = slope("model.norm", "in.0");
    for (int64_t i = layers_; i-- > 0;) {
      const std::string l = layer(i), attention = l + ".self_attn", mlp = l + ".mlp", inner = attention + ".attention";
      product_backward(mlp + ".down_proj", {mlp + ".down_proj"}, slope(mlp + ".down_proj", "in.0"));
      call(Phase::backward, mlp, "swiglu_backward");
      read("gate", {value(mlp + ".gate_proj", "out.0")}), read("up", {value(mlp + ".up_proj", "out.0")});
      read("dout", {slope(mlp + ".down_proj", "in.0")});
      wrote("dgate", {slope(mlp + ".gate_proj", "out.0")}), wrote("dup", {slope(mlp + ".up_proj", "out.0")});
      product_backward(mlp + ".gate_proj+up_proj", {mlp + ".gate_proj", mlp + ".up_proj"},
                       slope(l + ".post_attention_layernorm", "out.0"));
      norm_backward(l + ".post_attention_layernorm", dsum);
      dsum = slope(l + ".post_attention_layernorm", "in.0");
      product_backward(attention + ".o_proj", {attention + ".o_proj"}, slope(attention + ".o_proj", "in.0"));
      call(Phase::backward, attention, "attention_backward");
      read("dout", {slope(attention + ".o_proj", "in.0")});
      read("q", {value(inner, "q")}), read("k", {value(inner, "k")}), read("v", {value(inner, "v")});
      read("out", {value(attention + ".o_proj", "in.0")});
      wrote("dq", {slope(inner, "q")}), wrote("dk", {slope(inner, "k")}), wrote("dv", {slope(inner, "v")});
      for (int64_t n = 0; n < 2; ++n) {  // keys first, as they go back
        call(Phase::backward, attention, "rope", n);
        read("x", {slope(inner, n ? "q" : "k")}), wrote("x", {slope(attention + (n ? ".q_proj" : ".k_proj"), "out.0")});
      }
      product_backward(attention + ".q_proj+k_proj+v_proj",
                       {attention + ".q_proj", attention + ".k_proj", attention + ".v_proj"},
                       slope(l + ".input_layernorm", "out.0"));
      norm_backward(l + ".input_layernorm", dsum);
      dsum = slope(l + ".input_layernorm", "in.0");
    }
    call(Phase::backward, "model.embed_tokens", "embedding_backward");
    read("ids", {value("model.embed_tokens", "in.0")}), read("dout", {slope("model.embed_tokens", "out.0")});
  }

  void update() {
    micro_ = 1;
    static constexpr std::pair<const char*, const char*> kStates[] = {
        {"weights", "weights"}, {"exp_avg", "m"}, {"exp_avg_sq", "v"}, {"momentum_buffer", "buffer"}, {"sum", "sum"}};
    const std::string number = std::to_string(step_);
    const Json& steps = manifest_["steps"];
    const Json said = steps.contains(number) ? steps[number] : Json::object();
    if (steps.contains(number) && (!said.contains("settings") || !said["settings"].is_object()))
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
      call(Phase::update, name, gradient ? kGradientOp : kStateOp);
      std::string tensor = gradient ? "grad" : t.name.substr(last + 1);
      for (const auto& [theirs, ours] : kStates)
        if (!gradient && tensor == theirs) tensor = ours;
      add(tensor.c_str(), true, {{files_.at(step_).name, t.name}});
      if (tensor == "weights" && said.contains("settings") && said["settings"].contains(full))
        for (const auto& [key, x] : said["settings"][full].items())
          if (x.is_number()) rank_.records.back().settings.emplace_back(key, x.get<double>());
    }
    if (!said.contains("losses")) return;
    DumpedStep& end = rank_.steps[step_];
    double sum = 0;
    for (const Json& l : said["losses"]) sum += l.is_number() ? l.get<double>() : 0;
    end.loss =
        said["losses"].empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(said["losses"].size());
    end.grad_norm = said.contains("grad_norm") && said["grad_norm"].is_number() ? said["grad_norm"].get<double>() : 0;
  }

  std::string folder_;
  Json manifest_;
  std::map<int64_t, StepFile> files_;
  RankDump rank_;
  DumpRecord at_;
  int64_t step_ = 0, micro_ = 1, micros_ = 0, layers_ = 0;
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

void tell_settings_of_parameters(RankDump& rank) {
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
