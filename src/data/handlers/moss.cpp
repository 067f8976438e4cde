// Records {"chat": {"turn_1": {"Human": "<|Human|>: ..<eoh>\n", "MOSS": "<|MOSS|>: ..<eom>\n"}, ..}}. There is one
// sequence for the first turn, one for the first two turns, and so on; the last answer of each is learned. The
// sequences form one document and get no eod.
#include "data/handlers/handlers.h"
#include "data/handlers/packed.h"

namespace ravine {

namespace {

class Moss final : public PromptHandler {
 public:
  using PromptHandler::PromptHandler;

 private:
  std::vector<Message> messages(const Fields&) const override { return {}; }
  void add_sequences(const Fields& r, HandledRecord& out) const override {
    std::vector<Message> so_far;
    for (const auto& [key, turn] : r.map("chat").items()) {
      if (turn.empty()) continue;  // null or {}
      so_far.push_back({true, stripped(replaced(replaced(r.text(turn, "Human"), "<eoh>", ""), "<|Human|>: ", ""))});
      so_far.push_back({false, stripped(replaced(replaced(r.text(turn, "MOSS"), "<|MOSS|>:", ""), "<eom>", ""))});
      add_prompt(so_far, false, out);
    }
  }
};

}  // namespace

std::unique_ptr<RecordHandler> make_moss(const HandlerOptions& options) { return std::make_unique<Moss>(options); }

}  // namespace ravine
