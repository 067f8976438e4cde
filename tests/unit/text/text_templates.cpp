// Prompt templates by name, to the letter: what LLaMA-Factory and ModelLink put around questions and answers (their
// template.py), written out here once more.
#include <gtest/gtest.h>

#include "tests/unit/text_help.h"
#include "text/chat/call_arguments.h"
#include "text/chat/chat_prompt.h"
#include "text/chat/prompt_templates.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace test_text_templates {

const std::string kTokenizer = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/chat/";

Json messages_of(const std::vector<std::pair<const char*, const char*>>& turns) {
  Json messages = Json::array();
  for (const auto& [role, text] : turns) messages.push_back({{"role", role}, {"content", text}});
  return messages;
}

TEST(PromptTemplates, EqualTheTrainingOfTheirModels) {
  const auto tokenizer = open_tokenizer(kTokenizer);  // <s> goes before a text, </s> ends one
  const Json with_system = messages_of({{"system", "S"}, {"user", "Q"}, {"assistant", "A"}, {"user", "R"}}),
             without = messages_of({{"user", "Q"}, {"assistant", "A"}, {"user", "R"}}),
             answered = messages_of({{"user", "Q"}, {"assistant", "A"}});
  const std::string alpaca =
      "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n";
  const std::string vicuna =
      "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions. ";
  const struct {
    const char* name;
    std::string prompt_of_system, with_prompt, without_prompt;  // the first two ask for an answer, the last does not
  } cases[] = {
      {"alpaca", "<s>S\n\n### Instruction:\nQ\n\n### Response:\nA</s>\n\n### Instruction:\nR\n\n### Response:\n",
       "<s>" + alpaca + "### Instruction:\nQ\n\n### Response:\nA</s>\n\n### Instruction:\nR\n\n### Response:\n",
       "<s>" + alpaca + "### Instruction:\nQ\n\n### Response:\nA</s>\n\n"},
      {"chatml",
       "<s><|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n",
       "<s><|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n",
       "<s><|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"},
      {"qwen",
       "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n",
       "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n",
       "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"},
      {"default", "<s>S\nHuman: Q\nAssistant:A</s>\nHuman: R\nAssistant:", "<s>Human: Q\nAssistant:A</s>\nHuman: R\nAssistant:",
       "<s>Human: Q\nAssistant:A</s>\n"},
      {"empty", "<s>SQA</s>R", "<s>QA</s>R", "<s>QA</s>"},
      {"llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nQ [/INST] A </s><s>[INST] R [/INST]",
       "<s>[INST] Q [/INST] A </s><s>[INST] R [/INST]", "<s>[INST] Q [/INST] A </s>"},
      {"llama3",
       "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"
       "<|start_header_id|>user<|end_header_id|>\n\nR<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
       "<s><|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nR<|eot_id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n",
       "<s><|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"},
      {"mistral", "<s>[INST] S\n\nQ [/INST] A</s>[INST] R [/INST]", "<s>[INST] Q [/INST] A</s>[INST] R [/INST]",
       "<s>[INST] Q [/INST] A</s>"},
      {"gemma",
       "<s><start_of_turn>user\nS\n\nQ<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nR<end_of_turn>\n<start_of_turn>model\n",
       "<s><start_of_turn>user\nQ<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nR<end_of_turn>\n<start_of_turn>model\n",
       "<s><start_of_turn>user\nQ<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"},
      {"glm4", "[gMASK]<sop><|system|>\nS<|user|>\nQ<|assistant|>\nA<|user|>\nR<|assistant|>\n",
       "[gMASK]<sop><|user|>\nQ<|assistant|>\nA<|user|>\nR<|assistant|>\n", "[gMASK]<sop><|user|>\nQ<|assistant|>\nA</s>"},
      {"deepseek", "<s>S\n\nUser: Q\n\nAssistant: A</s>User: R\n\nAssistant:",
       "<s>User: Q\n\nAssistant: A</s>User: R\n\nAssistant:", "<s>User: Q\n\nAssistant: A</s>"},
      {"vicuna", "<s>S USER: Q ASSISTANT: A</s>USER: R ASSISTANT:",
       "<s>" + vicuna + "USER: Q ASSISTANT: A</s>USER: R ASSISTANT:", "<s>" + vicuna + "USER: Q ASSISTANT: A</s>"},
  };
  EXPECT_EQ(std::size(cases), prompt_template_names().size());
  for (const auto& c : cases) {
    const ChosenTemplate chosen = choose_template(c.name, "", *tokenizer, "data.chat_template");
    auto text = [&](const Json& messages, bool add_generation_prompt) {
      return chosen.chat->render({{"messages", messages}, {"add_generation_prompt", add_generation_prompt}});
    };
    EXPECT_EQ(text(with_system, true), c.prompt_of_system) << c.name;
    EXPECT_EQ(text(without, true), c.with_prompt) << c.name;
    EXPECT_EQ(text(answered, false), c.without_prompt) << c.name;
    EXPECT_EQ(chosen.source, prompt_template(c.name)) << c.name << ": kept with the model";
  }
  // The message of a tool.
  const Json tool = messages_of({{"user", "Q"}, {"assistant", "A"}, {"tool", "T"}});
  auto of = [&](const char* name) {
    return choose_template(name, "", *tokenizer, "data.chat_template")
        .chat->render({{"messages", tool}, {"add_generation_prompt", false}});
  };
  EXPECT_TRUE(of("llama3").ends_with("<|start_header_id|>ipython<|end_header_id|>\n\nT<|eot_id|>"));
  EXPECT_TRUE(of("glm4").ends_with("<|observation|>\nT</s>"));
}

