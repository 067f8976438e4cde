// Reads .parquet and .arrow by the library of parquet_plugin.h.
#include <dlfcn.h>

#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "data/records/parquet_plugin.h"
#include "data/records/readers.h"

namespace ravine {

namespace fs = std::filesystem;

namespace {

// Returns the library, from the folder of the program or the folders above it (for test programs). The library is
// loaded once and never unloaded.
const RavineParquet& load_library(const std::string& path) {
  static const auto* library = []() -> const RavineParquet* {
    std::error_code ec;
    fs::path folder = fs::read_symlink("/proc/self/exe", ec).parent_path();
    for (int up = 0; up < 4 && !folder.empty(); ++up, folder = folder.parent_path())
      for (const char* name : {"libravine_parquet.so", "lib/ravine/libravine_parquet.so"}) {
        if (!fs::exists(folder / name, ec)) continue;
        void* handle = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL);
        auto* entry = handle ? reinterpret_cast<decltype(&ravine_parquet)>(dlsym(handle, "ravine_parquet")) : nullptr;
        if (entry && entry()->version == kRavineParquetVersion) return entry();
      }
    return nullptr;
  }();
  if (!library)
    throw UserError(
        "parquet is not built in", path, "reading it needs Apache Arrow",
        "run scripts/build, which fetches the pyarrow wheel (python3 and pip must reach it), or convert the file to .jsonl");
  return *library;
}

class ParquetRecords final : public RecordReader {
 public:
  ParquetRecords(const std::string& path, const RecordOptions& o)
      : file_(std::make_shared<const std::string>(path)),
        library_(load_library(path)),
        max_(o.max_record),
        option_name_(o.option_name) {
    std::string fields;
    for (const std::string& f : o.fields) fields += f + "\n";
    if (!path.ends_with(".parquet") && !path.ends_with(".arrow")) {
      // A compressed file: Parquet is read from its end, so the whole file is needed.
      whole_ = read_whole(path, int64_t{8} << 30);
    } else if (std::error_code ec; !fs::is_regular_file(path, ec)) {
      throw UserError("cannot open file", path, "it must be a regular file", "check the path");
    }
    char error[512] = "";
    reader_ = library_.open(path.c_str(), whole_.empty() ? nullptr : whole_.data(), whole_.size(), fields.c_str(), error,
                            sizeof error);
    if (!reader_) refuse(error);
  }
  ~ParquetRecords() override {
    if (reader_) library_.close(reader_);
  }
  ParquetRecords(const ParquetRecords&) = delete;
  ParquetRecords& operator=(const ParquetRecords&) = delete;

  bool next(Record& record) override {
    const char* json = nullptr;
    size_t size = 0;
    char error[512] = "";
    const int result = library_.next(reader_, &json, &size, error, sizeof error);
    if (result < 0) refuse(error);
    if (result == 0) return false;
    if (static_cast<int64_t>(size) > max_)
      throw UserError("record is too long", fmt::format("{}:{}", *file_, row_ + 1), fmt::format("at most {} bytes", max_),
                      "split it");
    record.body.assign(json, size);
    record.plain = false;
    record.file = file_;
    record.number = ++row_;
    return true;
  }
  double done() const override { return library_.done(reader_); }

 private:
  [[noreturn]] void refuse(const char* why) const {
    constexpr std::string_view kOnly = "', only ";
    if (const std::string_view reason = why;
        reason.starts_with("it has no column") && reason.find(kOnly) != std::string_view::npos) {
      const std::vector<std::string> there = split(std::string(reason.substr(reason.find(kOnly) + kOnly.size())), ',');
      std::string first = there.empty() ? "" : there.back();
      first.erase(0, std::min(first.find_first_not_of(' '), first.size()));
      throw UserError("a column is missing", *file_, why, name_field(option_name_, first));
    }
    throw UserError(file_->ends_with(".arrow") ? "cannot read Arrow file" : "cannot read parquet file",
                    fmt::format("{}:{}", *file_, row_ + 1), why, "fetch or write the file again");
  }

  std::shared_ptr<const std::string> file_;
  const RavineParquet& library_;
  std::string whole_;
  void* reader_ = nullptr;
  int64_t max_, row_ = 0;
  std::string option_name_;
};

}  // namespace

std::unique_ptr<RecordReader> open_parquet_records(const std::string& path, const RecordOptions& options) {
  return std::make_unique<ParquetRecords>(path, options);
}

}  // namespace ravine
