// Advice for misspelled words and numbers: characters of other keyboards, numbers with units, words without their
// flags.
#include <gtest/gtest.h>

#include "base/cut_text.h"
#include "base/error.h"
#include "base/look_alike.h"
#include "config/command_line.h"
#include "config/other_names.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_spelled {

TEST(LookAlikes, AreNamedWithTheAsciiCharacter) {
  struct Case {
    const char *text, *plain, *advice;
  };
  for (const Case& c : {Case{"a\uff1db", "a=b", "'\uff1d' (U+FF1D) is a full-width '='"},
                        Case{"\uff5e", "~", "'\uff5e' (U+FF5E) is a full-width '~'"},
                        Case{"\uff01", "!", "'\uff01' (U+FF01) is a full-width '!'"},
                        Case{"a\u3000b", "a b", "a blank in it is the full-width one (U+3000)"},
                        Case{"a\u00a0b", "a b", "a blank in it is the no-break one (U+00A0)"},
                        Case{"a\u202fb", "a b", "a blank in it is the no-break one (U+202F)"},
                        Case{"a\u2003b", "a b", "a blank in it is the typographic one (U+2003)"},
                        Case{"\u2014x", "-x", "'\u2014' (U+2014) is a typographic '-'"},
                        Case{"\u2212"
                             "1",
                             "-1", "'\u2212' (U+2212) is a typographic '-'"},
                        Case{"\u2018x\u2019", "'x'", "'\u2018' (U+2018) is a typographic '''"},
                        Case{"\u201cx\u201d", "\"x\"", "'\u201c' (U+201C) is a typographic '\"'"},
                        Case{"a\u3001b", "a,b", "'\u3001' (U+3001) is the Chinese ','"},
                        Case{"1\u3002"
                             "5",
                             "1.5", "'\u3002' (U+3002) is the Chinese '.'"},
                        Case{"\u3010"
                             "1\u3011",
                             "[1]", "'\u3010' (U+3010) is the Chinese '['"},
                        Case{"a\u200bb", "ab", "a character that nobody sees (U+200B) stands in it"},
                        Case{"\ufeffx", "x", "a character that nobody sees (U+FEFF) stands in it"},
                        Case{"a\u00adb", "ab", "a character that nobody sees (U+00AD) stands in it"},
                        Case{"a\u2060", "a", "a character that nobody sees (U+2060) stands in it"},
                        Case{"plain", "plain", ""},
                        Case{"\u00e9\u65e5\U0001f600\uff5f", "\u00e9\u65e5\U0001f600\uff5f", ""},
                        Case{"\U0001f600\uff0c\u65e5\uff1a", "\U0001f600,\u65e5:", "'\uff0c' (U+FF0C) is a full-width ','"},
                        Case{"a\uff1d\xff\uff1d", "a=\xff\uff1d", "'\uff1d' (U+FF1D) is a full-width '='"}}) {
    EXPECT_EQ(with_plain_characters(c.text), c.plain);
    EXPECT_EQ(look_alike(c.text), c.advice) << c.text;
  }
}

TEST(CutText, EndsWithAWholeCharacter) {
  EXPECT_EQ(cut_text("abc", 3), "abc");
  EXPECT_EQ(cut_text("abc", 2), "ab");
  EXPECT_EQ(cut_text("a\u00e9", 2), "a");
  EXPECT_EQ(cut_text("a\u00e9", 3), "a\u00e9");
  const std::string face = "ab\U0001f600c";
  for (size_t most : {3, 4, 5}) EXPECT_EQ(cut_text(face, most), "ab") << most;
  EXPECT_EQ(cut_text(face, 6), "ab\U0001f600");
  EXPECT_EQ(cut_text(std::string(8, '\x80'), 6).size(), 3u) << "what is no UTF-8 loses 3 bytes at most";
  EXPECT_EQ(cut_text("\u00e9", 1), "");
  EXPECT_EQ(cut_text("", 0), "");
}

