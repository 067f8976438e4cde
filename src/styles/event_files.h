// Opens TensorBoard's event files in a folder that may have older ones.
#pragma once
#include <algorithm>
#include <memory>
#include <string>

#include "config/config.h"
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

// True if log.tensorboard_omit has the tag, with hyphens for blanks, or the part of it before a slash.
inline bool leaves_out(const LogOptions& log, std::string tag) {
  std::replace(tag.begin(), tag.end(), ' ', '-');
  const std::string group = tag.substr(0, tag.find('/'));
  return std::any_of(log.tensorboard_omit.begin(), log.tensorboard_omit.end(),
                     [&](const std::string& omitted) { return omitted == tag || omitted == group; });
}

}  // namespace ravine
