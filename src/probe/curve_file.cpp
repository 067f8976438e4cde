#include "probe/curve_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/missing_path.h"
#include "base/python_json.h"
#include "data/records/open_records.h"
#include "files/compressed.h"
#include "files/tensorboard_reader.h"
#include "io/run_files.h"
#include "probe/run_metrics.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostState = int64_t{64} << 20;  // bytes of a trainer_state.json

// Names of the loss and of the gradient norm, in the order of the search: Ravine, Transformers, Megatron, MindFormers,
// DeepSpeed, and a curve that TensorBoard has exported.
const std::vector<std::string> kStepNames = {"step", "Step", "iteration", "iter", "global_step", "steps"};
const std::vector<std::string> kLossNames = {"loss",          "train/loss", "lm loss", "lm-loss-training/lm loss", "train_loss",
                                             "training loss", "lm_loss",    "Loss",    "Train/Samples/train_loss", "Value"};
const std::vector<std::string> kNormNames = {"grad_norm",           "train/grad_norm", "grad-norm",
                                             "grad-norm/grad-norm", "global_norm",     "global-norm",
                                             "global_grad_norm",    "grad norm",       "norm"};

const std::vector<std::string> kRateNames = {"lr",
                                             "learning_rate",
                                             "train/lr",
                                             "train/learning_rate",
                                             "learning-rate",
                                             "learning-rate/learning-rate",
                                             "Train/Samples/lr",
                                             "learning rate"};

// Megatron prints and writes the rate after its scheduler's step: the rate of the next iteration.
constexpr int64_t kMegatronRateAhead = 1;

struct Printed {
  double value = std::nan("");
  double half_unit = 0;  // half a unit of the last digit
};

// Reads the number after `key` in a line, skipping blanks, colons and brackets. Returns false if there is no key or no
// number.
bool printed_number(std::string_view line, std::string_view key, Printed& out) {
  size_t at = line.find(key);
  if (at == std::string_view::npos) return false;
  at += key.size();
  while (at < line.size() && std::string_view(" :=[").find(line[at]) != std::string_view::npos) ++at;
  const char* begin = line.data() + at;
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(begin, end, out.value);
  if (error == std::errc::invalid_argument) return false;
  const std::string_view text(begin, static_cast<size_t>(stop - begin));
  const size_t e = text.find_first_of("eE"), point = text.find('.');
  const std::string_view mantissa = text.substr(0, e);
  const auto decimals = point == std::string_view::npos ? 0 : static_cast<int64_t>(mantissa.size() - point - 1);
  int exponent = 0;
  if (e != std::string_view::npos) {
    const std::string_view digits = text.substr(e + 1 + (e + 1 < text.size() && text[e + 1] == '+' ? 1 : 0));
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  }
  out.half_unit = !std::isfinite(out.value) ? 0 : 0.5 * std::pow(10.0, exponent - static_cast<double>(decimals));
  return true;
}

struct StepOfLog {
  int64_t step = 0;
  Printed loss, norm, rate;
  bool with_norm = false, with_rate = false;
};

// " iteration   10/  100 | .. | lm loss: 1.0E+00 | .. | grad norm: 1.234 | .."
bool megatron_line(std::string_view line, StepOfLog& s) {
  Printed step;
  if (line.find("lm loss:") == std::string_view::npos || line.find("validation") != std::string_view::npos ||
      !printed_number(line, "iteration", step) || !printed_number(line, "lm loss:", s.loss))
    return false;
  s.step = static_cast<int64_t>(step.value);
  s.with_norm = printed_number(line, "grad norm:", s.norm);
  s.with_rate = printed_number(line, "learning rate:", s.rate);
  return true;
}

// "{ Epoch:[  1/  2], step:[   10/  100], loss: 1.234, .., global_norm: [1.5], .."; the loss may be "loss:[now/mean]".
bool mindformers_line(std::string_view line, StepOfLog& s) {
  Printed epoch, step, steps;
  const size_t at = line.find("step:[");
  if (line.find("Epoch:[") == std::string_view::npos || at == std::string_view::npos ||
      !printed_number(line, "Epoch:[", epoch) || !printed_number(line, "step:[", step) ||
      !printed_number(line, "loss:", s.loss))
    return false;
  if (line.find("per_step_time") == std::string_view::npos) return false;  // other lines have epoch and step, too
  if (!printed_number(line.substr(at), "/", steps)) return false;
  s.step = static_cast<int64_t>((epoch.value - 1) * steps.value + step.value);
  s.with_norm = printed_number(line, "global_norm:", s.norm);
  s.with_rate = printed_number(line, " lr:", s.rate);
  return true;
}

const std::string* first_of(const std::vector<std::string>& names, const std::vector<std::string>& there) {
  for (const std::string& name : names)
    for (const std::string& t : there)
      if (t == name) return &t;
  return nullptr;
}