struct Figures {
  int64_t steps = 0, mb = 0, gib = 0, wait = 0, bytes = 0;
  double size = 0, share = 0, rate = 0;
  std::vector<double> betas;
  template <class V>
  void each(V&& v) {
    v("steps", steps, "steps of a run");
    v("mb", mb, "files of so many MB");
    v("gib", gib, "memory in GiB");
    v("wait", wait, "seconds of patience");
    v("bytes", bytes, "bytes of a text");
    v("size", size, "GB of memory");
    v("share", share, "part that is held out", between(0, 1));
    v("rate", rate, "a rate", above(0) & below(2));
    v("betas", betas, "two numbers");
  }
};

std::string fix_of(const std::string& key, const std::string& text) {
  Figures f;
  for (const Option& o : options_of(f, "try")) {
    if (o.key != key) continue;
    try {
      o.assign_text(text, "here");
    } catch (const UserError& e) {
      const std::string advice = e.what();
      return advice.substr(advice.rfind("; ") + 2);
    }
  }
  return "taken";
}

TEST(Numbers, InOtherSpellingsAreNormalized) {
  struct Case {
    const char *key, *text, *fix;
  };
  for (const Case& c : {Case{"steps", "1000", "taken"},
                        {"steps", "1e3", "taken"},
                        {"steps", "1,000", "write 1000"},
                        {"steps", "12,345,678", "write 12345678"},
                        {"steps", "1,2,3", "write a number"},
                        {"steps", "12,3,4", "write a number"},
                        {"rate", "0,5", "write 0.5"},
                        {"rate", "0,500", "write 0.500"},
                        {"rate", "1,25", "write 1.25"},
                        {"rate", "1,250.5", "write a number"},
                        {"share", "50%", "write 0.5"},
                        {"share", "12.5 %", "write 0.125"},
                        {"steps", "4k", "write 4000 or 4096"},
                        {"steps", "1.5K", "write 1500 or 1536"},
                        {"steps", "2m", "write 2000000 or 2097152"},
                        {"steps", "4ki", "write 4096"},
                        {"steps", "3x", "write a number"},
                        {"steps", "k", "write a number"},
                        {"mb", "8GB", "write 8000"},
                        {"mb", "8GiB", "write 8192"},
                        {"mb", "4m", "write 4"},
                        {"mb", "2T", "write 2000000"},
                        {"mb", "500k", "write a number"},
                        {"gib", "8g", "write 8"},
                        {"gib", "2TiB", "write 2048"},
                        {"gib", "500M", "write a number"},
                        {"size", "500MB", "write 0.5"},
                        {"size", "2.5t", "write 2500"},
                        {"wait", "30s", "write 30"},
                        {"wait", "5 min", "write 300"},
                        {"wait", "2m", "write 120"},
                        {"wait", "1.5h", "write 5400"},
                        {"wait", "2d", "write a number"},
                        {"bytes", "100b", "write 100"},
                        {"steps", "100b", "write a number"},
                        {"steps", "0.5", "a share is not taken here: write a whole number"},
                        {"steps", "-1.5", "write -2"},
                        {"steps", "7.4", "write 7"},
                        {"steps", "010", "write 10, or 8 if that is meant"},
                        {"steps", "-010", "write -10, or -8 if that is meant"},
                        {"steps", "+0_17", "write 17, or 15 if that is meant"},
                        {"steps", "0", "taken"},
                        {"rate", "01.5", "taken"},
                        {"rate", "010", "write 10, or 8 if that is meant"},
                        {"share", "90", "a share of one: write 0.9"},
                        {"share", "100", "a share of one: write 1"},
                        {"share", "101", "give a smaller value"},
                        {"share", "-0.1", "give a larger value"},
                        {"rate", "0", "give a larger value"},
                        {"rate", "2", "give a smaller value"},
                        {"rate", "1.999", "taken"},
                        {"steps", "\"7\"", "remove the quotes"},
                        {"steps", "1\uff10", "'\uff10' (U+FF10) is a full-width '0': write 10"},
                        {"betas", "0.9, 0.99", "write [0.9,0.99]"},
                        {"betas", "(0.9 0.99)", "write [0.9,0.99]"},
                        {"betas", "0.9;0.99", "write [0.9,0.99]"},
                        {"betas", "0.9 x", "write a number"},
                        {"betas", "0.9", "taken"}}) {
    EXPECT_EQ(fix_of(c.key, c.text), c.fix) << c.key << " " << c.text;
  }
}

