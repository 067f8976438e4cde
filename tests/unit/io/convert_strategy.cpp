// Strategy files of MindSpore: what they say of cuts, and that bytes of any kind are read or refused.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "io/convert/mindformers_strategy.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_convert_strategy {

std::string part(int number, const std::string& body) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(body.size())} + body;
}
std::string dims(const std::vector<int>& values) {
  std::string out;
  for (const int v : values)
    out += v < 0 ? "\x08" + std::string(9, '\xff') + "\x01" : std::string{'\x08', static_cast<char>(v)};
  return out;
}
std::string item(const std::string& name, const std::vector<int>& devices, const std::vector<int>& map, int shards) {
  return part(
      3, part(1, name) + part(2, part(1, dims(devices)) + part(2, dims(map)) + std::string{'\x38', static_cast<char>(shards)}));
}

TEST(Strategy, GivesTheNumberOfPartsOfDims) {
  const std::string file = item("a", {4, 2}, {0, -1}, 0) + item("1-b", {4, 2}, {-1, 1}, 0) + item("c", {4, 2}, {0}, 4);
  const MindFormersCuts cuts = parse_mindformers_strategy(file, "s.ckpt");
  EXPECT_EQ(cuts, (MindFormersCuts{{"a", {2, 1}}, {"b", {1, 4}}, {"c", {8}}})) << "axis 0 is the last; b is of stage 1";
  const std::string packed = part(3, part(1, "p") + part(2, part(1, part(1, "\x02")) + part(2, part(1, std::string(1, '\0')))));
  EXPECT_EQ(parse_mindformers_strategy(packed, "s.ckpt"), (MindFormersCuts{{"p", {2}}})) << "packed numbers";
  EXPECT_THROW(parse_mindformers_strategy(item("a", {2}, {1}, 0), "s.ckpt"), UserError) << "an axis that is not there";
  EXPECT_TRUE(parse_mindformers_strategy("", "s.ckpt").empty());
}

TEST(Strategy, NumbersBeyond64BitsAreRefused) {
  // 2^61 + 1: eight times this is 8 in 64 bits.
  const std::string devices = "\x08\x81" + std::string(7, '\x80') + "\x20";
  EXPECT_THROW(
      parse_mindformers_strategy(part(3, part(1, "a") + part(2, part(1, devices) + part(2, dims({0})) + "\x38\x08")), "s.ckpt"),
      UserError);
  const TemporaryFolder folder;
  const std::string header =
      R"({"model.tok_embeddings.embedding_weight":{"dtype":"F32","shape":[1125899906842624,0],"data_offsets":[0,0]}})";
  spill(folder / "w.safetensors", std::string{static_cast<char>(header.size())} + std::string(7, '\0') + header);
  const Json model = {{"model_type", "llama"},    {"hidden_size", 8}, {"intermediate_size", 8}, {"num_hidden_layers", 1},
                      {"num_attention_heads", 1}, {"vocab_size", 16}, {"rms_norm_eps", 1e-5},   {"hidden_act", "silu"}};
  EXPECT_NE(strategy_disagreement({{"model.tok_embeddings.embedding_weight", {1 << 20, 1}}}, folder / "w.safetensors", model,
                                  "config.json"),
            "");
}

TEST(Strategy, AnyBytesAreReadOrRefused) {
  const std::string file = item("a", {4, 2}, {0, -1}, 0) + item("b", {4, 2}, {-1, 1}, 2);
  std::mt19937 draw(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = file.substr(0, draw() % 4 == 0 ? draw() % file.size() : file.size());
    for (uint64_t n = draw() % 4; n > 0 && !text.empty(); --n) text[draw() % text.size()] = static_cast<char>(draw());
    try {
      for (const auto& [name, cuts] : parse_mindformers_strategy(text, "s.ckpt"))
        for (const int64_t n : cuts) EXPECT_TRUE(n >= 1 && n <= 1 << 20);
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace test_convert_strategy
}  // namespace ravine