[[noreturn]] void refuse_empty(const std::string& path, const std::string& kind) {
  throw UserError("no step with a loss", path, fmt::format("a {} has a loss for each logged step", kind),
                  "name a file that a training run has written, or a .csv with columns step and loss");
}

double number_of(const Json& v) {
  if (v.is_number()) return v.get<double>();
  if (!v.is_string()) return std::nan("");
  const auto& text = v.get_ref<const std::string&>();
  double x = std::nan("");
  std::from_chars(text.data(), text.data() + text.size(), x);
  return x;
}

// True if the file ends within a line, as where its writer was ended.
bool ends_within_line(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  return in.tellg() > 0 && in.seekg(-1, std::ios::end) && in.peek() != '\n';
}

// The rows of a table, one by one: of a .jsonl as Python writes them.
class TableRows {
 public:
  explicit TableRows(const std::string& path)
      : path_(path), json_(fs::path(path).extension() == ".jsonl"), records_(open_records(path, {})) {}
  // False: there is none left. The last of a .jsonl does not count where it is cut.
  bool next(Json& row, std::string& where) {
    Record r;
    if (!records_->next(r)) return false;
    where = r.where();
    try {
      row = json_ ? parse_python_json(r.body, where) : r.json();
    } catch (const UserError&) {
      if (Record more; json_ && any_ && !records_->next(more) && ends_within_line(path_)) return false;
      throw;
    }
    if (!row.is_object())
      throw UserError("a line that is no object", where, "each line of a .jsonl is an object of JSON", "correct the line");
    return any_ = true;
  }

 private:
  std::string path_;
  bool json_, any_ = false;
  std::unique_ptr<RecordReader> records_;
};

void read_rows(const std::string& path, TrainingCurve& c) {
  TableRows rows(path);
  Json row;
  std::string where, step, loss, norm, rate;
  while (rows.next(row, where)) {
    if (step.empty()) {
      std::vector<std::string> keys;
      for (const auto& [key, value] : row.items()) keys.push_back(key);
      const std::string *s = first_of(kStepNames, keys), *l = first_of(kLossNames, keys), *n = first_of(kNormNames, keys),
                        *rates = first_of(kRateNames, keys);
      if (!s || !l)
        throw UserError(
            fmt::format("no column of {}", s ? "losses" : "steps"), where,
            fmt::format("it is called {}; here are {}", fmt::join(s ? kLossNames : kStepNames, ", "), fmt::join(keys, ", ")),
            "rename the column");
      step = *s, loss = *l, norm = n ? *n : "", rate = rates ? *rates : "";
    }
    if (!row.contains(step) || !row.contains(loss)) continue;  // another kind of row, such as a validation
    const double at = number_of(row[step]);
    if (!(std::abs(at) < 0x1p53))
      throw UserError("a step that is no number", where, fmt::format("column '{}' counts steps", step), "correct the row");
    if (row[loss].is_string() && row[loss].get_ref<const std::string&>().empty()) continue;
    const double norm_of_row = !norm.empty() && row.contains(norm) ? number_of(row[norm]) : 0;
    const double rate_of_row = !rate.empty() && row.contains(rate) ? number_of(row[rate]) : 0;
    c.add(static_cast<int64_t>(at), number_of(row[loss]), !norm.empty() && row.contains(norm) ? &norm_of_row : nullptr,
          !rate.empty() && row.contains(rate) ? &rate_of_row : nullptr);
  }
}

void read_run(const std::string& path, TrainingCurve& c) {
  const RunMetrics m = read_run_metrics(path);
  const std::vector<double> loss = m.column("loss"), norm = m.column("grad_norm"), rate = m.column("lr");
  const bool with_norm = m.value.contains("grad_norm");
  for (size_t i = 0; i < m.step.size(); ++i) {
    c.add(static_cast<int64_t>(m.step[i]), loss[i], with_norm ? &norm[i] : nullptr, std::isnan(rate[i]) ? nullptr : &rate[i]);
  }
  const fs::path config = (fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path()) / "config.yaml";
  if (std::error_code error; fs::is_regular_file(config, error)) {
    const Config options = read_run_config(config.string());
    if (options.precision.compute) c.compute = name(*options.precision.compute);
  }
}

void read_tensorboard(const std::vector<std::string>& files, const std::string& path, TrainingCurve& c) {
  const EventData events = read_events(files);
  std::vector<std::string> tags;
  for (const auto& [tag, values] : events.scalars) tags.push_back(tag);
  const std::string *loss = first_of(kLossNames, tags), *norm = first_of(kNormNames, tags), *rate = first_of(kRateNames, tags);
  if (!loss)
    throw UserError("no scalar of the loss", path,
                    fmt::format("it is called {}; here are {}", fmt::join(kLossNames, ", "),
                                tags.empty() ? "none" : fmt::format("{}", fmt::join(tags, ", "))),
                    "export the curve as CSV with columns step and loss");
  for (const auto& [step, value] : events.scalars.at(*loss)) {
    c.add(step, value);
    c.loss_resolution = std::max(c.loss_resolution, std::abs(value) * 0x1p-25);
  }
  if (norm)
    for (const auto& [step, value] : events.scalars.at(*norm)) {
      if (c.norm.contains(step)) c.norm.erase(c.norm.lower_bound(step), c.norm.end());
      c.norm[step] = value;
    }
  if (rate)
    for (const auto& [step, value] : events.scalars.at(*rate))
      c.rate[step + (rate->starts_with("learning-rate") ? kMegatronRateAhead : 0)] = value;
}

