// Helpers for tests of training: a tiny Llama, micro batches by hand, and the folder of a run with its own data.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/philox.h"
#include "data/loader.h"
#include "files/safetensors.h"
#include "tests/unit/files_temporary.h"
#include "train/trainer.h"

namespace ravine {

inline constexpr int64_t kVocabulary = 23, kWidth = 12;

inline Json tiny_llama() {
  return Json{{"model_type", "llama"},         {"hidden_size", 8},         {"intermediate_size", 12},
              {"num_hidden_layers", 2},        {"num_attention_heads", 2}, {"vocab_size", kVocabulary},
              {"max_position_embeddings", 32}, {"initializer_range", 0.3}};
}

// Rows of ids that follow from `key`; the first `ignored` labels of each do not count.
inline MicroBatch made_up(uint64_t key, int64_t rows, int64_t ignored) {
  MicroBatch m;
  m.rows = rows, m.columns = kWidth;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < kWidth; ++i) {
      auto word = philox(key, {static_cast<uint32_t>(r), static_cast<uint32_t>(i), 0, 0});
      m.ids.push_back(static_cast<int32_t>(word[0] % kVocabulary));
      m.labels.push_back(i < ignored ? -100 : static_cast<int32_t>(word[1] % kVocabulary));
      m.positions.push_back(static_cast<int32_t>(i));
      m.valid_tokens += i >= ignored;
    }
    m.segments.push_back({static_cast<int32_t>(r * kWidth), static_cast<int32_t>(kWidth)});
    m.sequence_index.push_back(static_cast<int64_t>(key) * 1000 + r);
  }
  return m;
}

// A folder with config.json, train.safetensors (6 rows) and valid.safetensors (3 rows), and the config of a run in it.
struct TinyRunFolder {
  TinyRunFolder() {
    static const TemporaryFolder cache;  // of the process: the peaks of the machine are measured once
    setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
    std::ofstream(folder / "config.json") << tiny_llama().dump();
    save("train.safetensors", 6, 1);
    save("valid.safetensors", 3, 2);
    config.model.config = folder / "config.json";
    config.data.train.push_back({folder / "train.safetensors"});
    config.data.valid.push_back({folder / "valid.safetensors"});
    config.data.sequence_length = kWidth;
    config.train.output = folder / "run";
    config.train.global_batch = 2;
    config.train.steps = 4;
    config.train.valid_every = 2;
    config.train.threads = 1;
    config.schedule.warmup_steps = 1;
    config.checkpoint.every = 0;
    log.quiet(true);
  }
  // Labels of a row: the first r + 1 do not count.
  void save(const std::string& name, int64_t rows, uint64_t key) const {
    std::vector<int64_t> ids, labels;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < kWidth; ++i) {
        ids.push_back(philox(key, {static_cast<uint32_t>(r), static_cast<uint32_t>(i), 0, 0})[0] % kVocabulary);
        labels.push_back(i <= r ? -100 : ids.back());
      }
    save_safetensors(folder / name, {{"input_ids", DType::i64, {rows, kWidth}, std::as_bytes(std::span(ids))},
                                     {"labels", DType::i64, {rows, kWidth}, std::as_bytes(std::span(labels))}});
  }
  std::vector<Json> metrics() const {
    std::vector<Json> out;
    std::ifstream in(folder / "run/metrics.jsonl");
    for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
    return out;
  }
  TemporaryFolder folder;
  Config config;
  Log log;
};

}  // namespace ravine
