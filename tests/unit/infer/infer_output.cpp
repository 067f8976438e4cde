// Prompts in, texts and JSON lines out.
#include "infer/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "infer/prompts.h"
#include "tests/unit/files_temporary.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace test_infer_output {

using Prompts = std::vector<std::vector<int32_t>>;

std::vector<std::string> texts_in(const std::string& path, const std::string& text_key) {
  std::vector<std::string> texts;
  for (const PromptText& p : read_prompt_texts(path, text_key)) texts.push_back(p.text);
  return texts;
}

TEST(Prompts, LinesAndObjects) {
  TemporaryFolder f;
  spill(f / "a.txt", "one\r\n\ntwo three");
  EXPECT_EQ(texts_in(f / "a.txt", "text"), (std::vector<std::string>{"one", "", "two three"}));
  spill(f / "b.jsonl", "{\"prompt\": \"p\", \"text\": \"t\"}\n\n{\"body\": \"b\"}\n");
  EXPECT_EQ(texts_in(f / "b.jsonl", "body"), (std::vector<std::string>{"p", "b"}));
  spill(f / "c.json", "[[1, 2], [], [3]]");
  EXPECT_EQ(read_prompt_ids(f / "c.json"), (Prompts{{1, 2}, {}, {3}}));
}

TEST(Prompts, NamesOfAdapters) {
  TemporaryFolder f;
  spill(f / "a.jsonl", "{\"text\": \"x\", \"adapter\": \"poet\"}\n\n{\"text\": \"y\", \"adapter\": null}\n{\"text\": \"z\"}\n");
  const std::vector<PromptText> read = read_prompt_texts(f / "a.jsonl", "text");
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].adapter, "poet");
  EXPECT_EQ(read[1].adapter + read[2].adapter, "");
  EXPECT_EQ(read[1].line, 3);
  for (const char* adapter : {"3", "\"\"", "[\"poet\"]", "true"}) {
    spill(f / "bad.jsonl", fmt::format("{{\"text\": \"x\"}}\n{{\"text\": \"x\", \"adapter\": {}}}\n", adapter));
    EXPECT_NE(message_of<UserError>([&] { read_prompt_texts(f / "bad.jsonl", "text"); }).find("bad.jsonl:2"), std::string::npos)
        << adapter;
  }
}

TEST(Prompts, MistakesNameFileAndLine) {
  TemporaryFolder f;
  auto texts = [&](const std::string& name) { return message_of<UserError>([&] { read_prompt_texts(f / name, "text"); }); };
  auto ids = [&](const std::string& text) {
    spill(f / "ids.json", text);
    return message_of<UserError>([&] { read_prompt_ids(f / "ids.json"); });
  };
  EXPECT_NE(texts("none.txt").find("none.txt"), std::string::npos);
  EXPECT_NE(texts("none.csv").find(".txt, one per line, or .jsonl"), std::string::npos);
  spill(f / "bad.txt", "fine\n\xff\n");
  EXPECT_NE(texts("bad.txt").find("bad.txt:2"), std::string::npos);
  for (const char* line : {"{\"x\": 1}", "{\"text\": 1}", "[1]", "{\"text\": ", "7"}) {
    spill(f / "bad.jsonl", std::string("{\"text\": \"a\"}\n") + line);
    EXPECT_NE(texts("bad.jsonl").find("bad.jsonl:2"), std::string::npos) << line;
  }
  for (const char* text :
       {"{}", "[1, 2]", "[[1], [\"a\"]]", "[[1], [1.5]]", "[[1], [99999999999]]", "[[1], [18446744073709551615]]", "[[1]"})
    EXPECT_NE(ids(text).find("ids.json"), std::string::npos) << text;
  EXPECT_NE(ids("[[1], [true]]").find("prompt 2"), std::string::npos);
}

struct Written {
  Written() : file(std::tmpfile()) {}
  ~Written() { std::fclose(file); }
  std::string text() const {
    std::string s(static_cast<size_t>(std::ftell(file)), 0);
    std::rewind(file);
    EXPECT_EQ(std::fread(s.data(), 1, s.size(), file), s.size());
    std::fseek(file, 0, SEEK_END);
    return s;
  }
  std::FILE* file;
};

