// Records as in moss.cpp, for Baichuan. Each turn is 195, the question, 196, the answer; eos ends the conversation. All
// answers are learned; the label of each 195 is eos.
#include "base/error.h"
#include "data/handlers/handlers.h"
#include "data/handlers/packed.h"
#include "data/sample.h"

namespace ravine {

namespace {

constexpr int32_t kUser = 195, kAssistant = 196;  // Baichuan's reserved tokens

class MossMultiTurn final : public PackedHandler {
 public:
  explicit MossMultiTurn(const HandlerOptions& o) : PackedHandler(o) {
    if (!o.tokenizer->special().eos)
      throw UserError("the tokenizer has no end token", "--tokenizer", "MOSSMultiTurnHandler puts eos behind each conversation",
                      "use Baichuan's tokenizer");
  }

 private:
  void add_sequences(const Fields& r, HandledRecord& out) const override {
    int32_t eos = *options().tokenizer->special().eos;
    std::vector<int32_t> ids, labels;
    for (const auto& [key, turn] : r.map("chat").items()) {
      if (turn.empty()) continue;  // null or {}
      auto question = encode(stripped(replaced(replaced(r.text(turn, "Human"), "<eoh>", ""), "<|Human|>: ", "")));
      auto answer = encode(stripped(replaced(replaced(r.text(turn, "MOSS"), "<|MOSS|>:", ""), "<eom>", "")));
      ids.push_back(kUser);
      ids.insert(ids.end(), question.begin(), question.end());
      ids.push_back(kAssistant);
      labels.push_back(eos);
      labels.insert(labels.end(), question.size() + 1, kIgnored);
      ids.insert(ids.end(), answer.begin(), answer.end());
      labels.insert(labels.end(), answer.begin(), answer.end());
    }
    ids.push_back(eos);
    labels.push_back(eos);
    add(ids, labels, out);
  }
};

}  // namespace

std::unique_ptr<RecordHandler> make_moss_multi_turn(const HandlerOptions& options) {
  return std::make_unique<MossMultiTurn>(options);
}

}  // namespace ravine
