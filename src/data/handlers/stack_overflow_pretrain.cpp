// Records {"title", "question_body", "answer_body"} as plain text.
#include "data/handlers/handlers.h"
#include "data/handlers/packed.h"

namespace ravine {

namespace {

class StackOverflowPretrain final : public PlainTextHandler {
 public:
  using PlainTextHandler::PlainTextHandler;

 private:
  std::string text(const Json& r, const std::string& where) const override {
    return "In python, " + text_field(r, "title", where) + "\n### Question:\n" + text_field(r, "question_body", where) +
           "\n### Response:\n" + text_field(r, "answer_body", where) + "\n";
  }
};

}  // namespace

std::unique_ptr<RecordHandler> make_stack_overflow_pretrain(const HandlerOptions& options) {
  return std::make_unique<StackOverflowPretrain>(options);
}

}  // namespace ravine
