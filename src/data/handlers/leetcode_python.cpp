// Records {"code_with_problem", "code_only", "explanation_only"}. The question is the text of the problem before its
// first code block. The answer is the code and its explanation.
#include "data/handlers/handlers.h"
#include "data/handlers/packed.h"

namespace ravine {

namespace {

class LeetcodePython final : public PromptHandler {
 public:
  using PromptHandler::PromptHandler;

 private:
  std::vector<Message> messages(const Fields& r) const override {
    return {{true, stripped(split_by(r.text("code_with_problem"), "```")[0])},
            {false, r.text("code_only") + "\n" + r.text("explanation_only")}};
  }
};

}  // namespace

std::unique_ptr<RecordHandler> make_leetcode_python(const HandlerOptions& options) {
  return std::make_unique<LeetcodePython>(options);
}

}  // namespace ravine