void read_trainer_state(const std::string& file, TrainingCurve& c) {
  const Json state = read_python_json(file, kMostState);
  for (const Json& row : array_field(state, "log_history", file))
    if (row.is_object() && row.contains("step") && row["step"].is_number() && row.contains("loss")) {
      const auto step = static_cast<int64_t>(row["step"].get<double>());
      const double norm = row.contains("grad_norm") ? number_of(row["grad_norm"]) : 0;
      const double rate = row.contains("learning_rate") ? number_of(row["learning_rate"]) : 0;
      c.add(step, number_of(row["loss"]), row.contains("grad_norm") ? &norm : nullptr,
            row.contains("learning_rate") ? &rate : nullptr);
      c.loss_resolution = 0.5e-4;  // the Trainer rounds losses to four decimals
    }
}

void read_log(const std::string& path, TrainingCurve& c) {
  LineReader lines(path, int64_t{1} << 20);
  while (const auto line = lines.next()) {
    StepOfLog s;
    const bool megatron = megatron_line(*line, s);
    if (!megatron && !mindformers_line(*line, s)) continue;
    c.kind = megatron ? "log of Megatron" : "log of MindFormers";
    c.add(s.step, s.loss.value, s.with_norm ? &s.norm.value : nullptr);
    if (s.with_rate) c.rate[s.step + (megatron ? kMegatronRateAhead : 0)] = s.rate.value;
    if (s.with_norm) c.norm_resolution = std::max(c.norm_resolution, s.norm.half_unit);
    if (s.with_rate && s.rate.value > 0) c.rate_resolution = std::max(c.rate_resolution, s.rate.half_unit / s.rate.value);
    c.loss_resolution = std::max(c.loss_resolution, s.loss.half_unit);
  }
}

}  // namespace

void TrainingCurve::add(int64_t step, double loss_of_step, const double* norm_of_step, const double* rate_of_step) {
  if (loss.contains(step) && loss.rbegin()->first > step) {
    goes_back.push_back(step);
    loss.erase(loss.lower_bound(step), loss.end());
    norm.erase(norm.lower_bound(step), norm.end());
    rate.erase(rate.lower_bound(step), rate.end());
  }
  loss[step] = loss_of_step;
  if (norm_of_step) norm[step] = *norm_of_step;
  if (rate_of_step) rate[step] = *rate_of_step;
}

TrainingCurve read_training_curve(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw UserError("no such file or folder", path, "it must exist", missing_path_advice(path));
  TrainingCurve c;
  const fs::path p = fs::path(path).lexically_normal();
  c.name = (p.has_filename() ? p.filename() : p.parent_path().filename()).string();
  const bool folder = fs::is_directory(path, error);
  const std::vector<std::string> events = folder ? event_files(path) : std::vector<std::string>();
  if (folder && fs::is_regular_file(p / "metrics.jsonl", error)) {
    c.kind = "run of Ravine";
    read_run(path, c);
  } else if (folder && fs::is_regular_file(p / "trainer_state.json", error)) {
    c.kind = "state of Transformers' Trainer";
    read_trainer_state((p / "trainer_state.json").string(), c);
  } else if (!events.empty()) {
    c.kind = "folder of TensorBoard";
    read_tensorboard(events, path, c);
  } else if (folder) {
    throw UserError("a folder without curves", path, "it holds metrics.jsonl, trainer_state.json or files of TensorBoard",
                    "name the folder of a run, a .csv with columns step and loss, or a log of Megatron or MindFormers");
  } else if (!fs::is_regular_file(path, error)) {  // opening a pipe would wait for a writer
    throw UserError("no regular file", path, "curves are read from files and folders", "write it to a file first");
  } else if (p.filename() == "metrics.jsonl") {
    c.kind = "run of Ravine";
    c.name = fs::absolute(p).parent_path().filename().string();
    read_run(path, c);
  } else if (p.filename() == "trainer_state.json") {
    c.kind = "state of Transformers' Trainer";
    read_trainer_state(path, c);
  } else if (is_event_file(path)) {
    c.kind = "file of TensorBoard";
    read_tensorboard({path}, path, c);
  } else if (p.extension() == ".csv" || p.extension() == ".jsonl") {
    c.kind = "table";
    read_rows(path, c);
  } else {
    c.kind = "log of Megatron or MindFormers";
    read_log(path, c);
  }
  if (c.loss.empty()) refuse_empty(path, c.kind);
  return c;
}

}  // namespace ravine
