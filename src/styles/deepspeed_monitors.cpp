#include "styles/deepspeed_monitors.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "files/appended_file.h"
#include "files/atomic.h"
#include "files/compressed.h"
#include "styles/event_files.h"

namespace ravine {
namespace {

constexpr const char *kLoss = "Train/Samples/train_loss", *kRate = "Train/Samples/lr", *kScale = "Train/Samples/loss_scale";
constexpr int64_t kCsvLine = 4096;

// The CSV file of one tag.
class CsvOfTag {
 public:
  // Creates the file. If `samples` > 0 (a resumed run), the rows of an existing file up to `samples` are kept.
  CsvOfTag(const std::string& folder, std::string tag, int64_t samples) {
    const std::string header = "step," + tag.substr(tag.rfind('/') + 1) + "\r\n";
    std::replace(tag.begin(), tag.end(), '/', '_');
    const std::string path = folder + "/" + tag + ".csv";
    std::string kept = header;
    std::error_code error;
    if (samples > 0 && std::filesystem::is_regular_file(path, error)) {
      LineReader lines(path, kCsvLine);
      while (const auto line = lines.next()) {
        int64_t at = -1;
        const auto read = std::from_chars(line->data(), line->data() + line->size(), at);
        if (read.ec == std::errc() && at <= samples) kept.append(trimmed(*line)) += "\r\n";
      }
    }
    write_file_atomic(path, kept);
    Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) throw_system("open file", path, errno);
    out_ = AppendedFile(std::move(fd), path);
  }
  void add(int64_t samples, double value) { out_.append(fmt::format("{},{}\r\n", samples, value)); }

 private:
  static std::string_view trimmed(std::string_view line) {
    return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
  }
  AppendedFile out_;
};

class DeepSpeedMonitors : public Hook {
 public:
  explicit DeepSpeedMonitors(TrainerOutputs outputs) : outputs_(std::move(outputs)) {}
  void start(RunView& run, int64_t done) override {
    const int64_t batch = run.config().train.global_batch;
    if (!outputs_.csv.empty()) {
      create_folders(outputs_.csv);
      csv_.emplace(kLoss, CsvOfTag(outputs_.csv, kLoss, done > 0 ? (done - 1) * batch : 0));
      csv_.emplace(kRate, CsvOfTag(outputs_.csv, kRate, done * batch));
      if (run.config().precision.compute == DType::f16) csv_.emplace(kScale, CsvOfTag(outputs_.csv, kScale, done * batch));
    }
    if (!outputs_.event_files.empty()) events_ = event_writer(outputs_.event_files, done * batch);
  }
  void after_step(RunView& run, StepReport& r) override {
    if (r.left_out) return;
    const int64_t batch = run.config().train.global_batch, behind = r.step * batch;
    try {
      if (r.has_loss()) write(kLoss, behind - batch, r.loss);
      write(kRate, behind, r.next_lr);
      if (r.loss_scale && run.config().precision.compute == DType::f16) write(kScale, behind, *r.loss_scale);
      if (events_) events_->flush();
    } catch (const Error& e) {
      run.log().warn("monitor of DeepSpeed: {}; the run goes on", e.what());
    }
  }

 private:
  void write(const char* tag, int64_t samples, double value) {
    if (const auto file = csv_.find(tag); file != csv_.end()) file->second.add(samples, value);
    if (events_) events_->scalar(tag, samples, value);
  }

  TrainerOutputs outputs_;
  std::map<std::string, CsvOfTag, std::less<>> csv_;
  std::unique_ptr<EventWriter> events_;
};

}  // namespace

std::unique_ptr<Hook> deepspeed_monitors_hook(const TrainerOutputs& outputs) {
  return std::make_unique<DeepSpeedMonitors>(outputs);
}

}  // namespace ravine
