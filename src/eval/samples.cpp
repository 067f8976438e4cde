#include "eval/samples.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
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

SampleFile::SampleFile(const std::string& folder, const std::string& task, const std::vector<Item>& items) {
  const std::string path = samples_path(folder, task);
  int64_t whole = 0;
  if (std::filesystem::exists(path)) lines_ = read_samples(path, &whole);
  for (size_t i = 0; i < lines_.size(); ++i) {
    const std::string where = fmt::format("{}:{}", path, i + 1);
    if (i >= items.size() || field<std::string>(lines_[i], "id", where) != items[i].id ||
        field<std::string>(lines_[i], "prompt", where) != items[i].prompt)
      throw UserError("an item that is not the data's", where, "a run goes on with the data it began with",
                      "choose another --output, or remove the file");
  }
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) throw_system("open file", path, errno);
  Fd file(fd);
  if (::ftruncate(*file, whole) != 0) throw_system("cut file", path, errno);
  file_ = AppendedFile(std::move(file), path);
}

void SampleFile::append(Json line) {
  file_.append(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  lines_.push_back(std::move(line));
}

}  // namespace ravine
