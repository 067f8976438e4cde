// Scalars out of TensorBoard event files (files/tensorboard.h says which messages): our own, PyTorch's SummaryWriter's and
// TensorFlow 2's.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ravine {

struct EventData {
  std::map<std::string, std::vector<std::pair<int64_t, double>>>
      scalars;                            // tag: (step, value) in the order of the files; values are f32
  std::map<std::string, int64_t> others;  // tag: entries of texts, histograms, images
  int64_t events = 0;
  bool cut = false;  // the last event of a file is not whole: its run is writing, or was killed
};

// The files of one run, in order: as TensorBoard does, what came before a restart mark is dropped from the mark's step on. An
// empty file holds no events, and one that ends within an event those before it (`cut`); a checksum that does not fit, or a
// message that is no event, is a UserError.
EventData read_events(const std::vector<std::string>& files);

// Files named events.out.tfevents.* of a folder, in order.
std::vector<std::string> event_files(const std::string& folder);
bool is_event_file(const std::string& path);  // by its name

}  // namespace ravine
