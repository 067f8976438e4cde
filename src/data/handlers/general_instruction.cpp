// Records {"instruction", "input", "output"}. The input is on the line after the instruction; an empty input leaves an
// empty line.
#include "data/handlers/handlers.h"
#include "data/handlers/packed.h"

namespace ravine {

namespace {

class GeneralInstruction final : public PromptHandler {
 public:
  using PromptHandler::PromptHandler;

 private:
  std::vector<Message> messages(const Fields& r) const override {
    return {{true, r.text("instruction") + "\n" + r.text("input")}, {false, r.text("output")}};
  }
};

}  // namespace

std::unique_ptr<RecordHandler> make_general_instruction(const HandlerOptions& options) {
  return std::make_unique<GeneralInstruction>(options);
}

}  // namespace ravine
