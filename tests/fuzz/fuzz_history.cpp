// The data position of a checkpoint: samples that come from where it says, or an error, nothing else.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "data/mixed_dataset.h"

using namespace ravine;

namespace {

struct Two final : SampleStream {
  int64_t count() const override { return 7; }
  Sample sample(int64_t i) const override { return i >= 0 && i < 7 ? Sample{} : (__builtin_trap(), Sample{}); }
  std::string origin(int64_t) const override { return ""; }
  int64_t token_count() const override { return 7; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    DataHistory h = DataHistory::from_json(parse_json({reinterpret_cast<const char*>(data), size}, "fuzz"), "fuzz");
    if (DataHistory::from_json(h.json(), "again").json() != h.json()) __builtin_trap();
    std::vector<MixedStream> streams;
    for (const char* name : {"a", "b"}) streams.push_back({name, 1, std::make_unique<Two>()});
    MixedDataset mixed(std::move(streams), true, 1, 4);
    mixed.follow(h);
    for (int64_t i : {0, 1, 39, 40, 1000000}) {
      try {
        mixed.sample(i);
      } catch (const UserError&) {  // of a source that is gone
      }
    }
    mixed.note_sources(h, 50, 3);
    mixed.follow(h);
    if (!h.empty()) h.first_sample(60);
  } catch (const Error&) {
  }
  return 0;
}
