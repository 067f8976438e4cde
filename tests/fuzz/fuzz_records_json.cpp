// A .json file: records or a UserError, nothing else; every byte of a record was in the file's order.
#include "base/error.h"
#include "data/records/open_records.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Scratch scratch;
  const std::string path = scratch.write("a.json", text_of(data, size));
  try {
    auto reader = ravine::open_records(path, {.max_record = 1 << 20});
    ravine::Record r;
    int64_t last = 0;
    while (reader->next(r)) {
      if (r.number < last || r.body.size() < 2 || r.body.front() != '{' || r.body.back() != '}') __builtin_trap();
      last = r.number;
    }
    if (reader->done() < 0 || reader->done() > 1) __builtin_trap();
  } catch (const ravine::UserError&) {
  }
  return 0;
}
