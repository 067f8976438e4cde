// Event files of a run that may go on in a folder that has some already.
#pragma once
#include <memory>
#include <string>

#include "files/atomic.h"
#include "files/tensorboard.h"
#include "files/tensorboard_reader.h"

namespace ravine {

// Of a run that goes on, or a folder with files of one before: what comes behind `done` hides what they say of the same steps.
inline std::unique_ptr<EventWriter> event_writer(const std::string& folder, int64_t done) {
  create_folders(folder);
  const bool before = done > 0 || !event_files(folder).empty();
  return std::make_unique<EventWriter>(folder, before ? done + 1 : 0);
}

}  // namespace ravine