class Output : public testing::Test {
 protected:
  Output() : tokenizer(open_tokenizer(RAVINE_SOURCE_DIR "/tests/golden/tokenizer/llama")) {
    std::vector<int32_t> all = tokenizer->encode("the ship h\xC3\xA9 \xE6\x97\xA5 sank", true);
    prompts = {{all.begin(), all.begin() + 3}, {all.begin(), all.begin() + 2}};
    results[0].ids = {all.begin() + 3, all.end()};
    results[1].ids = {all.begin() + 2, all.end()};
    results[0].finish = Finish::length;
    results[1].finish = Finish::eos;
    results[1].logprob = -0.1;
    whole = tokenizer->decode(all, true);
  }
  std::string after(size_t prompt) const { return whole.substr(tokenizer->decode(prompts[prompt], true).size()); }
  // Prompt 1 goes ahead of prompt 0, as it may where they are worked on together.
  void feed(GenerateOutput& out, const Written& w) {
    for (int32_t id : results[1].ids) out.token(1, id);
    out.finished(1, results[1]);
    EXPECT_EQ(w.text(), "") << "results come in order";
    for (int32_t id : results[0].ids) {
      out.token(0, id);
      EXPECT_EQ(find_invalid_utf8(w.text()), std::string::npos);
    }
    out.finished(0, results[0]);
    out.rest();
  }
  std::unique_ptr<Tokenizer> tokenizer;
  Prompts prompts;
  Generated results[2];
  std::string whole;
};

TEST_F(Output, PlainTextFollowsThePrompt) {
  Written w;
  GenerateOutput out(prompts, tokenizer.get(), false, w.file);
  feed(out, w);
  EXPECT_EQ(w.text(), "--- 1 of 2\n" + after(0) + "\n\n--- 2 of 2\n" + after(1) + "\n");
}

// The other end of a terminal, which does nothing to the bytes.
struct Terminal {
  Terminal() : end(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (end < 0 || ::grantpt(end) != 0 || ::unlockpt(end) != 0) return;
    file = std::fopen(::ptsname(end), "r+");
    termios t{};
    if (!file || ::tcgetattr(::fileno(file), &t) != 0) return;
    ::cfmakeraw(&t);
    ::tcsetattr(::fileno(file), TCSANOW, &t);
  }
  ~Terminal() {
    if (file) std::fclose(file);
    if (end >= 0) ::close(end);
  }
  // So many bytes, or what is there when nothing more comes for seconds.
  std::string text(size_t size) const {
    std::string s;
    for (pollfd ready{end, POLLIN, 0}; s.size() < size && ::poll(&ready, 1, 5000) == 1;) {
      char c;
      if (::read(end, &c, 1) != 1) break;
      s += c;
    }
    return s;
  }
  int end;
  std::FILE* file = nullptr;
};

TEST_F(Output, ATerminalIsGivenNoControlCharacters) {
  Terminal terminal;
  if (!terminal.file) GTEST_SKIP() << "no terminals here";
  Written pipe;
  const std::string raw = "\x1b[2J\x9b red\a\nand\tthat\x7f";
  for (bool on_terminal : {true, false}) {
    GenerateOutput out(prompts, tokenizer.get(), false, on_terminal ? terminal.file : pipe.file);
    for (int32_t id : tokenizer->encode("x" + raw, false)) out.token(0, id);
    out.finished(0, results[0]);
  }
  EXPECT_NE(pipe.text().find("\x1b[2J"), std::string::npos) << "files and pipes get it as it is";
  const std::string want = escaped(pipe.text(), "\n\t");
  EXPECT_EQ(terminal.text(want.size()), want);
  EXPECT_NE(want.find("\\x1b[2J"), std::string::npos);
  EXPECT_EQ(want.find('\x1b'), std::string::npos);
}

TEST_F(Output, StreamsTheFirstPromptAtOnce) {
  Written w;
  GenerateOutput out(prompts, tokenizer.get(), false, w.file);
  for (size_t i = 0; i + 1 < results[0].ids.size(); ++i) out.token(0, results[0].ids[i]);
  EXPECT_GT(w.text().size(), after(0).size() / 2);
}

