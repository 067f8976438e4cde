// Helpers for tests of the data room, in addition to text_help.h: reads_parquet(), and fixed batch files.
#pragma once
#include "data/records/open_records.h"
#include "files/safetensors.h"
#include "tests/unit/text_help.h"

namespace ravine::test {

// True if this build reads parquet.
inline bool reads_parquet() {
  const std::string text = message([] { open_records(RAVINE_SOURCE_DIR "/tests/golden/files/records.parquet", {}); });
  EXPECT_TRUE(text == "no error" || text.find("Apache Arrow") != std::string::npos) << text;
  return text == "no error";
}

struct IntTensor {
  std::string name;
  Shape shape;
  std::vector<int64_t> values;
};

inline std::string write_batches(const std::string& path, const std::vector<IntTensor>& tensors) {
  std::vector<TensorBytes> out;
  for (const auto& t : tensors) out.push_back({t.name, DType::i64, t.shape, std::as_bytes(std::span(t.values))});
  save_safetensors(path, out);
  return path;
}

}  // namespace ravine::test
