#include "eval/samples.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "files/compressed.h"

namespace ravine {

std::string samples_path(const std::string& folder, const std::string& task) {
  return (std::filesystem::path(folder) / ("samples_" + task + ".jsonl")).string();
}

std::vector<Json> read_samples(const std::string& path, int64_t* whole_bytes) {
  std::vector<Json> lines;
  LineReader reader(path);
  while (const auto line = reader.next()) {
    if (reader.cut()) break;
    if (whole_bytes) *whole_bytes += static_cast<int64_t>(line->size()) + 1;
    lines.push_back(parse_json(*line, fmt::format("{}:{}", path, reader.line_number())));
  }
  return lines;
}

Outcome outcome_of(const Json& line, const std::string& where) {
  const auto id = field<std::string>(line, "id", where);
  Outcome o{id.substr(0, id.rfind('/')), field<bool>(line, "correct", where), false};
  o.correct_normalised = field_or<bool>(line, "correct_norm", where, false);
  return o;
}

namespace {

// Returns the text of a line. Bytes that are not UTF-8 are replaced.
std::string line_text(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Returns the text as it is read back from a line.
std::string as_read_back(const std::string& text) {
  return find_invalid_utf8(text) == std::string::npos ? text : Json::parse(line_text(Json(text))).get<std::string>();
}

}  // namespace

SampleFile::SampleFile(const std::string& folder, const std::string& task, const std::vector<Item>& items) {
  const std::string path = samples_path(folder, task);
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  struct stat s;
  if (!file && errno != ELOOP) throw_system("open file", path, errno);
  // the file will be truncated and appended to
  if (!file || ::fstat(*file, &s) != 0 || !S_ISREG(s.st_mode) || s.st_nlink > 1)
    throw UserError("cannot write the samples", path, "it must be a plain file of one name",
                    "remove it, or choose another --output");
  int64_t whole = 0;
  lines_ = read_samples(path, &whole);
  for (size_t i = 0; i < lines_.size(); ++i) {
    const std::string where = fmt::format("{}:{}", path, i + 1);
    if (i >= items.size() || field<std::string>(lines_[i], "id", where) != as_read_back(items[i].id) ||
        field<std::string>(lines_[i], "prompt", where) != as_read_back(items[i].prompt))
      throw UserError("an item that is not the data's", where, "a run resumes with the data it began with",
                      "choose another --output, or remove the file");
    outcome_of(lines_[i], where);  // checks the fields of the line
  }
  if (::ftruncate(*file, whole) != 0) throw_system("cut file", path, errno);
  file_ = AppendedFile(std::move(file), path);
}

void SampleFile::append(Json line) {
  file_.append(line_text(line) + "\n");
  lines_.push_back(std::move(line));
}

}  // namespace ravine
