// Tests of parsed answers, scores, tables of questions, and the sandbox. Expected values are Python's results of
// ModelLink's expressions, numbers computed by hand, and SciPy's for McNemar's test.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "data/handlers/packed.h"
#include "eval/answers.h"
#include "eval/code_run.h"
#include "eval/compare.h"
#include "eval/csv_rows.h"
#include "eval/evaluation.h"
#include "eval/own_examples.h"
#include "eval/python_text.h"
#include "eval/subjects.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_eval {

TEST(Answers, Mmlu) {
  const std::pair<const char*, const char*> cases[] = {{" B", "B"},
                                                       {"B. because", "B"},
                                                       {"The answer is C.", "C"},
                                                       {"\n\nD", "D"},
                                                       {"Choose A. or, better, D. and no other", "D"},
                                                       {"", ""},
                                                       {"b", ""},
                                                       {"|", ""},
                                                       {"E", ""},
                                                       {"ABCD", "A"},
                                                       {"A\nB. on the next line", "A"},
                                                       {"Dog. A", "D"},
                                                       {"none", ""},
                                                       {".", ""}};
  for (const auto& [answer, want] : cases) EXPECT_EQ(parse_mmlu(answer), want) << answer;
}

TEST(Answers, Gsm8k) {
  const std::pair<const char*, const char*> cases[] = {{"\n\nA:We add. The answer is 160.", "160"},
                                                       {"The answer is $1,234.50.", "1234"},
                                                       {"The answer is 72\n\nQ: Next? The answer is 9.", ""},
                                                       {"The answer is 5.\n\nQ: Next? The answer is 9.", "5"},
                                                       {"Q: The answer is 5.", ""},
                                                       {"The answer is 320 apples. The answer is 4.", "320"},
                                                       {"The answer is 7", "7"},
                                                       {"The answer is ", ""}};
  for (const auto& [answer, want] : cases) EXPECT_EQ(parse_gsm8k(answer), want) << answer;
}

TEST(Answers, TheOthers) {
  EXPECT_EQ(parse_agieval(" (E)\n\nProblem 7."), "E");
  EXPECT_EQ(parse_agieval("(A) and (B)\n"), "A and B");
  EXPECT_EQ(parse_bbh("\n No\nQ:"), "No");
  EXPECT_EQ(parse_ceval(" C"), "C");
  EXPECT_EQ(parse_ceval("\xE3\x80\x80"
                        "C"),
            "C");  // an ideographic blank
  EXPECT_EQ(parse_boolq(" Yes."), "T");
  EXPECT_EQ(parse_boolq("no"), "F");
  EXPECT_EQ(parse_boolq("maybe"), "");
}

// Texts of random bytes and of pieces that parsers look for: they end, and say nothing that is not there.
TEST(Answers, TakeAnyText) {
  std::mt19937 random(1);
  const std::string pieces[] = {"The answer is ",    "Q:", "\n", ".", "A", "|", "$", "(", " ", "\xE3\x80", "\xFF",
                                std::string(1, '\0')};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (uint32_t k = random() % 12; k > 0; --k) text += pieces[random() % std::size(pieces)];
    for (auto* parse : {parse_boolq, parse_mmlu, parse_gsm8k, parse_agieval, parse_bbh, parse_ceval})
      EXPECT_LE(parse(text).size(), text.size());
  }
  const std::string long_text(4 << 20, 'A');
  EXPECT_EQ(parse_mmlu(long_text), "A");
}

TEST(PythonText, StripsCountsAndCapitalises) {
  EXPECT_EQ(strip(" \t\xC2\xA0x y\xE3\x80\x80\n"), "x y");
  EXPECT_EQ(strip("\x1c\x1fx"), "x");
  EXPECT_EQ(strip_left("  x "), "x ");
  EXPECT_EQ(count_characters("(B)国庆节"), 6);
  EXPECT_EQ(capitalise("the Brown DOG"), "The brown dog");
  EXPECT_EQ(replaced("a[title][title]", "[title]", "."), "a..");
}

TEST(CsvRows, QuotesLinesAndErrors) {
  const auto rows = parse_csv_rows("\xEF\xBB\xBF\"a \"\"b\"\"\nc\",2\r\n\r\n,\"\"\nlast", "t.csv");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].fields, (std::vector<std::string>{"a \"b\"\nc", "2"}));
  EXPECT_EQ(rows[1].fields, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(rows[1].line, 4);
  EXPECT_EQ(rows[2].fields, (std::vector<std::string>{"last"}));
  EXPECT_THROW(parse_csv_rows("\"open", "t.csv"), UserError);
  EXPECT_THROW(parse_csv_rows("\"a\"b", "t.csv"), UserError);
  EXPECT_THROW(parse_csv_rows("\xFF", "t.csv"), UserError);
}

