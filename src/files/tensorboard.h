// TensorBoard event files: TFRecord frames (length, masked CRC-32C, payload, masked CRC-32C) of Event messages.
// Sources: tensorflow/core/lib/io/record_writer.h; tensorflow/core/util/event.proto;
// tensorboard/plugins/text/metadata.py.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "files/appended_file.h"

namespace ravine {

// Writes scalars and texts to one event file.
class EventWriter {
 public:
  // Creates events.out.tfevents.<seconds>.<host>.<pid>.<n> in `folder`, which must exist. TensorBoard joins all files
  // of a folder in the order of their names; <seconds> is therefore later than in every existing file. first_step > 0
  // writes a restart mark: TensorBoard drops events of this step and later from earlier files.
  explicit EventWriter(const std::string& folder, int64_t first_step = 0);
  ~EventWriter();  // flushes; errors are ignored
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Append an event: a value, which is stored as f32, or a text. `tag` is the name of the curve. `wall_time` is in
  // seconds since 1970; below 0 means now. Names and text must be UTF-8. Errors: DiskFull, Error.
  void scalar(std::string_view tag, int64_t step, double value, double wall_time = -1);
  void text(std::string_view tag, int64_t step, std::string_view markdown, double wall_time = -1);
  void flush();  // appends the buffer to the file; also called every 64 KiB
  const std::string& path() const { return path_; }

 private:
  void event(int64_t step, double wall_time, std::string_view fields);
  std::string path_, buffer_;
  AppendedFile file_;
};

uint32_t crc32c(std::string_view bytes);  // Castagnoli, as in RFC 3720

}  // namespace ravine