// A named template says bos where the tokenizer puts one by itself; a file says what it says.
TEST(PromptTemplates, BosIsTheTokenizersHabit) {
  const auto puts = open_tokenizer(kTokenizer);
  const test::Bytes none(false);
  ASSERT_TRUE(none.special().bos);
  const Json question = {{"messages", messages_of({{"user", "Q"}})}, {"add_generation_prompt", false}};
  EXPECT_EQ(choose_template("empty", "", *puts, "data.chat_template").chat->render(question), "<s>Q");
  EXPECT_EQ(choose_template("empty", "", none, "data.chat_template").chat->render(question), "Q");
  EXPECT_EQ(choose_template("qwen", "", none, "data.chat_template").source, prompt_template("qwen"))
      << "which has none, and needs no words about it";
  test::Folder f;
  f.write("own.jinja", "{{ bos_token }}|{{ messages[0].content }}|{{ eos_token }}");
  const std::string bos = none.id_to_piece(*none.special().bos), eos = none.id_to_piece(*none.special().eos);
  const ChosenTemplate own = choose_template(f / "own.jinja", "", none, "data.chat_template");
  EXPECT_EQ(own.chat->render(question), bos + "|Q|" + eos);
  EXPECT_EQ(own.source, "{{ bos_token }}|{{ messages[0].content }}|{{ eos_token }}");
  // A folder's own, by its path instead of by the tokenizer's.
  EXPECT_EQ(choose_template(kTokenizer, "", none, "data.chat_template").source, "");
  EXPECT_EQ(choose_template(kTokenizer, "", none, "data.chat_template").chat->render(question),
            choose_template("", kTokenizer, none, "data.chat_template").chat->render(question));
}

TEST(ChatPrompts, EndWithTheTokenOfTheTemplateOrTheTokenizer) {
  test::Folder f;
  const auto tokenizer = open_tokenizer(kTokenizer);
  EXPECT_EQ(ChatPrompt(*tokenizer, "empty", "", "").end_token(), *tokenizer->special().eos);
  const test::Bytes bytes;  // knows no special strings: eos is put behind an answer
  EXPECT_EQ(ChatPrompt(bytes, f.write("plain.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}"), "", "").end_token(),
            2);
  EXPECT_USER_ERROR(ChatPrompt(bytes, f.write("no.jinja", "{{ raise_exception('never') }}"), "", ""),
                    "the chat template refuses this conversation (a question and its answer): never");
  EXPECT_USER_ERROR(ChatPrompt(bytes, f.write("mute.jinja", "x"), "", ""), "the chat template drops the answer");
}

// A conversation forgets whole turns, the oldest first. The system message and the last question stay.
TEST(ChatPrompts, ForgetWholeTurns) {
  test::Folder f;
  const test::Bytes bytes;
  const std::string letters = f.write(
      "letters.jinja",
      "{% for m in messages %}{{ m.role[0] }}{{ m.content }};{% if m.content == 'X' %}{{ raise_exception('no X') }}{% endif %}{% endfor %}");
  ChatPrompt chat(bytes, letters, "", "S");
  auto text = [&] { return bytes.decode(chat.ids_of(chat.messages()), true); };
  chat.add_question("1"), chat.answered("a");
  chat.add_question("2"), chat.answered("b");
  chat.add_question("3");
  EXPECT_EQ(text(), "sS;u1;aa;u2;ab;u3;");
  EXPECT_TRUE(chat.forget_oldest());
  EXPECT_EQ(text(), "sS;u2;ab;u3;");
  EXPECT_TRUE(chat.forget_oldest());
  EXPECT_FALSE(chat.forget_oldest());
  EXPECT_EQ(text(), "sS;u3;");
  EXPECT_USER_ERROR(chat.add_question("X"), "no X");
  EXPECT_EQ(text(), "sS;u3;") << "a question that is refused is not part of it";
  chat.set_system("");
  chat.add_question("4");
  EXPECT_EQ(text(), "u4;");
  EXPECT_FALSE(chat.forget_oldest());
  chat.take_back();
  EXPECT_EQ(text(), "");
  chat.set_messages(messages_of({{"system", "T"}, {"user", "5"}, {"assistant", "c"}}));
  chat.begin_again();
  EXPECT_EQ(text(), "sT;") << "the system's message is that of the conversation";
}

