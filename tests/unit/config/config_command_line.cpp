#include "config/command_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "config/command_help.h"

using namespace ravine;

namespace test_config_command_line {

struct Flags {
  std::string model, prompt, backend = "cpu", out;
  std::vector<std::string> input;
  std::vector<int64_t> sizes;
  int64_t top_k = 50, threads = 0;
  double temperature = 1;
  bool json = false, no_special = false, tensorboard = true;
  std::string action;
  std::vector<std::string> files;
  template <class V>
  void each(V&& v) {
    v("model", model, "model folder", same_as("model.path") & metavar("DIR") & required());
    v("prompt", prompt, "text to continue");
    v("backend", backend, "who computes", one_of({"cpu", "ref", "cuda"}));
    v("out", out, "file to write", metavar("FILE"));
    v("input", input, "files to read");
    v("sizes", sizes, "numbers");
    v("top-k", top_k, "most likely tokens", at_least(0));
    v("temperature", temperature, "temperature", above(0));
    v("threads", threads, "threads", same_as("train.threads"));
    v("tensorboard", tensorboard, "events", same_as("log.tensorboard"));
    v("json", json, "JSON out");
    v("no-special", no_special, "no special tokens");
    v("action", action, "what to do", positional() & one_of({"", "encode", "decode"}));
    v("files", files, "files", positional());
  }
};

const CommandSpec kSpec{"try", "tries", "ravine try --model DIR", "", {"model", "train"}};

struct Result {
  Flags flags;
  Config config;
};

Result read(const std::vector<std::string>& args, const CommandSpec& spec = kSpec, const ForeignWords& words = {}) {
  Result r;
  r.config = read_command_line(spec, options_of(r.flags), args, words);
  return r;
}

std::string error_of(const std::vector<std::string>& args, const CommandSpec& spec = kSpec, const ForeignWords& words = {}) {
  try {
    read(args, spec, words);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(CommandLine, ReadsEveryKindOfFlag) {
  Result r =
      read({"--model",   "a: *b",        "--prompt=--x y", "encode", "--json",           "--input", "A", "B",  "train.steps=3",
            "--input=C", "--no-special", "--top-k",        "7",      "--temperature=.5", "--sizes", "1", "-2", "--",
            "--f",       "x=y"});
  EXPECT_EQ(r.flags.model, "a: *b") << "text flags are literal";
  EXPECT_EQ(r.config.model.path, "a: *b");
  EXPECT_EQ(r.flags.prompt, "--x y");
  EXPECT_EQ(r.flags.action, "encode");
  EXPECT_TRUE(r.flags.json && r.flags.no_special);
  EXPECT_EQ(r.flags.input, (std::vector<std::string>{"A", "B", "C"}));
  EXPECT_EQ(r.flags.sizes, (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(r.flags.top_k, 7);
  EXPECT_EQ(r.flags.temperature, 0.5);
  EXPECT_EQ(r.config.train.steps, 3);
  EXPECT_EQ(r.flags.files, (std::vector<std::string>{"--f", "x=y"}));
  EXPECT_EQ(read({"--model=m", "--input", "1", "yes"}).flags.input, (std::vector<std::string>{"1", "yes"}));
  EXPECT_FALSE(read({"--model=m", "--json=false"}).flags.json);
}

TEST(CommandLine, ShorthandsAreConfigOptions) {
  EXPECT_EQ(read({"--model", "a", "model.path=b"}).flags.model, "b") << "the later wins";
  EXPECT_EQ(read({"model.path=b", "--model", "a"}).config.model.path, "a");
  EXPECT_EQ(read({"model.path=b", "train.threads=2"}).flags.threads, 2);
  EXPECT_EQ(read({"model.path=b", "--threads", "3"}).config.train.threads, 3);
  EXPECT_FALSE(read({"model.path=b", "--tensorboard=no"}).config.log.tensorboard);
  EXPECT_FALSE(read({"model.path=b", "--tensorboard=no"}).flags.tensorboard);
}

TEST(CommandLine, FileBelowCommandLine) {
  auto path = std::filesystem::temp_directory_path() / ("ravine_command_line_" + std::to_string(::getpid()) + ".yaml");
  std::ofstream(path) << "model: {path: m}\ntrain: {steps: 4, seed: 5}\noptimizer: {lr: 1}\n";
  Result r = read({"train.steps=6", "--config", path.string()});
  std::filesystem::remove(path);
  EXPECT_EQ(r.config.train.steps, 6);
  EXPECT_EQ(r.config.train.seed, 5);
  EXPECT_EQ(r.config.optimizer.lr, 1) << "a file may hold sections that the command does not take";
  EXPECT_EQ(r.flags.model, "m");
}

// The caller passes the tables of other programs.
TEST(CommandLine, WordsOfOtherProgramsLeadToOptions) {
  const ForeignWords words = [](const std::string& word) -> std::vector<ForeignWord> {
    if (word == "lr") return {{"ravine other", "optimizer.lr", true, "", ""}, {"ravine other", "train.seed", true, "", ""}};
    if (word == "samples") return {{"ravine other", "train.steps", false, "", ""}};
    if (word == "init") return {{"ravine other", "schedule.lr_warmup_init", true, " (type other)", ""}};
    if (word == "fused") return {{"ravine other", "", false, "", "leave it out: it always is"}};
    return {};
  };
  const std::pair<const char*, const char*> cases[] = {
      {"--lr=7", "here it is train.seed=7"},       // optimizer is no section of this command
      {"--samples=80", "here it is train.steps"},  // as many as something else
      {"--fused", "leave it out: it always is"},
  };
  for (const auto& [word, advice] : cases) {
    const std::string message = error_of({"--model=m", word}, kSpec, words);
    EXPECT_NE(message.find(advice), std::string::npos) << message;
  }
  EXPECT_EQ(other_name_advice(
                "init", [](const std::string&) { return true; }, "0", {}, words),
            "here it is schedule.lr_warmup_init=0 (type other)");
}

TEST(CommandLine, Errors) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--modle", "a"}, "unknown flag '--modle' (command line): try has no such flag; did you mean '--model'?"},
      {{"--confg", "a"}, "unknown flag '--confg' (command line): try has no such flag; did you mean '--config'?"},
      {{"--zzzzzz"}, "unknown flag '--zzzzzz' (command line): try has no such flag; see `ravine try --help`"},
      {{"-m"}, "unknown flag '-m' (command line): try has no such flag; here it is --model"},
      {{"--train.steps=3"},
       "unknown flag '--train.steps' (command line): try has no such flag; options have no dashes: write train.steps=3"},
      {{"--steps", "3"},
       "unknown flag '--steps' (command line): try has no such flag; options are written section.key=value: train.steps=3"},
      {{"--top_k", "3"}, "unknown flag '--top_k' (command line): try has no such flag; did you mean '--top-k'?"},
      {{"--inp", "a"}, "unknown flag '--inp' (command line): try has no such flag; did you mean '--input'?"},
      {{"--model"}, "--model has no value (command line): it needs one; write --model=DIR"},
      {{"--model", "--json"}, "--model has no value (command line): it needs one; write --model=DIR"},
      {{"--input", "--json"}, "--input has no value (command line): it needs one or more; write --input A B"},
      {{"--config"}, "--config has no value (command line): it needs one; write --config=VALUE"},
      {{}, "--model is missing (command line): try needs it: model folder; for example: ravine try --model DIR"},
      {{"--model=m", "--backend", "cup"},
       "--backend is 'cup' (command line): must be one of cpu, ref, cuda; did you mean 'cpu'?"},
      {{"--model=m", "--top-k", "x"}, "--top-k is 'x' (command line): must be a whole number; write a number"},
      {{"--model=m", "--top-k=-1"}, "--top-k is '-1' (command line): must be at least 0; give a larger value"},
      {{"--model=m", "--json=5"}, "--json is '5' (command line): must be true or false; write true or false"},
      {{"--model=m", "endcode"},
       "action is 'endcode' (command line): must be one of encode, decode, or empty; did you mean 'encode'?"},
      {{"optimizer.lr=1"}, "option 'optimizer.lr' (command line): try takes the sections model, train; remove it"},
      {{"trian.steps=1"},
       "unknown section 'trian' (command line): sections are model, lora, moe, data, train, dpo, optimizer, schedule, precision, parallel, offload, "
       "checkpoint, "
       "log, health, probe; did you mean 'train'?"},
      {{"steps=1"}, "unknown section 'steps' (command line): options stand in sections; did you mean 'train.steps'?"},
  };
  for (const auto& [args, text] : cases) EXPECT_EQ(error_of(args), text);

  CommandSpec bare{"bare", "", "", {}};
  EXPECT_EQ(error_of({"--model=m", "--config", "x"}, bare).substr(0, 23), "unknown flag '--config'");
  EXPECT_EQ(read({"--model=m", "encode", "train.steps=1"}, bare).flags.files, std::vector<std::string>{"train.steps=1"})
      << "a command without sections has no options";
}

TEST(CommandLine, HelpShowsTheExampleFirst) {
  Flags flags;
  std::string text = command_help(kSpec, options_of(flags));
  EXPECT_EQ(text.find("Example:\n  ravine try --model DIR\n"), 0u);
  for (const char* part : {"--model DIR", "--input A B ..", "--json  ", "--backend cpu|ref|cuda", "(default 50)",
                           "train.steps=1000", "(same as model.path)"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_EQ(text.find("optimizer.lr"), std::string::npos);
  EXPECT_TRUE(requested_help({"x", "--help"}) && requested_help({"x", "--help"})->section.empty());
  EXPECT_EQ(requested_help({"-h", "x"}).value().section, "x");
  EXPECT_EQ(requested_help({"--help", "a.b=1"}).value().section, "");
  EXPECT_TRUE(requested_help({"a", "--help-all"}).value().all);
  EXPECT_FALSE(requested_help({"--", "-h"}));
  EXPECT_FALSE(requested_help({"x"}));
}

TEST(CommandLine, ShortHelpHasWhatIsSetMost) {
  Flags flags;
  const std::string text = common_help(kSpec, options_of(flags));
  for (const char* part : {"Example:\n  ravine try --model DIR\n", "train.steps=1000", "--help SECTION", "--help-all"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_EQ(text.find("train.loss_average"), std::string::npos);
  EXPECT_NE(command_help(kSpec, options_of(flags)).find("train.loss_average"), std::string::npos);
  EXPECT_NE(section_help(kSpec, "train").find("train.loss_average"), std::string::npos);
  EXPECT_THROW(section_help(kSpec, "optimizer"), UserError);
}

TEST(CommandLine, RandomWordsNeverCrash) {
  std::mt19937_64 draw(13);
  const std::vector<std::string> words = {"--model",
                                          "a",
                                          "--input",
                                          "--json",
                                          "--json=",
                                          "--top-k",
                                          "1",
                                          "-",
                                          "--",
                                          "",
                                          "=",
                                          "train.steps=2",
                                          "train.=",
                                          ".=1",
                                          "-1",
                                          "--sizes",
                                          "--model=",
                                          "encode",
                                          "--=",
                                          "x=y",
                                          "[",
                                          "*",
                                          "train.freeze=[",
                                          "--temperature",
                                          "1e999",
                                          "\xff",
                                          "-.5"};
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::string> args;
    for (uint64_t n = draw() % 8; n > 0; --n) args.push_back(words[draw() % words.size()]);
    try {
      read(args);
    } catch (const UserError&) {
    }
  }
}

}  // namespace test_config_command_line
