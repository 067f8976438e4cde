// Tests of the warnings about valid configs that are likely wrong: each warning at its limit, and just inside it.
#include "train/advice.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "data/indexed/indexed_writer.h"
#include "tests/unit/train_help.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace test_train_advice {

const std::string kTokenizer = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/chat/";

Config plain() {
  Config c;
  c.train.steps = 10, c.train.valid_every = 0, c.schedule.warmup_steps = 9;
  return c;
}

bool warns(const Config& c, const std::string& text) {
  for (const std::string& line : likely_mistakes(c))
    if (line.find(text) != std::string::npos) return true;
  return false;
}

TEST(Advice, OfNumbers) {
  Config c = plain();
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
  c.schedule.warmup_steps = 10;
  EXPECT_TRUE(warns(c, "schedule.warmup_steps=10 is not below train.steps=10: the rate never reaches optimizer.lr"));
  using enum ScheduleType;
  c.schedule.type = reduce_lr_on_plateau;
  EXPECT_FALSE(warns(c, "never reaches")) << "it has no warm-up";
  c.schedule.type = cosine_warmup_with_min_lr;
  EXPECT_FALSE(warns(c, "never reaches")) << "the last step of the warm-up has the full rate";
  c.schedule.warmup_steps = 11;
  EXPECT_TRUE(warns(c, "schedule.warmup_steps=11 is not below train.steps=10: the rate never reaches optimizer.lr"));
  c.schedule.type = constant, c.optimizer.type = OptimizerType::adafactor;
  EXPECT_FALSE(warns(c, "never reaches")) << "its rate is its own";
  c.optimizer.relative_step = false;
  EXPECT_TRUE(warns(c, "never reaches"));
  c = plain();
  c.schedule.type = linear, c.schedule.warmup_steps = 5, c.schedule.steps = 5;
  EXPECT_TRUE(warns(c, "schedule.warmup_steps=5 is not below schedule.steps=5: the rate never reaches optimizer.lr"));
  c = plain();
  c.schedule.type = cosine, c.schedule.warmup_steps = 1, c.schedule.steps = 5, c.optimizer.lr = 1e-3;
  EXPECT_EQ(likely_mistakes(c),
            std::vector<std::string>{"schedule.steps=5 is below train.steps=10: from step 6 on the rate stays at 0.0001"});
  c.schedule.steps = 10;
  EXPECT_TRUE(likely_mistakes(c).empty());
  c.schedule.type = CosineAnnealingLR, c.schedule.classes.t_max = 5;
  EXPECT_TRUE(
      warns(c, "schedule.t_max=5 is below train.steps=10: behind it the rate of CosineAnnealingLR rises again, to 0.000905"));
  // Types whose formula goes on behind schedule.steps: one notice each, and the rate of the end.
  for (const ScheduleType type : {inverse_sqrt, cosine_with_restarts, warmup_stable_decay, OneCycle, LRRangeTest, WarmupDecayLR,
                                  ConstantWithCoolDownLR, WarmUpStableDecayLR, CosineAnnealingWarmRestarts}) {
    c = plain();
    c.schedule.type = type, c.schedule.warmup_steps = 4, c.schedule.steps = 5, c.schedule.stable_steps = 2;
    c.schedule.decay_steps = 8, c.schedule.classes.keep_steps = 4, c.schedule.classes.t_0 = 7;
    c.schedule.classes.decay_start_steps = 4, c.schedule.classes.warmup_num_steps = 2;
    EXPECT_TRUE(warns(c, "schedule.steps=5 is below train.steps=10: from step ")) << name(type);
    EXPECT_TRUE(warns(c, "on the rate stays at ")) << name(type);
  }
  c.schedule.classes.total_steps = 7, c.schedule.type = WarmUpStableDecayLR;
  EXPECT_TRUE(warns(c, "schedule.total_steps=7 is below train.steps=10: from step 8 on the rate stays at 1e-07"));
  c = plain();
  c.data.skip_steps = {3, 10};
  EXPECT_TRUE(likely_mistakes(c).empty());
  c.data.skip_steps = {3, 11};
  EXPECT_EQ(likely_mistakes(c), std::vector<std::string>{"data.skip_steps names step 11, the run ends after 10"});
  c = plain();
  c.train.valid_every = 5;
  EXPECT_TRUE(warns(c, "train.valid_every=5, but there is nothing to validate on: set data.valid or data.valid_fraction"));
  c.data.valid_fraction = 0.1;
  EXPECT_TRUE(likely_mistakes(c).empty());
  c.train.valid_every = 0;
  EXPECT_TRUE(warns(c, "validation data are given, but train.valid_every=0 never looks at them"));
  c.data.valid_fraction = 0;
  c.data.valid.push_back({"x.txt"});
  EXPECT_TRUE(warns(c, "validation data are given, but train.valid_every=0 never looks at them"));
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
  EXPECT_EQ(
      likely_mistakes(c),
      std::vector<std::string>{
          "data.sequence_length=33 is above the model's max_position_embeddings=32: train refuses it; set data.sequence_length=32 or less"});
  c.data.sequence_length = 32;
  c.model.tokenizer = kTokenizer;
  EXPECT_TRUE(likely_mistakes(c).empty()) << "a new model has a row for each id";
  c.model.config.clear();
  c.model.path = f.path();
  EXPECT_TRUE(warns(c, "the model a vocabulary of 23: ids beyond it have no row in the embedding"));
  spill(f / "config.json", "{");
  EXPECT_TRUE(warns(c, "config.json")) << "what cannot be opened is a line too";
}