TEST(Subjects, CategoriesAndNames) {
  EXPECT_EQ(categories_of("mmlu", "anatomy"), std::vector<std::string>{"stem"});
  EXPECT_EQ(categories_of("ceval", "college_physics"), (std::vector<std::string>{"stem", "hard"}));
  EXPECT_TRUE(categories_of("bbh", "anatomy").empty());
  EXPECT_EQ(chinese_name_of("law"), "法学");
  EXPECT_EQ(chinese_name_of("unknown"), "unknown");
}

TEST(Results, ErrorsOfMeansAndPooled) {
  const Task& mmlu = find_task("mmlu", Protocol::likelihood);
  std::vector<Outcome> outcomes;
  for (const bool right : {true, true, true, false}) outcomes.push_back({"anatomy", right, false});
  for (const bool right : {true, false}) outcomes.push_back({"law_of_nothing", right, false});
  const TaskResult plain = score(mmlu, Protocol::generate, outcomes);
  EXPECT_NEAR(plain.total.accuracy(), 4.0 / 6, 1e-15);
  EXPECT_NEAR(plain.stderr_accuracy, std::sqrt(4.0 / 6 * 2 / 6 / 5), 1e-15);
  // Samples have variances 1/4 and 1/2: (3 / 4 + 1 / 2) / (6 - 2) over 6.
  EXPECT_NEAR(score(mmlu, Protocol::likelihood, outcomes).stderr_accuracy, std::sqrt(1.25 / 4 / 6), 1e-15);
  EXPECT_EQ(plain.categories.at("stem").n, 4);
  EXPECT_EQ(plain.subjects.size(), 2U);
  EXPECT_EQ(score(mmlu, Protocol::generate, {{"anatomy", true, false}}).stderr_accuracy, 0);
}

// scipy.stats.binomtest(b, b + c).pvalue
TEST(Compare, McNemar) {
  EXPECT_NEAR(mcnemar(0, 0), 1, 1e-12);
  EXPECT_NEAR(mcnemar(3, 3), 1, 1e-12);
  EXPECT_NEAR(mcnemar(1, 9), 0.021484375, 1e-12);
  EXPECT_NEAR(mcnemar(9, 1), 0.021484375, 1e-12);
  EXPECT_NEAR(mcnemar(0, 10), 0.001953125, 1e-12);
}

TEST(Tasks, UnknownNamesAndProtocols) {
  const auto message = [](const char* name, Protocol p) -> std::string {
    try {
      find_task(name, p);
      return "";
    } catch (const UserError& e) {
      return e.what();
    }
  };
  EXPECT_NE(message("boolqq", Protocol::generate).find("did you mean boolq"), std::string::npos);
  EXPECT_NE(message("zzz", Protocol::generate).find("hellaswag"), std::string::npos);
  EXPECT_NE(message("piqa", Protocol::generate).find("likelihood"), std::string::npos);
  EXPECT_NE(message("gsm8k", Protocol::likelihood).find("generate"), std::string::npos);
  EXPECT_EQ(message("mmlu", Protocol::likelihood), "");
}

TEST(Templates, KeysAndTexts) {
  const Templates t = Templates::parse(
      parse_json(R"({"template": "<{instruction}>", "bbh": {"logical_deduction": "x"}, "agieval": {"math": ["a", "b", "c"]}})",
                 "t"),
      "t");
  EXPECT_EQ(t.wrap("p"), "<p>");
  EXPECT_EQ(t.get("bbh", "logical_deduction_five_objects").at(0), "x");
  EXPECT_EQ(t.get("agieval", "math").size(), 3U);
  EXPECT_THROW(t.get("gsm8k", "few_shot"), UserError);
  for (const char* bad : {"[]", R"({"gsm": {}})", R"({"template": "x"})", R"({"bbh": "x"})", R"({"agieval": {"math": ["a"]}})"})
    EXPECT_THROW(Templates::parse(parse_json(bad, "t"), "t"), UserError) << bad;
}

