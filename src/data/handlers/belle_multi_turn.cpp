// Records {"instruction": "Human: .. Assistant: .. Human: .. Assistant:", "output"}. The output replaces the text after
// the last "Assistant:" of the instruction. A part without "Assistant:" is an answer.
#include "data/handlers/handlers.h"
#include "data/handlers/packed.h"

namespace ravine {

namespace {

class BelleMultiTurn final : public PromptHandler {
 public:
  using PromptHandler::PromptHandler;

 private:
  std::vector<Message> messages(const Fields& r) const override {
    std::vector<Message> out;
    for (const std::string& turn : split_by(r.text("instruction"), "Human:")) {
      if (turn.empty()) continue;
      std::vector<std::string> parts = split_by(turn, "Assistant:");
      if (parts.size() > 1) out.push_back({true, stripped(parts[0])});
      out.push_back({false, stripped(parts[parts.size() > 1 ? 1 : 0])});
    }
    if (out.empty()) r.wrong("'instruction' holds no turn", "it must be Human: .. Assistant: ..");
    out.back() = {false, stripped(r.text("output"))};
    return out;
  }
};

}  // namespace

std::unique_ptr<RecordHandler> make_belle_multi_turn(const HandlerOptions& options) {
  return std::make_unique<BelleMultiTurn>(options);
}

}  // namespace ravine
