// Any bytes as a MindRecord file give a UserError, or rows that can be read or refused. The size of the file bounds the
// number of rows and the size of a value.
#include <cstdlib>

#include "base/error.h"
#include "data/mindrecord/mindrecord_files.h"
#include "scratch.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch scratch;
  try {
    const MindRecordFiles files(scratch.write("a.mindrecord", text_of(data, size)));
    if (files.rows() > static_cast<int64_t>(size / 8)) std::abort();
    for (int64_t row = 0; row < files.rows(); ++row)
      for (const std::string& column : files.columns()) {
        try {
          if (files.values(row, column).size() > 4 * size) std::abort();
        } catch (const UserError&) {
        }
      }
  } catch (const UserError&) {
  }
  return 0;
}
