// What is said of configs that are valid and likely wrong all the same: each warning at its limit, and not beside it.
#include "train/advice.h"

#include <algorithm>

#include "data/indexed/indexed_writer.h"
#include "data/tokenizer.h"
#include "tests/unit/train_help.h"

namespace ravine {
namespace {

const std::string kTokenizer = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/chat/";

Config plain() {
  Config c;
  c.train.steps = 10, c.train.valid_every = 0, c.schedule.warmup_steps = 9;
  return c;
}

bool says(const Config& c, const std::string& text) {
  for (const std::string& line : likely_mistakes(c))
    if (line.find(text) != std::string::npos) return true;
  return false;
}

TEST(Advice, OfNumbers) {
  Config c = plain();
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
  c.schedule.warmup_steps = 10;
  EXPECT_TRUE(says(c, "schedule.warmup_steps=10 is not below train.steps=10: the rate never reaches optimizer.lr"));
  c = plain();
  c.data.skip_steps = {3, 10};
  EXPECT_TRUE(likely_mistakes(c).empty());
  c.data.skip_steps = {3, 11};
  EXPECT_EQ(likely_mistakes(c), std::vector<std::string>{"data.skip_steps names step 11, the run ends after 10"});
  c = plain();
  c.train.valid_every = 5;
  EXPECT_TRUE(says(c, "train.valid_every=5, but there is nothing to validate on: set data.valid or data.valid_fraction"));
  c.data.valid_fraction = 0.1;
  EXPECT_TRUE(likely_mistakes(c).empty());
  c.train.valid_every = 0;
  EXPECT_TRUE(says(c, "validation data are given, but train.valid_every=0 never looks at them"));
  c.data.valid_fraction = 0;
  c.data.valid.push_back({"x.txt"});
  EXPECT_TRUE(says(c, "validation data are given, but train.valid_every=0 never looks at them"));
}

TEST(Advice, OfTheModelAndItsTokenizer) {
  TemporaryFolder f;
  Json model = tiny_llama();
  spill(f / "config.json", model.dump());
  Config c = plain();
  c.model.config = f / "config.json";
  c.data.sequence_length = 32;
  EXPECT_TRUE(likely_mistakes(c).empty());
  c.data.sequence_length = 33;
  EXPECT_EQ(likely_mistakes(c), std::vector<std::string>{"data.sequence_length=33 is above the model's max_position_embeddings=32"});
  c.data.sequence_length = 32;
  c.model.tokenizer = kTokenizer;
  EXPECT_TRUE(likely_mistakes(c).empty()) << "a new model has a row for each id";
  c.model.config.clear();
  c.model.path = f.path();
  EXPECT_TRUE(says(c, "the model a vocabulary of 23: ids beyond it have no row in the embedding"));
  spill(f / "config.json", "{");
  EXPECT_TRUE(says(c, "config.json")) << "what cannot be opened is a line too";
}

TEST(Advice, OfDocumentsThatFillLittle) {
  TemporaryFolder f;
  const auto tokenizer = open_tokenizer(kTokenizer);
  std::string text;
  int64_t tokens = 0;
  for (int i = 0; i < 4; ++i) {
    const std::string words = "the ship sank " + std::string(static_cast<size_t>(i), 'x');
    text += Json{{"text", words}}.dump() + "\n";
    tokens += static_cast<int64_t>(tokenizer->encode(words, true).size());
  }
  spill(f / "a.jsonl", text);
  Config c = plain();
  c.model.tokenizer = kTokenizer;
  c.data.train.push_back({f / "a.jsonl"});
  c.data.pack = false;
  c.train.micro_batch = 2;
  const int64_t least = 10 * tokens / 4;  // of which they fill a tenth
  c.data.sequence_length = least;
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
  c.data.sequence_length = 2 * least + 2;
  EXPECT_EQ(likely_mistakes(c), std::vector<std::string>{fmt::format("{}: documents fill {} % of a sequence of {}: data.pack=true would join them", f / "a.jsonl", 100 * tokens / (4 * (2 * least + 2)), 2 * least + 2)});
  c.train.micro_batch = 1;
  EXPECT_TRUE(likely_mistakes(c).empty()) << "nothing is padded";
  c.train.micro_batch = 2, c.data.pack = true;
  EXPECT_TRUE(likely_mistakes(c).empty());
}

TEST(Advice, OfConversations) {
  TemporaryFolder f;
  auto write = [&](int plain_ones, int longer, int empty) {
    std::string text;
    for (int i = 0; i < plain_ones; ++i) text += Json{{"instruction", "a"}, {"output", "b"}}.dump() + "\n";
    for (int i = 0; i < longer; ++i) text += Json{{"instruction", "a"}, {"output", std::string(500, 'y') + " z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z"}}.dump() + "\n";
    for (int i = 0; i < empty; ++i) text += Json{{"messages", {{{"role", "user"}, {"content", "a"}}}}}.dump() + "\n";
    spill(f / "a.jsonl", text);
  };
  Config c = plain();
  c.model.tokenizer = kTokenizer;
  c.data.chat_template = "chatml";
  c.data.sequence_length = 60;
  c.data.train.push_back({f / "a.jsonl"});
  auto said = [&] { return likely_mistakes(c); };
  write(10, 1, 0);
  EXPECT_TRUE(said().empty()) << said()[0];
  write(9, 1, 0);
  EXPECT_EQ(said(), std::vector<std::string>{(f / "a.jsonl") + ": 10 % of the first 10 conversations are longer than data.sequence_length=60 and are cut; data.sequence_length=640 would keep 100 % of them whole"});
  c.data.too_long = "drop";
  EXPECT_EQ(said(), std::vector<std::string>{(f / "a.jsonl") + ": 10 % of the first 10 conversations are longer than data.sequence_length=60 and are left out; data.sequence_length=640 would keep 100 % of them whole"});
  write(200, 200, 0);
  EXPECT_TRUE(said().empty()) << "the first 200 are looked at: " << said()[0];
  spill(f / "a.jsonl", "");
  std::string text;
  for (int i = 0; i < 10; ++i) text += Json{{"messages", i == 0 ? Json::array({{{"role", "user"}, {"content", "a"}}}) : Json::array({{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}})}}.dump() + "\n";
  spill(f / "a.jsonl", text);
  EXPECT_EQ(said(), std::vector<std::string>{(f / "a.jsonl") + ": 1 of the first 10 conversations have no answer to learn"});
}

TEST(Advice, OfTokenFilesWithoutEnds) {
  TemporaryFolder f;
  const int32_t eos = *open_tokenizer(kTokenizer)->special().eos;
  auto write = [&](const std::vector<std::vector<int32_t>>& documents) {
    for (const char* ending : {".bin", ".idx"}) std::filesystem::remove(f / ("a" + std::string(ending)));
    IndexedWriter w(f.path(), "work", TokenType::i32, false);
    StoredDocuments d;
    for (const auto& ids : documents) d.add(TokenType::i32, ids, std::vector<int32_t>{static_cast<int32_t>(ids.size())}, "here");
    w.add_documents(d);
    w.finish();
    IndexedWriter::publish(f.path(), "work", f / "a", false);
  };
  Config c = plain();
  c.model.tokenizer = kTokenizer;
  c.data.train.push_back({f / "a"});
  write({{eos, 5, 6}, {7, 8}});
  const auto lines = likely_mistakes(c);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("none of the first 2 documents ends with the tokenizer's end token ("), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("): a model trained on them never learns to stop (preprocess --append-eod)"), std::string::npos) << lines[0];
  write({{5, 6}, {7, eos}});
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
}

}  // namespace
}  // namespace ravine
