// Records {"instruction", "input", "output"} as plain text with the prompt below. For an empty input its part of the
// prompt is left out; ModelLink's handler writes "###None" there.
#include "data/handlers/handlers.h"
#include "data/handlers/packed.h"

namespace ravine {

namespace {

class AlpacaPretrain final : public PlainTextHandler {
 public:
  using PlainTextHandler::PlainTextHandler;

 private:
  std::string text(const Json& r, const std::string& where) const override {
    std::string input = text_field(r, "input", where);
    return "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers "
           "to the user's questions.USER: Below is an instruction that describes a task. Write a response that appropriately completes the "
           "request.\n\n### Instruction:\n" +
           text_field(r, "instruction", where) + (input.empty() ? "" : "\n\n### Input:\n" + input) +
           "\n\n### Response: ASSISTANT: " + text_field(r, "output", where);
  }
};

}  // namespace

std::unique_ptr<RecordHandler> make_alpaca_pretrain(const HandlerOptions& options) {
  return std::make_unique<AlpacaPretrain>(options);
}

}  // namespace ravine