// ---- words where no word is taken ----

struct TalkFlags {
  std::string model, prompt, prompts, kind = "cpu", system;
  bool json = false;
  template <class V>
  void each(V&& v) {
    v("model", model, "folder", same_as("model.path") & reads_folder());
    v("prompt", prompt, "text");
    v("prompts", prompts, "file", reads());
    v("kind", kind, "which", one_of({"cpu", "ref"}));
    v("system", system, "text");
    v("json", json, "JSON");
  }
};

struct FileFlags {
  std::string output;
  std::vector<std::string> input;
  template <class V>
  void each(V&& v) {
    v("input", input, "files", reads());
    v("output", output, "folder", writes());
  }
};

struct OneFlags {
  std::string path;
  template <class V>
  void each(V&& v) {
    v("path", path, "what", positional() & reads());
  }
};

struct NoFlags {
  template <class V>
  void each(V&&) {}
};

struct TokenFlags {
  std::string tokenizer;
  template <class V>
  void each(V&& v) {
    v("tokenizer", tokenizer, "folder", reads());
  }
};

template <class Flags>
std::string advice(const CommandSpec& spec, const std::vector<std::string>& args) {
  Flags flags;
  try {
    read_command_line(spec, options_of(flags), args);
  } catch (const UserError& e) {
    return e.what();
  }
  return "taken";
}

