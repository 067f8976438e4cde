// Models with another vocabulary, or another tie of embedding and head, than their files: configs, names, the rows that
// are read and the new ones, and refused cases.
#include "model/vocabulary.h"

#include <gtest/gtest.h>

#include "io/huggingface.h"
#include "tests/unit/families.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_model_vocabulary {

const std::vector<std::string> kFamilies = {"llama", "gpt2", "bloom", "gemma2", "baichuan2-7b", "pythia"};

VocabularyChange change(const Model& m, int64_t rows) {
  return {.rows = rows, .tied = is_tied(m), .where = "model.vocabulary"};
}

// Returns the initial values of a run of `model` that reads the files of `folder`.
std::map<std::string, std::vector<double>> begun(const std::string& folder, Model& model) {
  FlatStore store(model.params(), Types::of(DType::f64), DeviceKind::cpu);
  load_weights(folder, model, store);
  std::map<std::string, std::vector<double>> out;
  for (const Param& p : model.params().params())
    if (!p.tied) {
      const double* v = store.master(p).as<double>();
      out[p.name].assign(v, v + p.shape.count());
    }
  return out;
}

std::vector<double> mean_row(const std::vector<double>& table, int64_t rows) {
  const size_t wide = table.size() / static_cast<size_t>(rows);
  std::vector<double> sum(wide);
  for (size_t i = 0; i < table.size(); ++i) sum[i % wide] += table[i];
  for (double& x : sum) x /= static_cast<double>(rows);
  return sum;
}

TEST(Vocabulary, RowsAreKeptAndMade) {
  for (const std::string& family : kFamilies)
    for (const DType stored : {DType::f32, DType::bf16}) {
      TinyRun run(tiny_families().at(family), DType::f32, Recompute::none);
      TemporaryFolder dir;
      save_model_folder({dir / "m", stored}, *run.model, run.store);
      const auto base = open_model(dir / "m");
      const auto was = begun(dir / "m", *open_model(dir / "m"));
      for (const int64_t rows : {19, 18, 23, 40}) {
        const auto model = with_vocabulary(*base, change(*base, rows));
        EXPECT_EQ(model->config().at("vocab_size"), rows) << family;
        EXPECT_EQ(model->facts().vocabulary, rows);
        EXPECT_EQ(model->stored_vocabulary().has_value(), rows != 19);
        EXPECT_EQ(is_tied(*model), is_tied(*base)) << family;
        EXPECT_EQ(vocabulary_text(*model).empty(), rows == 19);
        const auto now = begun(dir / "m", *model);
        ASSERT_EQ(now.size(), was.size());
        for (const auto& [name, values] : now) {
          const std::vector<double>& old = was.at(name);
          const size_t kept = std::min(values.size(), old.size());
          EXPECT_TRUE(std::equal(values.begin(), values.begin() + static_cast<int64_t>(kept), old.begin()))
              << family << " " << name;
          if (name != kEmbedding && name != kHead) {
            EXPECT_EQ(values.size(), old.size()) << name;
            continue;
          }
          const std::vector<double> mean = mean_row(old, 19);
          EXPECT_EQ(values.size(), static_cast<size_t>(rows) * mean.size());
          for (size_t i = kept; i < values.size(); ++i)
            ASSERT_EQ(values[i], mean[i % mean.size()]) << family << " " << name << " " << i;
        }
        check_weights(dir / "m", *model);
      }
    }
}

TEST(Vocabulary, NormalRowsAreThoseOfANewModel) {
  TinyRun run(tiny_families().at("llama"), DType::f32, Recompute::none);
  TemporaryFolder dir;
  save_model_folder({dir / "m", DType::f32}, *run.model, run.store);
  const auto base = open_model(dir / "m");
  VocabularyChange requested = change(*base, 23);
  requested.new_rows = NewRows::normal, requested.seed = 5;
  const auto model = with_vocabulary(*base, requested);
  const auto now = begun(dir / "m", *model);
  Json wide = tiny_families().at("llama");
  wide["vocab_size"] = 23;
  const auto fresh = make_model(wide, "test");
  FlatStore drawn(fresh->params(), Types::of(DType::f64), DeviceKind::cpu);
  initialise(fresh->params(), drawn, 5);
  for (const char* name : {kEmbedding, kHead}) {
    const double* want = drawn.master(*fresh->params().find(name)).as<double>();
    for (size_t i = size_t{19} * 12; i < size_t{23} * 12; ++i) ASSERT_EQ(now.at(name)[i], want[i]) << name << " " << i;
  }
}

TEST(Vocabulary, TablesArePartedAndJoined) {
  for (const char* family : {"llama", "gemma2", "pythia", "gpt2"}) {
    TinyRun run(tiny_families().at(family), DType::f32, Recompute::none);
    TemporaryFolder dir;
    save_model_folder({dir / "m", DType::f32}, *run.model, run.store);
    const auto base = open_model(dir / "m");
    const auto was = begun(dir / "m", *open_model(dir / "m"));
    for (const int64_t rows : {19, 21}) {
      VocabularyChange other = change(*base, rows);
      other.tied = !other.tied;
      const auto model = with_vocabulary(*base, other);
      EXPECT_EQ(model->config().at("tie_word_embeddings"), other.tied) << family;
      const auto now = begun(dir / "m", *model);
      EXPECT_EQ(now.contains(kHead), !other.tied) << family;
      if (!other.tied) {
        EXPECT_EQ(now.at(kHead), now.at(kEmbedding)) << family;
      }
      EXPECT_TRUE(std::equal(was.at(kEmbedding).begin(), was.at(kEmbedding).end(), now.at(kEmbedding).begin())) << family;
    }
  }
}

// Fields that followed from the vocabulary without being in the config are written into it.
TEST(Vocabulary, IdsThatTheModelNamesKeepARow) {
  Json llama = tiny_families().at("llama");
  for (const char* key : {"eos_token_id", "bos_token_id", "pad_token_id"}) {
    Json config = llama;
    config[key] = 17;
    const auto base = make_model(config, "test");
    const std::string text = message_of<UserError>([&] { with_vocabulary(*base, change(*base, 17)); });
    for (const char* part : {"a vocabulary of 17", key, "is 17", "ask for 18 rows or more", "model.vocabulary"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(with_vocabulary(*base, change(*base, 18))->facts().vocabulary, 18);
  }
}

}  // namespace test_model_vocabulary
}  // namespace ravine
