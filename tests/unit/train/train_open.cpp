// Tests of opening a config: the model with frozen and grouped parameters, vocabularies with tokenizers, and stop
// requests.
#include "runs/open.h"
#include "runs/run_state.h"

#include <signal.h>

#include <filesystem>

#include "runs/stop_request.h"
#include "runs/vocabulary.h"
#include "tests/unit/train_help.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace test_train_open {

const std::string kTokenizer = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/chat/";

TEST(OpenModel, RulesOfTheConfigReachTheirParameters) {
  TinyRunFolder run;
  Config c = run.config;
  c.train.freeze = {"model.embed*", "*.0.mlp.*"};
  c.optimizer.groups.push_back({.match = "*.q_proj.weight", .lr_mult = 0.5, .wd_mult = 3});
  c.optimizer.groups.push_back({.match = "lm_head.weight", .lr_mult = 2, .wd_mult = 0});
  const auto model = open_run_model(c);
  for (const Param& p : model->params().params()) {
    const bool frozen = p.name == "model.embed_tokens.weight" || p.name.starts_with("model.layers.0.mlp."),
               q = p.name.ends_with("q_proj.weight"), head = p.name == "lm_head.weight";
    EXPECT_EQ(p.policy.trainable, !frozen) << p.name;
    EXPECT_EQ(p.policy.lr_mult, q ? 0.5 : head ? 2 : 1) << p.name;
    EXPECT_EQ(p.policy.wd_mult, q ? 3 : head ? 0 : 1) << p.name;
  }
}

TEST(OpenModel, AModelIsNamed) {  // that two are not is the config's rule
  TinyRunFolder run;
  Config none = run.config;
  none.model.config.clear();
  EXPECT_NE(message_of<UserError>([&] { open_run_model(none); }).find("one of them must be given"), std::string::npos);
}

TEST(Vocabulary, OfANewModelGrowsWithItsTokenizer) {
  Config c;
  const Json model{{"vocab_size", 100}};
  EXPECT_EQ(run_vocabulary(c, model, 120), 120);
  EXPECT_EQ(run_vocabulary(c, model, 80), 100);
  c.model.path = "folder";
  EXPECT_EQ(run_vocabulary(c, model, 120), 100) << "weights that are there have their rows";
  c.model.vocabulary = -1;
  EXPECT_EQ(run_vocabulary(c, model, 120), 120);
  EXPECT_EQ(run_vocabulary(c, model, 80), 100) << "no row is lost that no number gives up";
  c.model.vocabulary = 64;
  EXPECT_EQ(run_vocabulary(c, model, 50), 64);
  c.model.vocabulary = 0;
  c.model.path.clear();
  EXPECT_EQ(run_vocabulary(c, Json{{"vocab_size", "x"}}, 120), 0) << "not known";
  EXPECT_EQ(vocabulary_problem(100, 100), "");
  EXPECT_EQ(vocabulary_problem(101, 100), "the tokenizer has 101 ids, the model a vocabulary of 100");
  EXPECT_EQ(vocabulary_problem(101, 0), "");
  TinyRunFolder run;
  run.config.model.tokenizer = kTokenizer;
  const int64_t ids = open_tokenizer(kTokenizer)->size();
  EXPECT_EQ(open_run_model(run.config)->facts().vocabulary, ids);
  std::ofstream(run.config.model.config) <<
      [&] {
        Json j = tiny_llama();
        j["vocab_size"] = ids + 5;
        return j;
      }()
          .dump();
  EXPECT_EQ(open_run_model(run.config)->facts().vocabulary, ids + 5);
}

TEST(OpenSources, RefusesWhatDoesNotFit) {
  TinyRunFolder run;
  spill(run.folder / "a.txt", "some text of a few words, long enough for a sequence or two of twelve tokens each");
  Config text = run.config;
  text.data.train = {{run.folder / "a.txt"}};
  text.data.valid.clear();
  ModelFacts facts;
  facts.vocabulary = 23, facts.max_positions = 32;
  EXPECT_NE(message_of<UserError>([&] { open_sources(text, facts); }).find("no tokenizer (model.tokenizer)"),
            std::string::npos);
  text.model.tokenizer = kTokenizer;
  EXPECT_NE(message_of<UserError>([&] { open_sources(text, facts); }).find("the model a vocabulary of 23"), std::string::npos);
  Config batches = run.config;
  facts.max_positions = kWidth;
  EXPECT_EQ(open_sources(batches, facts).tokenizer, nullptr) << "of ids no tokenizer is opened";
  facts.max_positions = kWidth - 1;
  EXPECT_NE(message_of<UserError>([&] { open_sources(batches, facts); }).find("the model has max_position_embeddings = 11"),
            std::string::npos);
  facts.max_positions = 0;
  EXPECT_NO_THROW(open_sources(batches, facts)) << "positions without end";
  facts.max_positions = kWidth;
  facts.vocabulary = 40;
  const Sources wider = open_sources(batches, facts);
  EXPECT_EQ(wider.data.notes.back(),
            fmt::format("the new model has the 40 ids of the tokenizer, not the 23 of {}", run.config.model.config));
}

// State goes into a checkpoint and comes back whole, under names that say what it is.
TEST(State, ComesBackUnderItsNames) {
  TinyRunFolder run;
  run.config.checkpoint.every = 4;
  run.config.optimizer.lr = 0.05;
  Trainer t(run.config, Backend::cpu, run.log);
  t.run();
  const CheckpointReader saved(run.config.train.output + "/checkpoints/step_000004", true);
  size_t weights = 0, m = 0, v = 0;
  for (const std::string& name : saved.names())
    weights += name.starts_with("weights/"), m += name.starts_with("m/"), v += name.starts_with("v/");
  EXPECT_EQ(weights, t.model().params().params().size());
  EXPECT_TRUE(m == weights && v == weights);
  EXPECT_EQ(checkpoint_scalar(saved, "optimizer_steps"), 4);
  EXPECT_NE(message_of<UserError>([&] { checkpoint_scalar(saved, "none"); }).find("checkpoint lacks 'none'"),
            std::string::npos);
  TinyRunFolder other;
  other.config.train.seed = 99;
  Trainer u(other.config, Backend::cpu, other.log);
  u.engine().allocate();
  restore(u.engine(), saved);
  EXPECT_EQ(u.engine().optimizer().steps(), 4);
  for (const Param& p : t.model().params().params()) {
    const TensorView a = t.engine().store().master(p), b = u.engine().store().master(*u.model().params().find(p.name));
    EXPECT_EQ(std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())), 0) << p.name;
  }
}

TEST(StopRequest, IsAFileInTheFolder) {
  TemporaryFolder f;
  EXPECT_FALSE(stop_requested(f.path()));
  request_stop(f.path());
  EXPECT_TRUE(stop_requested(f.path()) && f.has("stop"));
  request_stop(f.path());
  clear_stop_request(f.path());
  EXPECT_FALSE(f.has("stop"));
}

}  // namespace test_train_open
}  // namespace ravine
