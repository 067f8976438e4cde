// The frame of the commands.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/command.h"
#include "apps/commands.h"
#include "apps/completion.h"
#include "apps/stack.h"
#include "apps/streams.h"

using namespace ravine;

namespace test_config_frame {

struct EncodeFlags {
  CommonFlags common;
  std::string tokenizer;
  bool jsonl = false;
  template <class V>
  void each(V&& v) {
    v("tokenizer", tokenizer, "folder or file", required());
    v("jsonl", jsonl, "JSON lines");
    common.each(v);
  }
};

struct ThrowFlags {
  std::string kind;
  template <class V>
  void each(V&& v) {
    v("kind", kind, "what to throw", positional());
  }
};

int run_encode(EncodeFlags& f, Config& c) {
  fmt::print("{} {} {} {}\n", f.tokenizer, f.jsonl, name(f.common.backend), c.train.threads);
  return 0;
}

int run_throw(ThrowFlags& f, Config&) {
  if (f.kind == "user") throw UserError("a", "b", "c", "d");
  if (f.kind == "stopped") throw Stopped("saved at step 7");
  if (f.kind == "memory") throw std::bad_alloc();
  fail("op: rule, got {}", f.kind);
}

std::vector<Command> table() {
  std::vector<Command> all = {
      command_of({.name = "tokenizer", .summary = "text to ids", .example = "ravine tokenizer encode --tokenizer T"}, "Data",
                 {command<EncodeFlags>(
                     {.name = "tokenizer encode", .summary = "ids", .example = "ravine tokenizer encode --tokenizer T"}, "",
                     run_encode)}),
      command<ThrowFlags>({.name = "throw", .summary = "fails", .example = "ravine throw", .sections = {"optimizer"}}, "Other",
                          run_throw),
  };
  all.push_back(completion_command(all));
  return all;
}

struct Outcome {
  int status;
  std::string out, err;
};

Outcome call(const std::vector<std::string>& args) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome o;
  o.status = run_program(table(), args);
  std::fflush(stdout);
  o.out = testing::internal::GetCapturedStdout();
  o.err = testing::internal::GetCapturedStderr();
  return o;
}

TEST(Frame, RunsACommandAndItsActions) {
  Outcome o = call({"tokenizer", "encode", "--tokenizer", "T", "--jsonl", "--backend=ref", "--threads", "1"});
  EXPECT_EQ(o.status, 0);
  EXPECT_EQ(o.out, "T true ref 1\n");
  EXPECT_EQ(o.err, "");
}

TEST(Frame, ExitStatusNamesTheFault) {
  auto check = [](const std::vector<std::string>& args, int status, const char* err) {
    Outcome o = call(args);
    EXPECT_EQ(o.status, status);
    EXPECT_EQ(o.err, err);
    EXPECT_EQ(o.out, "");
  };
  check({"throw", "user"}, 2, "error: a (b): c; d\n");
  check({"throw", "other"}, 1, "error: op: rule, got other\n");
  check({"throw", "stopped"}, 130, "saved at step 7\n");
  check({"throw", "memory"}, 1, "error: memory: the machine has no more; use smaller batches or see `ravine plan`\n");
  check({"thorw"}, 2, "error: unknown command 'thorw' (command line): ravine has no such command; did you mean 'throw'?\n");
  check({"zzz"}, 2, "error: unknown command 'zzz' (command line): ravine has no such command; see `ravine --help`\n");
  check({"tokenizer"}, 2,
        "error: tokenizer needs an action (command line): one of those in `ravine tokenizer --help`; for example: ravine "
        "tokenizer encode "
        "--tokenizer T\n");
  check({"tokenizer", "encdoe"}, 2,
        "error: unknown action 'encdoe' (command line): ravine tokenizer has no such action; did you mean 'encode'?\n");
  check({"tokenizer", "encode"}, 2,
        "error: --tokenizer is missing (command line): tokenizer encode needs it: folder or file; for example: ravine "
        "tokenizer encode "
        "--tokenizer T\n");
}

TEST(Frame, HelpEverywhere) {
  std::string all = call({}).out;
  EXPECT_EQ(all.find("Example:\n"), 0u);
  EXPECT_NE(all.find("\nData\n  tokenizer    text to ids\n"), std::string::npos) << all;
  EXPECT_EQ(call({"--help"}).out, all);
  EXPECT_EQ(call({"help"}).out, all);
  std::string page = call({"tokenizer", "encode", "--help"}).out;
  EXPECT_EQ(page.find("Example:\n  ravine tokenizer encode --tokenizer T\n"), 0u) << page;
  EXPECT_EQ(call({"help", "tokenizer", "encode"}).out, page);
  EXPECT_EQ(call({"tokenizer", "encode", "--tokenizer", "T", "-h"}).out, page);
  EXPECT_EQ(call({"tokenizer", "--help"}).out, call({"help", "tokenizer"}).out);
  EXPECT_EQ(call({"--version"}).out, "ravine 0.1.0\n");
}

TEST(Frame, BashCompletes) {
  auto folder = std::filesystem::temp_directory_path() / ("ravine_frame_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "complete.sh") << call({"completion", "bash"}).out;
  auto complete = [&](const std::string& line) {
    std::ofstream(folder / "ask.sh") << "source " << (folder / "complete.sh").string() << "\nCOMP_LINE='" << line
                                     << "'\nCOMP_POINT=" << line.size() << "\n_ravine\nprintf '%s|' \"${COMPREPLY[@]}\"\n";
    std::string out;
    std::FILE* pipe = ::popen(("bash " + (folder / "ask.sh").string() + " 2>&1").c_str(), "r");
    for (int c; (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
    EXPECT_EQ(::pclose(pipe), 0);
    return out;
  };
  EXPECT_EQ(complete("ravine "), "help |--help |--version |tokenizer |throw |completion |");
  EXPECT_EQ(complete("ravine tok"), "tokenizer |");
  EXPECT_EQ(complete("ravine tokenizer "), "encode |--help |");
  EXPECT_EQ(complete("ravine tokenizer encode --"), "--tokenizer |--jsonl |--backend |--threads |--help |");
  EXPECT_EQ(complete("ravine tokenizer encode --backend "), "cpu |ref |");
  EXPECT_EQ(complete("ravine tokenizer encode --backend=r"), "ref |");
  EXPECT_EQ(complete("ravine throw optimizer.n"), "optimizer.nesterov=|optimizer.ns_coefficients=|optimizer.ns_steps=|");
  EXPECT_EQ(complete("ravine throw optimizer.type=a"), "adamw |adam |adagrad |adafactor |");
  EXPECT_EQ(complete("ravine throw train.s"), "|") << "only sections that the command takes";
  EXPECT_EQ(complete("ravine completion "), "bash |zsh |fish |--help |");
  std::filesystem::remove_all(folder);
}

}  // namespace test_config_frame
