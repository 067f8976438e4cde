// Losses of preference pairs against PyTorch's autograd (tests/golden/dpo), and preferences out of records.
#include "step/preference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "data/instruct/preference.h"

namespace ravine {
namespace test_step_preference {

TEST(Preference, LossesAndDerivativesEqualTorch) {
  const Json golden = read_json(RAVINE_SOURCE_DIR "/tests/golden/dpo/dpo.json");
  ASSERT_EQ(golden["rewards"].size(), 20U);
  for (const Json& g : golden["rewards"]) {
    DpoOptions o;
    o.loss = *value_named<PreferenceLossType>(g["options"][0].get<std::string>());
    o.beta = g["options"][1], o.label_smoothing = g["options"][2], o.ftx = g["options"][3];
    auto answer = [](const Json& a) { return AnswerLogProb{.model = a[0], .reference = a[1], .tokens = a[2]}; };
    const PairLoss p = pair_loss(o, answer(g["chosen"]), answer(g["rejected"]));
    // A handful of roundings of numbers up to the log-probabilities, times beta or (ipo) the slope.
    const double size =
        1200 * std::max({1.0, std::fabs(g["by"][0].get<double>()), std::fabs(g["by"][1].get<double>()), o.beta, o.ftx});
    EXPECT_NEAR(p.loss, g["loss"].get<double>(), 16 * size * 0x1p-53) << g.dump();
    EXPECT_NEAR(p.by_chosen, g["by"][0].get<double>(), 16 * size * 0x1p-53) << g.dump();
    EXPECT_NEAR(p.by_rejected, g["by"][1].get<double>(), 16 * size * 0x1p-53) << g.dump();
    EXPECT_EQ(p.chosen_reward, o.beta * (g["chosen"][0].get<double>() - g["chosen"][1].get<double>()));
    EXPECT_EQ(p.rejected_reward, o.beta * (g["rejected"][0].get<double>() - g["rejected"][1].get<double>()));
  }
}

TEST(Preference, DerivativesAreThoseOfTheLoss) {
  for (PreferenceLossType type : {PreferenceLossType::sigmoid, PreferenceLossType::hinge, PreferenceLossType::ipo}) {
    DpoOptions o;
    o.loss = type, o.beta = 0.3, o.ftx = 0.2, o.label_smoothing = type == PreferenceLossType::sigmoid ? 0.1 : 0;
    const AnswerLogProb c{-3, -2.5, 4}, r{-5, -5.5, 3};
    const double h = 0x1p-17;
    auto loss = [&](double dc, double dr) {
      AnswerLogProb chosen = c, rejected = r;
      chosen.model += dc, rejected.model += dr;
      return pair_loss(o, chosen, rejected).loss;
    };
    const PairLoss p = pair_loss(o, c, r);
    EXPECT_NEAR(p.by_chosen, (loss(h, 0) - loss(-h, 0)) / (2 * h), 1e-9);  // h^2, and 2^-53 / h
    EXPECT_NEAR(p.by_rejected, (loss(0, h) - loss(0, -h)) / (2 * h), 1e-9);
  }
}

Preference read(const char* text) { return read_preference(parse_json(text, "record"), "record"); }

// trl/data_utils.py, extract_prompt
TEST(Preference, ThePromptIsWhatBothAnswersBeginWith) {
  Preference p = read(R"({"chosen": "The sky is blue", "rejected": "The sky is green"})");
  EXPECT_EQ(p.prompt, "The sky is");
  EXPECT_EQ(p.chosen, " blue");
  EXPECT_EQ(p.rejected, " green");
  p = read(R"({"chosen": "ab", "rejected": "ac"})");
  EXPECT_EQ(p.prompt, "a");
  EXPECT_EQ(p.chosen, "b");
  EXPECT_EQ(p.rejected, "c");
  p = read(R"({"chosen": "same", "rejected": "same and more"})");  // the shorter keeps a character
  EXPECT_EQ(p.prompt, "sam");
  EXPECT_EQ(p.chosen, "e");
  EXPECT_EQ(p.rejected, "e and more");
  p = read(R"({"chosen": "xü", "rejected": "xö"})");  // whole characters, though the first bytes are alike
  EXPECT_EQ(p.prompt, "x");
  EXPECT_EQ(p.chosen, "ü");
  EXPECT_EQ(p.rejected, "ö");
  p = read(R"({"prompt": "Q", "chosen": "QA", "rejected": "QB"})");
  EXPECT_EQ(p.prompt, "Q");
  EXPECT_EQ(p.chosen, "QA");
  p = read(R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
               "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_TRUE(p.conversation);
  EXPECT_EQ(p.prompt_messages.size(), 1U);
  EXPECT_EQ(p.rejected_messages.size(), 2U);
}

TEST(Preference, FormsOfAlpacaAndShareGpt) {
  Preference p =
      read(R"({"system": "s", "history": [["q0", "a0"]], "instruction": "q", "input": "i", "chosen": "a", "rejected": "b"})");
  EXPECT_TRUE(p.conversation);
  EXPECT_EQ(p.prompt_messages.size(), 4U);
  EXPECT_EQ(p.prompt_messages[3]["content"], "q\ni");
  EXPECT_EQ(p.chosen_messages[4]["content"], "a");
  EXPECT_EQ(p.rejected_messages[4]["content"], "b");
  p = read(
      R"({"conversations": [{"from": "human", "value": "q"}], "chosen": {"from": "gpt", "value": "a"}, "rejected": {"from": "gpt", "value": "b"}})");
  EXPECT_EQ(p.prompt_messages.size(), 1U);
  EXPECT_EQ(p.chosen_messages[1]["role"], "assistant");
  EXPECT_EQ(p.rejected_messages[1]["content"], "b");
}

TEST(Preference, WrongRecordsNameTheKey) {
  for (const char* text :
       {R"({"chosen": "a"})", R"({"chosen": "a", "rejected": 1})", R"({"chosen": "a", "rejected": ""})", R"([1])",
        R"({"question": "q", "chosen": "a", "rejected": "b"})", R"({"instruction": "q", "chosen": ["a"], "rejected": "b"})",
        R"({"conversations": [], "chosen": "a", "rejected": "b"})"})
    EXPECT_THROW(read(text), UserError) << text;
}

}  // namespace test_step_preference
}  // namespace ravine
