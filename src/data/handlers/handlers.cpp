#include "data/handlers/handlers.h"

namespace ravine {

std::span<const HandlerEntry> instruct_handlers() {
  static constexpr HandlerEntry all[] = {
      {"GeneralInstructionHandler", "instruction, input, output by the Alpaca prompt of ModelLink", make_general_instruction},
      {"BelleMultiTurnInstructionHandler", "instruction with turns Human:/Assistant:, output", make_belle_multi_turn},
      {"MOSSInstructionHandler", "chat of turns Human, MOSS: a sequence for each turn and those before it", make_moss},
      {"MOSSMultiTurnHandler", "chat of turns Human, MOSS with Baichuan's tokens 195 and 196, all answers learned",
       make_moss_multi_turn},
      {"LeetcodePythonInstructionHandler", "code_with_problem, code_only, explanation_only", make_leetcode_python},
      {"AlpacaPretrainHandler", "instruction, input, output as plain text", make_alpaca_pretrain},
      {"StackOverflowPythonPretrainHandler", "title, question_body, answer_body as plain text", make_stack_overflow_pretrain},
      {"alpaca", "instruction, input, output by the chat template", make_alpaca_chat},
      {"sharegpt", "conversations of from, value by the chat template", make_sharegpt_chat},
      {"messages", "messages of role, content by the chat template", make_messages_chat},
  };
  return all;
}

}  // namespace ravine