int64_t count_of(const std::string& text, const std::string& word) {
  int64_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// Every subject of the benchmarks has as many examples as ModelLink shows, in the form of the questions.
TEST(OwnExamples, EverySubjectHasAsManyAsAreShown) {
  Templates t;
  t.fill(Templates::parse(own_examples(), "our own"));
  EXPECT_EQ(count_of(t.get("gsm8k", "few_shot").at(0), "The answer is "), 3);
  for (const char* task : {"boolean_expressions",
                           "causal_judgement",
                           "date_understanding",
                           "disambiguation_qa",
                           "dyck_languages",
                           "formal_fallacies",
                           "geometric_shapes",
                           "hyperbaton",
                           "logical_deduction_five_objects",
                           "logical_deduction_seven_objects",
                           "logical_deduction_three_objects",
                           "movie_recommendation",
                           "multistep_arithmetic_two",
                           "navigate",
                           "object_counting",
                           "penguins_in_a_table",
                           "reasoning_about_colored_objects",
                           "ruin_names",
                           "salient_translation_error_detection",
                           "snarks",
                           "sports_understanding",
                           "temporal_sequences",
                           "tracking_shuffled_objects_five_objects",
                           "tracking_shuffled_objects_seven_objects",
                           "tracking_shuffled_objects_three_objects",
                           "web_of_lies",
                           "word_sorting"}) {
    const std::string text = t.get("bbh", task).at(0);
    EXPECT_EQ(count_of(text, "\nA: "), 3) << task;
    EXPECT_TRUE(text.ends_with("\n\n")) << task;
  }
  const std::map<std::string, int64_t> shots = {{"aqua-rat", 5},         {"gaokao-biology", 5},
                                                {"gaokao-chemistry", 5}, {"gaokao-chinese", 1},
                                                {"gaokao-english", 1},   {"gaokao-geography", 5},
                                                {"gaokao-history", 5},   {"gaokao-mathcloze", 5},
                                                {"gaokao-mathqa", 5},    {"gaokao-physics", 5},
                                                {"jec-qa-ca", 3},        {"jec-qa-kd", 4},
                                                {"logiqa-en", 2},        {"logiqa-zh", 3},
                                                {"lsat-ar", 2},          {"lsat-lr", 1},
                                                {"lsat-rc", 1},          {"math", 4},
                                                {"sat-en", 1},           {"sat-en-without-passage", 3},
                                                {"sat-math", 5}};
  for (const auto& [subject, n] : shots) {
    const std::vector<std::string>& texts = t.get("agieval", subject);
    EXPECT_EQ(count_of(texts.at(0), texts.at(2)), n) << subject;
    EXPECT_TRUE(texts[0].ends_with(fmt::format("{}.", n + 1))) << subject;
  }
  EXPECT_EQ(t.source("bbh", "logical_deduction_five_objects"), "our own");
  EXPECT_EQ(t.source("bbh", "riddles"), "");
}

TEST(JudgedProgram, KeepsWhatModelLinkKeeps) {
  EXPECT_EQ(
      judged_program("import re\n\nX = 1\ndef f(a):\n    \"\"\" x \"\"\"\n    return a\n\nprint('done')\n    y\n", "T", "f"),
      "from typing import List\nimport math\nimport re\ndef f(a):\n    \"\"\" x \"\"\"\n    return a\nT\ncheck(f)\n");
  EXPECT_EQ(judged_program("python\nY\ndef ff(a):\n  1\nZ\ndef f():\n  2\ndef g():\n  3\nZ", "T", "f"),
            "from typing import List\nimport math\ndef ff(a):\n  1\ndef f():\n  2\ndef g():\n  3\nT\ncheck(f)\n");
}

// Nothing where this machine allows none; `why`: what it says of itself.
std::unique_ptr<Sandbox> sandbox_or_nothing(std::string& why, SandboxLimits limits = {}) {
  try {
    return std::make_unique<Sandbox>(limits);
  } catch (const UserError& e) {
    why = e.what();
    return nullptr;
  }
}

TEST(Sandbox, EndsOrNot) {
  std::string why;
  const auto box = sandbox_or_nothing(why, {.seconds = 1});
  if (!box) GTEST_SKIP() << why;
  EXPECT_TRUE(box->passes("x = 1"));
  EXPECT_TRUE(box->passes("import math, re, json, collections, threading"));
  for (const char* bad :
       {"raise ValueError", "import sys\nsys.exit(0)", "import os\nos._exit(0)", "while True: pass", "(",
        "x = [b'x' * (64 << 20) for _ in range(48)]", "import os\nos.fork()",
        "import threading\nthreading.Thread(target=print).start()",
        "import ctypes\nassert ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == 0", "import socket\nsocket.socket()",
        "import socket\nsocket.socketpair()", "import os\nos.memfd_create('x')", "open('/usr/ravine_escape', 'w')",
        "open('/proc/self/status')", "open('/box/x', 'w').write('x' * (32 << 20))",
        "import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0", "import os\nassert os.environ.get('PATH')",
        "import os\nassert os.listdir('/home')"})
    EXPECT_FALSE(box->passes(bad)) << bad;
  EXPECT_TRUE(box->passes("import ctypes\nassert ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == -1")) << "it ends with us";
  EXPECT_TRUE(box->passes("import time\ntime.sleep(1.3)")) << "what counts is computing: other work may slow it down";
  EXPECT_TRUE(box->passes("open('/box/x', 'w').write('x')"));
  EXPECT_TRUE(box->passes("import os\nassert not os.path.exists('/box/x')"));  // each has a root of its own
  EXPECT_TRUE(box->passes("import os\nassert os.getpid() == 1 and os.getuid() == 65534"));
}

}  // namespace test_eval
}  // namespace ravine
