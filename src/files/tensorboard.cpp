#include "files/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "base/host_name.h"
#include "files/atomic.h"

namespace ravine {
namespace {

constexpr size_t kEventGather = size_t{1} << 16;

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0x82f63b78u : 0u);
    table[i] = c;
  }
  return table;
}
constexpr auto kTable = make_table();

template <class T>
void put_fixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

// Functions that write fields of a protobuf message: the key (number, wire type), then the value.
void put_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}
std::string field(int number, uint64_t value) {
  std::string out;
  put_varint(out, static_cast<uint64_t>(number) << 3);
  put_varint(out, value);
  return out;
}
std::string field(int number, double value) {
  std::string out;
  put_varint(out, static_cast<uint64_t>(number) << 3 | 1);
  put_fixed(out, std::bit_cast<uint64_t>(value));
  return out;
}
std::string field(int number, float value) {
  std::string out;
  put_varint(out, static_cast<uint64_t>(number) << 3 | 5);
  put_fixed(out, std::bit_cast<uint32_t>(value));
  return out;
}
std::string field(int number, std::string_view bytes) {
  std::string out;
  put_varint(out, static_cast<uint64_t>(number) << 3 | 2);
  put_varint(out, bytes.size());
  return out.append(bytes);
}

// Field numbers of Event, SessionLog, Summary, Summary.Value, SummaryMetadata, PluginData, TensorProto and
// TensorShapeProto.
namespace tag_of {
enum Event { wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7 };
enum Session { status = 1 };
enum Summary { value = 1 };
enum Value { tag = 1, simple_value = 2, tensor = 8, metadata = 9 };
enum Metadata { plugin_data = 1 };
enum Plugin { plugin_name = 1 };
enum Tensor { dtype = 1, shape = 2, string_value = 8 };
enum Shape { dim = 2 };
enum Dim { size = 1 };
}  // namespace tag_of
constexpr uint64_t kStart = 1;   // SessionLog.START
constexpr uint64_t kString = 7;  // DT_STRING

// Returns a second after the seconds of all event files in the folder. Readers sort the files by name. Within one
// second the process number would decide, which wraps around; and a clock may be set back.
int64_t second_behind_all(const std::string& folder, int64_t now) {
  constexpr std::string_view kPrefix = "events.out.tfevents.";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::string digits = name.substr(kPrefix.size(), 10);
    if (digits.size() == 10 && digits.find_first_not_of("0123456789") == std::string::npos)
      now = std::max<int64_t>(now, std::stoll(digits) + 1);
  }
  return now;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t c = ~0u;
  for (char b : bytes) c = (c >> 8) ^ kTable[(c ^ static_cast<uint8_t>(b)) & 255];
  return ~c;
}

EventWriter::EventWriter(const std::string& folder, int64_t first_step) {
  const std::string host = host_name();
  const double time = now();
  const int64_t second = second_behind_all(folder, static_cast<int64_t>(time));
  Fd fd;
  for (int n = 0; !fd; ++n) {
    path_ = fmt::format("{}/events.out.tfevents.{:010d}.{}.{}.{}", folder, second, host, ::getpid(), n);
    fd = Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd && errno != EEXIST) throw_system("create file", path_, errno);
  }
  file_ = AppendedFile(std::move(fd), path_);
  event(0, time, field(tag_of::file_version, "brain.Event:2"));
  if (first_step > 0) event(first_step, time, field(tag_of::session_log, field(tag_of::status, kStart)));
  flush();
}

EventWriter::~EventWriter() {
  try {
    flush();
  } catch (const Error&) {
  }
}

void EventWriter::event(int64_t step, double wall_time, std::string_view fields) {
  std::string payload = field(tag_of::wall_time, wall_time < 0 ? now() : wall_time);
  if (step != 0) payload += field(tag_of::step, static_cast<uint64_t>(step));
  payload += fields;
  std::string length;
  put_fixed(length, uint64_t{payload.size()});
  buffer_ += length;
  put_fixed(buffer_, masked_crc(length));
  buffer_ += payload;
  put_fixed(buffer_, masked_crc(payload));
  if (buffer_.size() >= kEventGather) flush();
}

void EventWriter::scalar(std::string_view tag, int64_t step, double value, double wall_time) {
  const std::string entry = field(tag_of::tag, tag) + field(tag_of::simple_value, static_cast<float>(value));
  event(step, wall_time, field(tag_of::summary, field(tag_of::value, entry)));
}

void EventWriter::text(std::string_view tag, int64_t step, std::string_view markdown, double wall_time) {
  const std::string plugin = field(tag_of::plugin_data, field(tag_of::plugin_name, "text"));
  const std::string shape = field(tag_of::dim, field(tag_of::size, uint64_t{1}));
  const std::string tensor =
      field(tag_of::dtype, kString) + field(tag_of::shape, shape) + field(tag_of::string_value, markdown);
  const std::string entry = field(tag_of::tag, tag) + field(tag_of::tensor, tensor) + field(tag_of::metadata, plugin);
  event(step, wall_time, field(tag_of::summary, field(tag_of::value, entry)));
}

void EventWriter::flush() {
  // Emptied first: if the disk is full these events are lost, and later events follow whole events.
  std::string bytes;
  bytes.swap(buffer_);
  file_.append(bytes);
}

}  // namespace ravine
