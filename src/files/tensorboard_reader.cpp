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

// The fields of one protocol buffer message, in order.
class EventMessage {
 public:
  EventMessage(std::string_view bytes, const std::string& where) : left_(bytes), where_(where) {}
  struct Field {
    uint64_t number = 0, value = 0;  // value: of varints
    std::string_view bytes;          // of the other wire types
  };
  std::optional<Field> next() {
    if (left_.empty()) return {};
    const uint64_t key = varint();
    Field f;
    f.number = key >> 3;
    switch (key & 7) {
      case 0:
        f.value = varint();
        break;
      case 1:
        f.bytes = take(8);
        break;
      case 2:
        f.bytes = take(varint());
        break;
      case 5:
        f.bytes = take(4);
        break;
      default:
        wrong();
    }
    return f;
  }
  [[noreturn]] void wrong() const {
    throw UserError("not an event of TensorBoard", where_, "each event is a protocol buffer message", "write the file again");
  }

 private:
  uint64_t varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      v |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return v;
    }
    wrong();
  }
  std::string_view take(uint64_t n) {
    if (n > left_.size()) wrong();
    const std::string_view taken = left_.substr(0, n);
    left_.remove_prefix(n);
    return taken;
  }
  std::string_view left_;
  const std::string& where_;
};

// A TensorProto of one f32; nothing if it is another.
std::optional<float> scalar_of(std::string_view tensor, const std::string& where) {
  EventMessage m(tensor, where);
  uint64_t type = 0;
  std::optional<float> value;
  while (auto f = m.next()) {
    if (f->number == 1) type = f->value;
    if ((f->number == 4 || f->number == 5) && f->bytes.size() == 4) value = float_of(f->bytes);  // tensor_content, float_val
  }
  return type == 1 ? value : std::nullopt;  // DT_FLOAT
}

// While events are read: of each point in which place it came, and of each restart which points it takes back, those of its
// step and later that came before. Points go at the end, all at once: a file may hold as many restarts as points.
struct Reading {
  EventData data;
  std::map<std::string, std::vector<int64_t>> places;  // as data.scalars
  std::vector<std::pair<int64_t, int64_t>> restarts;   // (place, step)
  int64_t place = 0;
};

void add_value(Reading& reading, std::string_view bytes, int64_t step, const std::string& where) {
  EventData& out = reading.data;
  EventMessage m(bytes, where);
  std::string tag;
  std::optional<float> value;
  while (auto f = m.next()) {
    if (f->number == 1) tag = f->bytes;
    if (f->number == 2 && f->bytes.size() == 4) value = float_of(f->bytes);
    if (f->number == 8) value = scalar_of(f->bytes, where);
  }
  if (value)
    out.scalars[tag].emplace_back(step, *value), reading.places[tag].push_back(reading.place++);
  else
    ++out.others[tag];
}

void take_back(Reading& reading) {
  std::vector<std::pair<int64_t, int64_t>>& restarts = reading.restarts;
  for (size_t i = restarts.size(); i-- > 1;)
    restarts[i - 1].second = std::min(restarts[i - 1].second, restarts[i].second);  // the lowest step of it and all later ones
  for (auto& [tag, points] : reading.data.scalars) {
    const std::vector<int64_t>& places = reading.places[tag];
    size_t kept = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      const auto next = std::upper_bound(restarts.begin(), restarts.end(), places[i],
                                         [](int64_t place, const auto& r) { return place < r.first; });
      if (next == restarts.end() || points[i].first < next->second) points[kept++] = points[i];
    }
    points.resize(kept);
  }
  std::erase_if(reading.data.scalars, [](const auto& s) { return s.second.empty(); });
}

void add_event(Reading& reading, std::string_view bytes, const std::string& where) {
  EventMessage m(bytes, where);
  int64_t step = 0;
  std::string_view summary, session;
  while (auto f = m.next()) {
    if (f->number == 2) step = static_cast<int64_t>(f->value);
    if (f->number == 5) summary = f->bytes;
    if (f->number == 7) session = f->bytes;
  }
  ++reading.data.events;
  for (EventMessage s(session, where); auto f = s.next();)
    if (f->number == 1 && f->value == 1) reading.restarts.emplace_back(reading.place, step);  // SessionLog.START
  for (EventMessage s(summary, where); auto f = s.next();)
    if (f->number == 1) add_value(reading, f->bytes, step, where);
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
