#include "styles/mindformers_monitor.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/convert/mindformers.h"
#include "io/convert/weights.h"

namespace ravine {
namespace {

bool has_word(const std::vector<std::string>& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

MindFormersMonitor::MindFormersMonitor(const LogOptions& log) {
  if (log.monitor_target.empty()) return;
  try {
    target_ = std::regex(log.monitor_target);
  } catch (const std::regex_error& e) {
    throw UserError(fmt::format("'{}' is no regular expression: {}", log.monitor_target, e.what()), "log.monitor_target",
                    "it names parameters by a regular expression", "correct it");
  }
}

void MindFormersMonitor::each(RunView& run, const StepReport& r, const std::vector<std::string>& asked, bool events,
                              const Say& print_stderr) const {
  const Config& c = run.config();
  if (asked.empty() || r.step % c.log.monitor_every != 0) return;
  double squares = 0;
  for (const LocalNorm& n : in_mindformers_order(r.local_norms, run.model_config())) {
    double own = 0;
    for (size_t i = 0; i < n.ranks.size(); ++i)
      if (n.ranks[i] == 0) own = n.squares[i];
    squares += own;
    if (has_word(asked, "local_norm") && fits(n.parameter)) print_stderr("local_norm/" + n.parameter, std::sqrt(own));
  }
  if (has_word(asked, "device_local_norm")) print_stderr("device_local_norm", std::sqrt(squares));
  if (has_word(asked, "local_loss")) print_stderr(events ? "local_loss" : "micro_local_loss", r.loss);
  if (has_word(asked, "device_local_loss")) print_stderr("device_accum_local_loss", r.loss);
  if (!r.state_squares.empty()) states(run, r, asked, print_stderr);
  if (has_word(asked, "throughput") && c.log.baseline > 0)
    print_stderr("throughput_linearity",
                 static_cast<double>(c.train.global_batch) / r.ranks / std::max(1e-9, r.step_time) / c.log.baseline);
}

void MindFormersMonitor::states(RunView& run, const StepReport& r, const std::vector<std::string>& asked,
                                const Say& print_stderr) const {
  double weights = 0;
  std::vector<LocalNorm> norms[2];
  for (const auto& [name, squares] : r.state_squares) {
    const size_t slash = name.find('/');
    const std::string kind = name.substr(0, slash);
    if (kind == "weights") weights += squares;
    if (kind == "m" || kind == "v")
      norms[kind == "v"].push_back({.parameter = name.substr(slash + 1), .ranks = {0}, .squares = {squares}, .counts = {0}});
  }
  if (has_word(asked, "optimizer_state"))
    for (const int v : {0, 1})
      for (const LocalNorm& n : in_mindformers_order(norms[v], run.model_config()))
        if (fits(n.parameter))
          print_stderr(fmt::format("adam_{}_norm/{}", v ? 'v' : 'm', n.parameter), std::sqrt(n.squares[0]));
  if (has_word(asked, "weight_state")) print_stderr("weight_norm", std::sqrt(weights));
}

namespace {

// Returns the position of a parameter in the order of MindFormers: its layer and its index in the layer. Embeddings
// come first. In a layer the norms come first.
std::pair<int64_t, int> model_order(const std::string& name) {
  static const char* const kInLayer[] = {"ffn_norm",     "attention_norm",  "attention.wq",    "attention.wk",   "attention.wv",
                                         "attention.wo", "feed_forward.w1", "feed_forward.w2", "feed_forward.w3"};
  static const std::regex layer(R"((?:model|decoder)\.layers\.(\d+)\.(.*))");
  std::smatch m;
  if (!std::regex_match(name, m, layer))
    return {name.find("embedding") != std::string::npos ? -1 : INT32_MAX, name.find("norm") == std::string::npos};
  const std::string rest = m[2];
  int rank_of = 0;
  for (const char* known : kInLayer) {
    if (rest.starts_with(known)) break;
    ++rank_of;
  }
  return {std::stoll(m[1]), rank_of};
}

}  // namespace

std::vector<LocalNorm> in_mindformers_order(std::vector<LocalNorm> norms, const Json& model) {
  if (norms.empty()) return norms;
  const Geometry g = geometry_of(model, "model");
  for (LocalNorm& n : norms)
    if (std::string theirs = mindformers_name(n.parameter, g); !theirs.empty()) n.parameter = std::move(theirs);
  std::stable_sort(norms.begin(), norms.end(), [](const LocalNorm& a, const LocalNorm& b) {
    const auto decays = [](const LocalNorm& n) {
      return n.parameter.find("norm") == std::string::npos && !n.parameter.ends_with(".bias");
    };
    if (decays(a) != decays(b)) return decays(a);
    return model_order(a.parameter) < model_order(b.parameter);
  });
  return norms;
}

}  // namespace ravine
