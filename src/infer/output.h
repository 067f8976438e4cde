// What `generate` writes: texts, or JSON lines, in the order of the prompts, each as soon as it may.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "infer/answer_text.h"
#include "infer/generator.h"

namespace ravine {

// Plain: the text that follows the prompt's, streamed, never half a character; of several prompts each begins with a line
// "--- 2 of 3" of its own; ids where there is no tokenizer. JSON: {"prompt_ids", "ids", "text", "finish", "logprob"} per
// prompt. Refers to its arguments; to be fed by GenerateEvents. Where nothing is to be written (`to` null: another rank writes) it
// says all the same when an answer meets a stop text.
class GenerateOutput {
 public:
  // beams: JSON lines also have "beams", the best of each prompt with their scores.
  GenerateOutput(const std::vector<std::vector<int32_t>>& prompts, const Tokenizer* tokenizer, bool json, std::FILE* to,
                 bool beams = false);

  // This prompt is answered by an adapter of this name, which its JSON line says, in the words of this tokenizer (null: none), and
  // ends before one of these texts.
  void answers(size_t prompt, const std::string& adapter, const Tokenizer* tokenizer, std::vector<std::string> stops = {});
  bool token(size_t prompt, int32_t id);  // false: the answer has met a stop text
  void finished(size_t prompt, const Generated& result);
  void rest();  // after a stop: results that wait behind prompts that never began

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
  size_t front_ = 0;  // the first prompt whose result is not out yet
};

}  // namespace ravine
