// Writes the output of `generate`: text or JSON lines, in the order of the prompts, each as early as possible.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "infer/answer_text.h"
#include "infer/generator.h"

namespace ravine {

// Writes the results of `generate` as they arrive by GenerateEvents, in the order of the prompts. The arguments must
// outlive this object. Plain output: the text after the prompt, streamed in whole UTF-8 characters, or ids if there is
// no tokenizer. With several prompts, a line "--- 2 of 3" precedes each result.
// JSON: a line {"prompt_ids", "ids", "text", "finish", "logprob"} per prompt. If `to` is null (another rank writes),
// nothing is written, but token() still reports stop texts.
class GenerateOutput {
 public:
  // json: true for JSON lines, false for plain output. to: the file; null: nothing is written. beams: JSON lines also
  // have "beams", the best results of each prompt with their scores.
  GenerateOutput(const std::vector<std::vector<int32_t>>& prompts, const Tokenizer* tokenizer, bool json, std::FILE* to,
                 bool beams = false);

  // Sets adapter, tokenizer and stop texts of one prompt. adapter: its name in the JSON line; tokenizer: null if there
  // is none.
  void answers(size_t prompt, const std::string& adapter, const Tokenizer* tokenizer, std::vector<std::string> stops = {});
  bool token(size_t prompt, int32_t id);  // false: the answer has reached a stop text
  void finished(size_t prompt, const Generated& result);
  // Called after a stop: writes the finished results that were held back because an earlier prompt did not begin.
  void rest();

 private:
  struct One {
    const Tokenizer* tokenizer = nullptr;
    std::string adapter;
    std::vector<std::string> stops;
    std::unique_ptr<AnswerText> decoder;
    std::string text;  // not yet written
    bool begun = false, done = false;
  };
  void decode(One& one, size_t prompt, int32_t id);
  void write(One& one);

  const std::vector<std::vector<int32_t>>& prompts_;
  bool json_, beams_, any_ = false;
  std::FILE* to_;
  bool terminal_;
  std::vector<One> of_;
  size_t front_ = 0;  // the first prompt whose result is not written yet
};

}  // namespace ravine