TEST_F(Output, HalfACharacterAtTheEndBecomesAReplacement) {
  Written w;
  GenerateOutput out(prompts, tokenizer.get(), false, w.file);
  std::vector<int32_t> bytes = tokenizer->encode("\xE6\x97\xA5", false);  // byte by byte, at the end
  out.token(0, bytes[bytes.size() - 3]);
  out.token(0, bytes[bytes.size() - 2]);
  EXPECT_EQ(w.text(), "");
  out.finished(0, results[0]);
  EXPECT_TRUE(w.text().starts_with("--- 1 of 2\n\xEF\xBF\xBD")) << w.text();
}

TEST_F(Output, JsonLines) {
  Written w;
  GenerateOutput out(prompts, tokenizer.get(), true, w.file);
  feed(out, w);
  std::vector<std::string> lines = split(w.text(), '\n');
  ASSERT_EQ(lines.size(), 3u);
  Json first = parse_json(lines[0], "line 1"), second = parse_json(lines[1], "line 2");
  EXPECT_EQ(
      first,
      (Json{{"prompt_ids", prompts[0]}, {"ids", results[0].ids}, {"text", after(0)}, {"finish", "length"}, {"logprob", 0.0}}));
  EXPECT_EQ(second.at("finish"), "eos");
  EXPECT_EQ(second.at("logprob").get<double>(), -0.1);
}

TEST_F(Output, WithoutTokenizerTextIsEmptyAndIdsArePlain) {
  Written w, j;
  GenerateOutput plain(prompts, nullptr, false, w.file), json(prompts, nullptr, true, j.file);
  for (int32_t id : {5, 7}) plain.token(0, id), json.token(0, id);
  plain.finished(0, results[0]), json.finished(0, results[0]);
  EXPECT_EQ(w.text(), "--- 1 of 2\n5 7 \n");
  EXPECT_EQ(parse_json(split(j.text(), '\n')[0], "line").at("text"), "");
}

TEST_F(Output, AfterAStopWhatIsDoneComesOut) {
  Written w;
  GenerateOutput out(prompts, tokenizer.get(), true, w.file);
  for (int32_t id : results[1].ids) out.token(1, id);
  out.finished(1, results[1]);
  EXPECT_EQ(w.text(), "");
  out.rest();
  EXPECT_EQ(split(w.text(), '\n').size(), 2u);
}

TEST_F(Output, IdsThatOnlyTheModelHasMakeNoText) {
  Written w;
  GenerateOutput out(prompts, tokenizer.get(), false, w.file);
  out.token(0, static_cast<int32_t>(tokenizer->size()) + 5);
  EXPECT_EQ(w.text(), "");
}

// Stop texts are found wherever tokens begin and end; what may be the beginning of one waits.
TEST_F(Output, AnswersEndBeforeStopTexts) {
  const std::string all = after(0);
  auto text_before = [&](std::vector<std::string> stops, size_t& taken) {
    AnswerText text(*tokenizer, prompts[0], std::move(stops));
    std::string out;
    for (taken = 0; taken < results[0].ids.size() && !text.stopped();) out += text.next(results[0].ids[taken++]);
    return out + text.finish();
  };
  size_t taken = 0;
  EXPECT_EQ(text_before({}, taken), all);
  EXPECT_EQ(text_before({"never met"}, taken), all);
  EXPECT_EQ(taken, results[0].ids.size());
  for (size_t begin = 0; begin < all.size(); ++begin)
    for (size_t size = 1; begin + size <= all.size(); ++size) {
      const std::string stop = all.substr(begin, size);
      if (find_invalid_utf8(stop) != std::string::npos) continue;
      EXPECT_EQ(text_before({"never met", stop}, taken), all.substr(0, all.find(stop))) << stop;
    }
  EXPECT_EQ(text_before({all + "x"}, taken), all) << "a stop text that is not whole is text";
  EXPECT_EQ(text_before({all.substr(4, 3), all.substr(1, 2)}, taken), all.substr(0, 1)) << "the first of several";
}

TEST_F(Output, AStopTextIsReportedWhereNothingIsWritten) {
  GenerateOutput out(prompts, nullptr, false, nullptr);
  out.answers(0, "", tokenizer.get(), {after(0).substr(0, 2)});
  bool on = true;
  size_t taken = 0;
  for (; on; ++taken) on = out.token(0, results[0].ids[taken]);
  EXPECT_LT(taken, results[0].ids.size());
}

}  // namespace test_infer_output
}  // namespace ravine
