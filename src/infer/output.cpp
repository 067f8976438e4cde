#include "infer/output.h"

#include <unistd.h>

#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace ravine {

GenerateOutput::GenerateOutput(const std::vector<std::vector<int32_t>>& prompts, const Tokenizer* tokenizer, bool json,
                               std::FILE* to, bool beams)
    : prompts_(prompts),
      json_(json),
      beams_(beams),
      to_(to),
      terminal_(to && ::isatty(::fileno(to)) == 1),
      of_(prompts.size()) {
  for (One& one : of_) one.tokenizer = tokenizer;
}

void GenerateOutput::answers(size_t prompt, const std::string& adapter, const Tokenizer* tokenizer,
                             std::vector<std::string> stops) {
  of_[prompt].adapter = adapter;
  of_[prompt].tokenizer = tokenizer;
  of_[prompt].stops = std::move(stops);
}

bool GenerateOutput::token(size_t prompt, int32_t id) {
  One& one = of_[prompt];
  if (one.tokenizer)
    decode(one, prompt, id);
  else if (!json_)
    one.text += fmt::format("{} ", id);
  if (!json_ && prompt == front_) write(one);
  return !one.decoder || !one.decoder->stopped();
}

void GenerateOutput::finished(size_t prompt, const Generated& result) {
  One& one = of_[prompt];
  if (one.decoder) one.text += one.decoder->finish();
  one.decoder.reset();
  if (json_) {
    Json line{{"prompt_ids", prompts_[prompt]},
              {"ids", result.ids},
              {"text", one.text},
              {"finish", name(result.finish)},
              {"logprob", result.logprob}};
    if (!result.error.empty()) line["error"] = result.error;
    if (!one.adapter.empty()) line["adapter"] = one.adapter;
    if (beams_) {
      line["beams"] = Json::array();
      for (const Beam& b : result.beams) line["beams"].push_back({{"ids", b.ids}, {"score", b.score}});
    }
    one.text = line.dump();
  }
  one.text += "\n";
  one.done = true;
  for (; front_ < of_.size() && of_[front_].done; ++front_) write(of_[front_]);
  if (!json_ && front_ < of_.size()) write(of_[front_]);
}

void GenerateOutput::rest() {
  for (; front_ < of_.size(); ++front_) write(of_[front_]);
}

void GenerateOutput::decode(One& one, size_t prompt, int32_t id) {
  if (!one.decoder) one.decoder = std::make_unique<AnswerText>(*one.tokenizer, prompts_[prompt], one.stops);
  one.text += one.decoder->next(id);
}

void GenerateOutput::write(One& one) {
  if (one.text.empty() || !to_) return;
  if (!json_ && !std::exchange(one.begun, true) && of_.size() > 1)
    fmt::print(to_, "{}--- {} of {}\n", std::exchange(any_, true) ? "\n" : "", front_ + 1, of_.size());
  const std::string shown =
      // A terminal gets control characters escaped, because a model may generate any text. Files and pipes get the text
      // unchanged.
      terminal_ ? escaped(one.text, "\n\t") : one.text;
  std::fwrite(shown.data(), 1, shown.size(), to_);
  std::fflush(to_);
  one.text.clear();
}

}  // namespace ravine