// Dropout belongs to training, not to the model. A run uses its options, and one line names a difference from
// config.json.
TEST(Advice, OfDropoutThatTheModelWasTrainedWith) {
  TemporaryFolder f;
  Json model = tiny_llama();
  model["attention_dropout"] = 0.1, model["hidden_dropout"] = 0.0;
  spill(f / "config.json", model.dump());
  Config c = plain();
  c.model.config = f / "config.json", c.data.sequence_length = 32;
  EXPECT_EQ(
      likely_mistakes(c),
      std::vector<std::string>{
          "config.json has attention_dropout=0.1, and this run drops nothing there: train.attention_dropout=0.1 trains as it says, "
          "train.attention_dropout=0 says that none is meant"});
  c.train.attention_dropout = 0.3, c.sources["train.attention_dropout"] = "run.yaml:3";
  EXPECT_TRUE(likely_mistakes(c).empty());
  model["hidden_dropout"] = 0.25;
  spill(f / "config.json", model.dump());
  EXPECT_TRUE(warns(c, "hidden_dropout=0.25")) << "the other one";
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
  EXPECT_EQ(likely_mistakes(c),
            std::vector<std::string>{fmt::format("{}: documents fill {} % of a sequence of {}: data.pack=true would join them",
                                                 f / "a.jsonl", 100 * tokens / (4 * (2 * least + 2)), 2 * least + 2)});
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
    for (int i = 0; i < longer; ++i)
      text += Json{{"instruction", "a"},
                   {"output", std::string(500, 'y') + " z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z z"}}
                  .dump() +
              "\n";
    for (int i = 0; i < empty; ++i) text += Json{{"messages", {{{"role", "user"}, {"content", "a"}}}}}.dump() + "\n";
    spill(f / "a.jsonl", text);
  };
  Config c = plain();
  c.model.tokenizer = kTokenizer;
  c.data.chat_template = "chatml";
  c.data.sequence_length = 60;
  c.data.train.push_back({f / "a.jsonl"});
  auto mistakes = [&] { return likely_mistakes(c); };
  write(10, 1, 0);
  EXPECT_TRUE(mistakes().empty()) << mistakes()[0];
  write(9, 1, 0);
  EXPECT_EQ(
      mistakes(),
      std::vector<std::string>{
          (f / "a.jsonl") +
          ": 10 % of the first 10 conversations are longer than data.sequence_length=60 and are cut; data.sequence_length=640 would keep 100 % of them whole"});
  c.data.too_long = TooLong::drop;
  EXPECT_EQ(
      mistakes(),
      std::vector<std::string>{
          (f / "a.jsonl") +
          ": 10 % of the first 10 conversations are longer than data.sequence_length=60 and are left out; data.sequence_length=640 would keep 100 % of them whole"});
  write(200, 200, 0);
  EXPECT_TRUE(mistakes().empty()) << "the first 200 are looked at: " << mistakes()[0];
  spill(f / "a.jsonl", "");
  std::string text;
  for (int i = 0; i < 10; ++i)
    text += Json{{"messages",
                  i == 0 ? Json::array({{{"role", "user"}, {"content", "a"}}})
                         : Json::array({{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}})}}
                .dump() +
            "\n";
  spill(f / "a.jsonl", text);
  EXPECT_EQ(mistakes(),
            std::vector<std::string>{(f / "a.jsonl") + ": 1 of the first 10 conversations have no answer to learn"});
}

