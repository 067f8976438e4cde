#include "files/tensorboard_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "files/mapped_file.h"
#include "files/protobuf.h"
#include "files/tensorboard.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

uint64_t little(std::string_view bytes) {
  uint64_t v = 0;
  for (size_t i = bytes.size(); i-- > 0;) v = v << 8 | static_cast<uint8_t>(bytes[i]);
  return v;
}

float float_of(std::string_view four) { return std::bit_cast<float>(static_cast<uint32_t>(little(four))); }

void refuse_event(const std::string& where, const std::string& rule) {
  throw UserError("not an event of TensorBoard", where, rule, "write the file again");
}

// Returns the value of a TensorProto with one f32; nothing for other tensors.
std::optional<float> scalar_of(ProtobufMessage m) {
  uint64_t type = 0;
  std::optional<float> value;
  while (auto f = m.next()) {
    if (f->number == 1) type = f->value;
    // tensor_content, float_val
    if ((f->number == 4 || f->number == 5) && f->bytes.size() == 4) value = float_of(f->bytes);
  }
  return type == 1 ? value : std::nullopt;  // DT_FLOAT
}

// The state while events are read. Each point has its position in the order of reading. A restart drops the points of
// its step and later before its position. The drop is done once, at the end: a file may have as many restarts as
// points.
struct Reading {
  EventData data;
  std::map<std::string, std::vector<int64_t>> offsets;  // positions; same keys and order as data.scalars
  std::vector<std::pair<int64_t, int64_t>> restarts;    // (position, step)
  int64_t next_event = 0;
};

void add_value(Reading& reading, ProtobufMessage m, int64_t step) {
  EventData& out = reading.data;
  std::string tag;
  std::optional<float> value;
  while (auto f = m.next()) {
    if (f->number == 1) tag = f->bytes;
    if (f->number == 2 && f->bytes.size() == 4) value = float_of(f->bytes);
    if (f->number == 8) value = scalar_of(m.in(*f));
  }
  if (value)
    out.scalars[tag].emplace_back(step, *value), reading.offsets[tag].push_back(reading.next_event++);
  else
    ++out.others[tag];
}

void take_back(Reading& reading) {
  std::vector<std::pair<int64_t, int64_t>>& restarts = reading.restarts;
  for (size_t i = restarts.size(); i-- > 1;)
    // The lowest step of this restart and all later ones.
    restarts[i - 1].second = std::min(restarts[i - 1].second, restarts[i].second);
  for (auto& [tag, points] : reading.data.scalars) {
    const std::vector<int64_t>& offsets = reading.offsets[tag];
    size_t kept = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      const auto next = std::upper_bound(restarts.begin(), restarts.end(), offsets[i],
                                         [](int64_t event, const auto& r) { return event < r.first; });
      if (next == restarts.end() || points[i].first < next->second) points[kept++] = points[i];
    }
    points.resize(kept);
  }
  std::erase_if(reading.data.scalars, [](const auto& s) { return s.second.empty(); });
}

void add_event(Reading& reading, std::string_view bytes, const std::string& where) {
  ProtobufMessage m(bytes, where, refuse_event);
  int64_t step = 0;
  ProtobufField summary, session;
  while (auto f = m.next()) {
    if (f->number == 2) step = static_cast<int64_t>(f->value);
    if (f->number == 5) summary = *f;
    if (f->number == 7) session = *f;
  }
  ++reading.data.events;
  for (ProtobufMessage s = m.in(session); auto f = s.next();)
    if (f->number == 1 && f->value == 1) reading.restarts.emplace_back(reading.next_event, step);  // SessionLog.START
  for (ProtobufMessage s = m.in(summary); auto f = s.next();)
    if (f->number == 1) add_value(reading, s.in(*f), step);
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void add_file(Reading& reading, const std::string& path) {
  EventData& out = reading.data;
  const MappedFile file(path, MappedFile::Use::sequential);
  std::string_view left(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  auto damaged = [&](const char* what) {
    throw UserError("damaged event file", fmt::format("{}, byte {}", path, file.bytes().size() - left.size()),
                    fmt::format("the checksum of {} does not fit", what), "use another copy of it");
  };
  constexpr size_t kHead = 12, kTail = 4;
  while (!left.empty()) {
    if (left.size() < kHead) return void(out.cut = true);
    const std::string_view length = left.substr(0, 8);
    if (masked(length) != little(left.substr(8, 4))) damaged("a length");
    const uint64_t n = little(length);
    if (n > left.size() - kHead || left.size() - kHead - n < kTail) return void(out.cut = true);
    const std::string_view payload = left.substr(kHead, n);
    if (masked(payload) != little(left.substr(kHead + n, kTail))) damaged("an event");
    add_event(reading, payload, path);
    left.remove_prefix(kHead + n + kTail);
  }
}

}  // namespace

EventData read_events(const std::vector<std::string>& files) {
  Reading reading;
  for (const std::string& f : files) add_file(reading, f);
  take_back(reading);
  return std::move(reading.data);
}

bool is_event_file(const std::string& path) { return fs::path(path).filename().string().starts_with("events.out.tfevents."); }

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_event_file(entry.path().string()) && entry.is_regular_file(error)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace ravine
