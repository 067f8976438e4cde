// Index arrays around the ends of epochs, from megatron-core's GPTDataset: tests/golden/megatron_epochs.json, made by
// tools/golden/make_epochs.py.
#include <numeric>

#include "data/megatron/indices.h"
#include "tests/unit/megatron_golden.h"

namespace ravine {
namespace test_data_megatron_epochs {

TEST(MegatronEpochs, ArraysAtEveryNumberOfSamples) {
  const Json golden = read_json(RAVINE_SOURCE_DIR "/tests/golden/megatron_epochs.json");
  int checked = 0;
  for (const Json& c : golden["cases"]) {
    const auto lengths = c["lengths"].get<std::vector<int32_t>>();
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), length = c["sequence_length"];
    const int extra = c["extra"];
    for (size_t i = 0; i < c["samples_from_1"].size(); ++i, ++checked) {
      const auto samples = static_cast<int64_t>(i) + 1;
      SCOPED_TRACE(fmt::format("{} tokens, {} samples of {} + {}", tokens, samples, length, extra));
      const EpochPlan plan = plan_epochs(tokens, samples, length, extra);
      NumpyRandomState random(golden["seed"].get<uint32_t>());
      const auto documents = build_document_index(0, static_cast<int64_t>(lengths.size()), plan, random);
      const int64_t n = sample_count(tokens, plan, length, extra, false);
      const auto index = build_sample_index(std::as_bytes(std::span(lengths)), documents, n, length, extra);
      const auto shuffle = build_shuffle_index(plan.separate_last ? plan.samples_before_last : n, n, random);
      const Json got{test::md5_of(std::span(documents)).substr(0, 8), test::md5_of(std::span(index)).substr(0, 8),
                     test::md5_of(std::span(shuffle)).substr(0, 8)};
      ASSERT_EQ(got, c["samples_from_1"][i]);
    }
  }
  EXPECT_GT(checked, 600);
}

}  // namespace test_data_megatron_epochs
}  // namespace ravine