TEST(Advice, OfTokenFilesWithoutEnds) {
  TemporaryFolder f;
  const int32_t eos = *open_tokenizer(kTokenizer)->special().eos;
  auto write = [&](const std::vector<std::vector<int32_t>>& documents) {
    for (const char* ending : {".bin", ".idx"}) std::filesystem::remove(f / ("a" + std::string(ending)));
    IndexedWriter w(f.path(), "work", TokenType::i32, false);
    StoredDocuments d;
    for (const auto& ids : documents)
      d.add(TokenType::i32, ids, std::vector<int32_t>{static_cast<int32_t>(ids.size())}, "here");
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
  EXPECT_NE(lines[0].find("none of the first 2 documents ends with the tokenizer's end token ("), std::string::npos)
      << lines[0];
  EXPECT_NE(lines[0].find("): a model trained on them never learns to stop (preprocess --append-eod)"), std::string::npos)
      << lines[0];
  write({{5, 6}, {7, eos}});
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
}

TEST(Advice, OfFilesThatAreNamedTwice) {
  TemporaryFolder f;
  for (const char* name : {"a.txt", "b.txt"}) spill(f / name, "text\n");
  std::filesystem::create_symlink(f / "a.txt", f / "link.txt");
  Config c = plain();
  c.data.train = {{f / "a.txt"}, {f / "b.txt"}};
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
  c.data.train = {{f / "a.txt"}, {f.path() + "/./a.txt"}, {f / "b.txt"}, {f / "link.txt"}};
  const std::string whole = std::filesystem::weakly_canonical(f / "a.txt").string(),
                    other = std::filesystem::weakly_canonical(f / "b.txt").string();
  EXPECT_EQ(likely_mistakes(c),
            std::vector<std::string>{"data.train names " + whole +
                                     " twice: its text counts twice; weights say so plainly ({path: .., weight: 2})"})
      << "each once, by whatever name";
  c.data.train = {{f / "a.txt"}};
  c.data.valid = {{f / "b.txt"}};
  c.train.valid_every = 5;
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
  c.data.train.push_back({f / "b.txt"});
  c.data.valid.push_back({f / "b.txt"});
  EXPECT_EQ(
      likely_mistakes(c),
      std::vector<std::string>{
          "data.valid names " + other +
          ", which data.train trains on: the loss on it does not tell what is learned; data.valid=[] data.valid_fraction=0.05 holds out a part of it"});
}

TEST(Advice, OfThreads) {
  Config c = plain();
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  if (cores == 0) GTEST_SKIP() << "nobody knows how many cores there are";
  c.train.threads = cores;
  EXPECT_TRUE(likely_mistakes(c).empty());
  c.train.threads = cores + 1;
  EXPECT_TRUE(warns(
      c,
      fmt::format(
          "train.threads={} on {} core{}: they take turns, and each step waits for all of them; train.threads={} is as many as help",
          cores + 1, cores, cores == 1 ? "" : "s", cores)));
  const char* was = std::getenv("OMP_NUM_THREADS");
  const std::string had = was ? was : "";
  c.train.threads = 0;
  for (const char* text : {"x", "0", "-2", ""}) {
    setenv("OMP_NUM_THREADS", text, 1);
    EXPECT_TRUE(warns(c, fmt::format("OMP_NUM_THREADS='{}' is no number of threads, and has no effect", text))) << text;
  }
  c.train.threads = 1;
  EXPECT_TRUE(likely_mistakes(c).empty()) << "train.threads says how many";
  c.train.threads = 0;
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_TRUE(likely_mistakes(c).empty());
  was ? setenv("OMP_NUM_THREADS", had.c_str(), 1) : unsetenv("OMP_NUM_THREADS");
}

TEST(Advice, OfLinesAsWindowsWritesThem) {
  TemporaryFolder f;
  Config c = plain();
  c.model.tokenizer = kTokenizer;
  const std::string file = f / "my text.txt";
  c.data.train.push_back({file});
  const std::string advice =
      file +
      ": lines end with \\r\\n, as Windows writes them, and the model learns to write \\r too; a copy without: tr -d '\\r' < '" +
      file + "' > '" + (f / "my text.lf.txt") + "'";
  spill(file, "a\r\nb\nc\r\nd\n");  // half of them
  EXPECT_EQ(likely_mistakes(c), std::vector<std::string>{advice});
  spill(file, "a\r\nb\nc\nd\n");
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
  spill(f / "a.jsonl", Json{{"text", "a\r\nb\r\n"}}.dump() + "\n");
  c.data.train = {{f / "a.jsonl"}};
  ASSERT_EQ(likely_mistakes(c).size(), 1U) << "those inside records are told too";
  EXPECT_NE(likely_mistakes(c)[0].find(f / "a.jsonl"), std::string::npos) << likely_mistakes(c)[0];
}

TEST(Advice, OfVocabulariesAndEnds) {
  TemporaryFolder f;
  const int64_t ids = open_tokenizer(kTokenizer)->size();
  Config c = plain();
  c.model.config = f / "config.json";
  c.model.tokenizer = kTokenizer;
  c.data.sequence_length = 32;
  auto model = [&](int64_t rows) {
    Json j = tiny_llama();
    j["vocab_size"] = rows;
    spill(f / "config.json", j.dump());
  };
  model(2 * ids);
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
  model(2 * ids + 1);
  EXPECT_EQ(
      likely_mistakes(c),
      std::vector<std::string>{fmt::format(
          "the new model has a vocabulary of {}, the tokenizer {} ids: most rows of the embedding are never used; vocab_size of {} could be smaller",
          2 * ids + 1, ids, f / "config.json")});
  c.model.path = f.path(), c.model.config.clear();
  EXPECT_TRUE(likely_mistakes(c).empty()) << "a model that has weights has its vocabulary: " << likely_mistakes(c)[0];
  // The file alone says nothing of special tokens.
  std::filesystem::copy(kTokenizer + "tokenizer.json", f / "tokenizer.json");
  c.model.path.clear();
  c.model.tokenizer = f / "tokenizer.json";
  c.data.append_eos = true;
  EXPECT_EQ(
      likely_mistakes(c),
      std::vector<std::string>{"the tokenizer has no end token (eos), but data.append_eos=true puts it behind each document"});
  c.data.append_eos = false;
  EXPECT_TRUE(likely_mistakes(c).empty());
  c.data.append_eos = true, c.model.tokenizer = kTokenizer;
  EXPECT_TRUE(likely_mistakes(c).empty());
}

TEST(Advice, OfInstructionFilesAndWhatTheModelTakes) {
  TemporaryFolder f;
  auto write = [&](const std::string& name, const std::vector<std::vector<int32_t>>& rows) {
    IndexedWriter w(f.path(), "work", TokenType::i32, false);
    StoredDocuments d;
    for (const auto& ids : rows) d.add(TokenType::i32, ids, std::vector<int32_t>{static_cast<int32_t>(ids.size())}, "here");
    w.add_documents(d);
    w.finish();
    IndexedWriter::publish(f.path(), "work", f / name, true);
  };
  std::vector<std::vector<int32_t>> ids, ones, labels;
  auto make = [&](int longer, int silent) {
    ids.clear(), ones.clear(), labels.clear();
    for (int i = 0; i < 10; ++i) {
      const size_t n = i < longer ? 11 : 9;  // of which one fewer is predicted
      ids.emplace_back(n, 5), ones.emplace_back(n, 1), labels.emplace_back(n, i < 10 - silent ? 5 : -100);
    }
    write("x_packed_input_ids_document", ids), write("x_packed_attention_mask_document", ones),
        write("x_packed_labels_document", labels);
  };
  Config c = plain();
  c.data.train.push_back({f / "x"});
  c.data.sequence_length = 8;
  const std::string x = f / "x";
  make(0, 0);
  EXPECT_TRUE(likely_mistakes(c).empty()) << likely_mistakes(c)[0];
  make(0, 1);
  EXPECT_EQ(likely_mistakes(c), std::vector<std::string>{x + ": 1 of the first 10 conversations have no answer to learn"});
  make(1, 0);
  const std::string longer = x + ": 10 % of the first 10 conversations are longer than data.sequence_length=8 and are cut; ";
  EXPECT_EQ(likely_mistakes(c), std::vector<std::string>{longer + "data.sequence_length=64 would keep 100 % of them whole"});
  Json j = tiny_llama();
  c.model.config = f / "config.json";
  for (const auto& [most, rest] :
       {std::pair{9, "data.sequence_length=9 would keep 90 % of them whole"}, {8, "the model takes no longer ones"}}) {
    j["max_position_embeddings"] = most;
    spill(f / "config.json", j.dump());
    EXPECT_EQ(likely_mistakes(c), std::vector<std::string>{longer + rest});
  }
}

TEST(IdleOptions, AreThoseWhoseRanksAreNotThere) {
  Config c;
  EXPECT_TRUE(idle_options(c, Mesh{1, 1, 1}).empty());
  c.parallel.zero = 2, c.parallel.sequence = true, c.parallel.virtual_stages = 3;
  EXPECT_TRUE(idle_options(c, Mesh{2, 2, 2}).empty());
  EXPECT_EQ(idle_options(c, Mesh{2, 1, 2}),
            std::vector<std::string>{
                "parallel.zero=2 has no effect on one data rank: it divides what several data ranks hold alike"});
  EXPECT_EQ(idle_options(c, Mesh{2, 2, 1}),
            std::vector<std::string>{"parallel.sequence=true has no effect without tensor ranks (parallel.tensor)"});
  EXPECT_EQ(idle_options(c, Mesh{1, 2, 2}),
            std::vector<std::string>{"parallel.virtual=3 has no effect without pipeline stages (parallel.pipeline)"});
}

class CountedData : public Dataset {
 public:
  CountedData(int64_t samples, int64_t tokens) : samples_(samples), tokens_(tokens) {}
  int64_t sample_count() const override { return samples_; }
  int64_t columns() const override { return 10; }
  int64_t token_count() const override { return tokens_; }
  Sample sample(int64_t) const override { return {}; }
  std::string origin(int64_t) const override { return ""; }

 private:
  int64_t samples_, tokens_;
};

TEST(ScarceData, IsReportedForLessThanASequenceOrABatch) {
  Config c;
  c.train.global_batch = 4, c.train.steps = 6;
  EXPECT_EQ(
      scarce_data(c, CountedData(1, 9)),
      std::vector<std::string>{
          "the data are 9 tokens, less than one sequence of 10: the rest of it is padding; give more data, or a smaller data.sequence_length"});
  EXPECT_EQ(
      scarce_data(c, CountedData(1, 10)),
      std::vector<std::string>{
          "the data are 1 sequence, a step takes 4 (train.global_batch): each step sees them 4.0 times; give more data, or set train.global_batch=1"});
  EXPECT_EQ(
      scarce_data(c, CountedData(3, 30)),
      std::vector<std::string>{
          "the data are 3 sequences, a step takes 4 (train.global_batch): each step sees them 1.3 times; give more data, or set train.global_batch=3"});
  EXPECT_TRUE(scarce_data(c, CountedData(4, 40)).empty());
  EXPECT_DOUBLE_EQ(passes_over(c, CountedData(16, 160)), 1.5);
  c.data.order = SampleOrder::megatron;
  EXPECT_TRUE(scarce_data(c, CountedData(1, 9)).empty()) << "its samples are made for the run";
  EXPECT_EQ(passes_over(c, CountedData(16, 160)), 0);
}

TEST(ScarceData, PassesAndTimesInWords) {
  for (const auto& [passes, text] : {std::pair{0.42, "0.42 passes"},
                                     {1.0, "1.00 pass"},
                                     {1.004, "1.00 pass"},
                                     {1.01, "1.01 passes"},
                                     {9.99, "9.99 passes"},
                                     {10.0, "10 passes"},
                                     {584.6, "585 passes"}})
    EXPECT_EQ(passes_text(passes), text);
  EXPECT_EQ(roughly(0.99), "less than 1 s");
  EXPECT_EQ(roughly(1), "about 1.0 s");
  EXPECT_EQ(roughly(200), "about 3m 20s");
}

}  // namespace test_train_advice
}  // namespace ravine