TEST(Words, WithoutAFlagGetTheFlag) {
  const TemporaryFolder f;
  namespace fs = std::filesystem;
  fs::create_directories(f / "model");
  fs::create_directories(f / "run");
  fs::create_directories(f / "texts");
  for (const char* file : {"model/config.json", "run/config.yaml", "other.yaml", "a.txt"}) spill(f / file, "");
  const CommandSpec talk{"talk", "talks", "ravine talk", "", {"model"}},
      train{"train", "trains", "ravine train", "", {"model", "data", "train"}}, files{"files", "reads", "ravine files", "", {}},
      one{"one", "shows", "ravine one", "", {}}, encode{"tokenizer encode", "ids", "ravine tokenizer encode", "", {}},
      decode{"tokenizer decode", "text", "ravine tokenizer decode", "", {}};
  struct Case {
    std::string advice, wanted;
  };
  for (const Case& c :
       {Case{advice<TalkFlags>(talk, {f / "model"}), "a model is given as --model " + (f / "model")},
        {advice<NoFlags>(train, {f / "model"}), "a model is given as model.path=" + (f / "model")},
        {advice<NoFlags>(train, {f / "model/config.json"}),
         "the shape of a new model is given as model.config=" + (f / "model/config.json")},
        {advice<TalkFlags>(talk, {f / "run"}), "a run's folder stands for its model: --model " + (f / "run")},
        {advice<NoFlags>(train, {f / "run"}), "a run is begun or gone on with by --config " + (f / "run/config.yaml")},
        {advice<NoFlags>(train, {f / "other.yaml"}), "a config is given as --config " + (f / "other.yaml")},
        {advice<NoFlags>(train, {f / "a.txt"}), "data are given as data.train=" + (f / "a.txt")},
        {advice<NoFlags>(train, {f / "texts"}), "data are given as data.train=" + (f / "texts")},
        {advice<TalkFlags>(talk, {f / "a.txt"}), "prompts of a file are given as --prompts " + (f / "a.txt")},
        {advice<FileFlags>(files, {f / "a.txt"}), "a file is given as --input " + (f / "a.txt")},
        {advice<TalkFlags>(talk, {"hello"}), "a prompt is given as --prompt hello"},
        {advice<TalkFlags>(talk, {"--prompts", f / "a.txt", "hello"}), "there is a prompt already: leave this word out"},
        {advice<TalkFlags>(talk, {"--prompt", "Once", "upon", "a"}),
         "a text with blanks stands in quotes: --prompt \"Once upon ..\""},
        {advice<TalkFlags>(talk, {"--kind", "cpu", "upon"}), "a prompt is given as --prompt upon"},
        {advice<TalkFlags>(talk, {"--system=Be", "kind"}), "did you mean '--kind'?"},
        {advice<TalkFlags>(talk, {"--json", "true"}), "--json is a switch: leave out 'true'"},
        {advice<TalkFlags>(talk, {"--json", "no"}), "--json is a switch: leave it out, or write --json=false"},
        {advice<NoFlags>(train, {"train.steps", "=", "3"}), "no blanks around '=': write train.steps=3"},
        {advice<NoFlags>(train, {"train.steps", "=3"}), "no blank before '=': write train.steps=3"},
        {advice<NoFlags>(train, {"train.steps", "3"}), "an option is written with its value: train.steps=3"},
        {advice<NoFlags>(train, {"train.steps"}), "an option is written with its value: train.steps=VALUE"},
        {advice<NoFlags>(train, {"train.steps", "train.seed=1"}), "an option is written with its value: train.steps=VALUE"},
        {advice<NoFlags>(train, {"train.freeze=[a,", "b]"}), "a value with blanks stands in quotes: 'train.freeze=[a, b]'"},
        {advice<NoFlags>(train, {"Train.Steps:=3"}), "write train.steps=3"},
        {advice<OneFlags>(one, {f / "a.txt", f / "other.yaml"}), "it takes one at a time: ravine one " + (f / "other.yaml")},
        {advice<TokenFlags>(encode, {"hello"}), "text comes from stdin: echo hello | ravine tokenizer encode --tokenizer DIR"},
        {advice<TokenFlags>(encode, {"--tokenizer", "t", "hello"}), "| ravine tokenizer encode --tokenizer t"},
        {advice<TokenFlags>(encode, {f / "model"}), "a tokenizer is given as --tokenizer " + (f / "model")},
        {advice<TokenFlags>(decode, {"[1,", "2,30]"}),
         "ids come from stdin: echo '[1, 2, 30]' | ravine tokenizer decode --tokenizer DIR"},
        {advice<NoFlags>(train, {"nonsense"}), "see `ravine train --help`"}})
    EXPECT_TRUE(c.advice.ends_with(c.wanted)) << c.advice << "\nwanted " << c.wanted;
}

TEST(Words, UnknownFlagsGetTheNameHere) {
  const CommandSpec talk{"talk", "talks", "ravine talk", "", {"model"}},
      train{"train", "trains", "ravine train", "", {"model", "data", "train"}};
  struct Case {
    std::string advice, wanted;
  };
  for (const Case& c :
       {Case{advice<NoFlags>(train, {"--train.steps=7"}), "options have no dashes: write train.steps=7"},
        {advice<NoFlags>(train, {"--train.steps", "7"}), "options have no dashes: write train.steps=7"},
        {advice<NoFlags>(train, {"--train.steps"}), "options have no dashes: write train.steps=VALUE"},
        {advice<NoFlags>(train, {"--train.steps", "train.seed=1"}), "options have no dashes: write train.steps=VALUE"},
        {advice<NoFlags>(train, {"--sequence-length", "64"}), "data.sequence_length=64"},
        {advice<TalkFlags>(talk, {"--sys", "x"}), "did you mean '--system'?"},
        {advice<TalkFlags>(talk, {"--promt", "x"}), "did you mean '--prompt'?"}})
    EXPECT_TRUE(c.advice.ends_with(c.wanted)) << c.advice << "\nwanted " << c.wanted;
}

}  // namespace test_spelled
}  // namespace ravine
