// Opens TensorBoard's event files in a folder that may have older ones.
#pragma once
#include <memory>
#include <string>

#include "files/atomic.h"
#include "files/tensorboard.h"
#include "files/tensorboard_reader.h"

namespace ravine {

// Returns a writer of TensorBoard event files in `folder`, which is created. done: the number of completed steps; above
// 0 if the run resumes. If the run resumes or the folder has event files, TensorBoard discards older events after step
// `done`.
inline std::unique_ptr<EventWriter> event_writer(const std::string& folder, int64_t done) {
  create_folders(folder);
  const bool before = done > 0 || !event_files(folder).empty();
  return std::make_unique<EventWriter>(folder, before ? done + 1 : 0);
}

}  // namespace ravine
