// Scalars from TensorBoard event files (format: files/tensorboard.h), written by Ravine, PyTorch's SummaryWriter or
// TensorFlow 2.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ravine {

// The result of read_events.
struct EventData {
  // The scalars by tag: (step, value) in the order of the files. Values are stored as f32.
  std::map<std::string, std::vector<std::pair<int64_t, double>>> scalars;
  std::map<std::string, int64_t> others;  // tag: number of texts, histograms or images
  int64_t events = 0;
  bool cut = false;  // true if the last event of a file is incomplete: its run is still writing, or was killed
};

// Reads TensorBoard event files of one run, in the given order. As in TensorBoard, a restart mark drops earlier events
// from its step on. An empty file has no events. If a file ends inside an event, the previous ones are returned and
// `cut` is true. A wrong checksum, or a message that is no event, is a UserError.
EventData read_events(const std::vector<std::string>& files);

// Returns the paths of events.out.tfevents.* in a folder, sorted.
std::vector<std::string> event_files(const std::string& folder);
bool is_event_file(const std::string& path);  // checks the name only

}  // namespace ravine