// The text and the map of one call come out alike, unless the template writes both by itself.
TEST(CallArguments, AreTextOrAMapAsTheTemplateWritesThem) {
  auto written = [](const std::string& how, const Json& message) {
    const ChatTemplate chat(
        "{% for m in messages %}{% for c in m.tool_calls or [m.function_call] %}" + how + "{% endfor %}{% endfor %}",
        "template", Json::object());
    return chat.render(with_written_arguments(chat, {{"messages", {message}}}));
  };
  auto call = [](const Json& arguments) {
    return Json{{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", arguments}}}}}}};
  };
  const Json map = call({{"a", 1}, {"b", {"谷", nullptr}}}), text = call(R"({"a":1,"b":["谷",null]})");
  const std::string json = R"({"a": 1, "b": ["谷", null]})", tight = R"({"a":1,"b":["谷",null]})";
  const struct {
    const char* how;
    std::string of_map, of_text;
  } cases[] = {
      {"{{ c.function.arguments|tojson }}", json, json},
      {"{% for k, v in c.function.arguments|items %}{{ k }}={{ v|tojson }};{% endfor %}", R"(a=1;b=["谷", null];)",
       R"(a=1;b=["谷", null];)"},
      {"{% if c.function.arguments is mapping %}{{ c.function.arguments.a }} {{ c.function.arguments|tojson }}{% endif %}",
       "1 " + json, "1 " + json},
      {"{{ '<' + c.function.arguments + '>' }}", "<" + json + ">", "<" + tight + ">"},
      {"{{ c.function.arguments }}", json, tight},
      {"{{ c.function.arguments if c.function.arguments is string else c.function.arguments|tojson }}", json, tight},
      {"{{ c.function.name }}", "f", "f"},
      {"{{ c.function.arguments['a'] }}", "1", "1"},  // by its name: no other name is written
      {"{{ c.function.arguments.get('a') }} {{ c.function.arguments|length }}", "1 2", "1 2"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(written(c.how, map), c.of_map) << c.how;
    EXPECT_EQ(written(c.how, text), c.of_text) << c.how;
  }
  const char *wants_map = cases[0].how, *wants_text = cases[3].how;
  for (const Json& none : {Json(), Json(""), Json(" "), Json::object()}) {
    EXPECT_EQ(written(wants_map, call(none)), "{}");
    EXPECT_EQ(written(wants_text, call(none)), "<{}>");
  }
  const Json bare{{"role", "assistant"}, {"tool_calls", {{{"name", "f"}, {"arguments", "{\"a\": 1}"}}}}},
      old{{"role", "assistant"}, {"function_call", {{"name", "f"}, {"arguments", "{\"a\": 1}"}}}};
  for (const Json& message : {bare, old}) EXPECT_EQ(written("{{ c.arguments|tojson }}", message), R"({"a": 1})");
  // Calls that cannot be written.
  EXPECT_EQ(written(wants_text, call("{\"a\": ")), "<{\"a\": >") << "as it was said, since the template takes text";
  auto refused = [&](const char* how, const Json& arguments) { return test::message([&] { written(how, call(arguments)); }); };
  EXPECT_EQ(
      refused(wants_map, "{\"a\": "),
      "not a UserError: message 1, tool_calls[0].function.arguments: not valid JSON; the template takes a map of the arguments, or an object as text");
  EXPECT_EQ(
      refused(wants_map, "[1]"),
      "not a UserError: message 1, tool_calls[0].function.arguments: a JSON text that is no object; the template takes a map of the arguments, or an object as text");
  const std::string digits = "12345678901234567890123";
  EXPECT_EQ(written(wants_text, call(R"({"a": [1, )" + digits + "]}")), R"(<{"a": [1, )" + digits + "]}>");
  EXPECT_EQ(
      refused(wants_map, R"({"a": [1, )" + digits + "]}"),
      "not a UserError: message 1, tool_calls[0].function.arguments.a[1]: a whole number beyond 64 bits, which the template would write with other digits; write it as a text");
  EXPECT_EQ(
      refused(wants_text, 3),
      "not a UserError: message 1, tool_calls[0].function.arguments: a number; arguments are a map, or an object as JSON text");
}

}  // namespace test_text_templates
}  // namespace ravine
