// Conversations: encoding against Transformers' assistant masks, forms of records, packing, and records that are cut or
// omitted.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <optional>
#include <set>

#include "base/parallel.h"
#include "data/instruct/chat_records.h"
#include "data/instruct/chat_set.h"
#include "data/instruct/preference.h"
#include "data/loader.h"
#include "data/open_datasets.h"
#include "tests/unit/data_help.h"
#include "text/chat/prompt_templates.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace test_data_chat {

using test::Bytes;
using test::Folder;
using Ids = std::vector<int32_t>;
const std::string kGolden = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/chat/";

Conversation talk(const std::vector<std::string>& contents, const char* first = "user") {
  Json messages = Json::array();
  bool user = std::string_view(first) == "user";
  for (const auto& text : contents) {
    messages.push_back({{"role", user ? "user" : "assistant"}, {"content", text}});
    user = !user;
  }
  return read_conversation({{"messages", messages}}, ChatFormat::messages, "here");
}

std::unique_ptr<ChatTemplate> jinja_template(const std::string& text) {
  return std::make_unique<ChatTemplate>(text, "template", Json{{"bos_token", "<s>"}, {"eos_token", "</s>"}});
}

std::string learned_text(const Tokenizer& t, const EncodedChat& e) {
  std::string out;
  Ids run;
  for (size_t i = 0; i <= e.ids.size(); ++i) {
    if (i < e.ids.size() && e.learned[i]) {
      run.push_back(e.ids[i]);
    } else if (!run.empty()) {
      out += (out.empty() ? "" : "|") + t.decode(run, false);
      run.clear();
    }
  }
  return out;
}

// The options that take a name or a file know the names, which lie in a room that does not see the templates.
TEST(PromptTemplates, NamesAreThoseOfTheOptions) { EXPECT_EQ(prompt_template_names(), template_words()); }

TEST(ChatEncoder, agrees_with_the_assistant_masks_of_transformers) {
  auto tokenizer = open_tokenizer(kGolden);
  Json want = read_json(kGolden + "expected.json");
  for (const auto& [name, source] : want["templates"].items()) {
    ChatEncoder encoder(*tokenizer, jinja_template(source), LossOn::answers);
    EXPECT_FALSE(encoder.end_is_appended());
    EXPECT_EQ(tokenizer->id_to_piece(encoder.end_token()), name == "inst" ? "</s>" : "<|im_end|>");
    for (const Json& row : want["chats"]) {
      if (row["template"] != name) continue;
      SCOPED_TRACE(row["text"].dump());
      EncodedChat e = encoder.encode(read_conversation(row, ChatFormat::messages, "row"), "row");
      Ids ids = row["ids"].get<Ids>();
      auto mask = row["mask"].get<std::vector<uint8_t>>();
      while (!mask.empty() && mask.back() == 0) mask.pop_back(), ids.pop_back();
      EXPECT_EQ(e.ids, ids);
      EXPECT_EQ(e.learned, mask);
    }
  }
}

TEST(ChatEncoder, loss_on_last_and_all) {
  auto tokenizer = open_tokenizer(kGolden);
  std::string chatml = prompt_template("chatml");
  Conversation c = talk({"Why?", "It is.", "And?", "The sea."});
  auto encode = [&](LossOn loss) { return ChatEncoder(*tokenizer, jinja_template(chatml), loss).encode(c, "here"); };
  EXPECT_EQ(learned_text(*tokenizer, encode(LossOn::answers)), "It is.<|im_end|>|The sea.<|im_end|>");
  EXPECT_EQ(learned_text(*tokenizer, encode(LossOn::last)), "The sea.<|im_end|>");
  EncodedChat all = encode(LossOn::all);
  EXPECT_EQ(std::count(all.learned.begin(), all.learned.end(), 1), static_cast<std::ptrdiff_t>(all.ids.size()));
  EXPECT_TRUE(tokenizer->decode(all.ids, false).ends_with("The sea.<|im_end|>\n"));
  c.learned = {false, false, false, true};  // "weight": 0 on the first answer
  EXPECT_EQ(learned_text(*tokenizer, encode(LossOn::answers)), "The sea.<|im_end|>");
}

TEST(ChatEncoder, the_last_answer_is_learned_though_a_question_follows) {
  auto tokenizer = open_tokenizer(kGolden);
  ChatEncoder last(*tokenizer, jinja_template(prompt_template("chatml")), LossOn::last);
  EXPECT_EQ(learned_text(*tokenizer, last.encode(talk({"Why?", "It is.", "And?", "The sea.", "So?"}), "here")),
            "The sea.<|im_end|>");
  Conversation c = talk({"Why?", "It is.", "And?", "The sea.", "So?"});
  c.learned = {false, true, false, false, false};  // "weight": 0 on the later answer
  EXPECT_EQ(learned_text(*tokenizer, last.encode(c, "here")), "It is.<|im_end|>");
  c.learned = {false, false, false, false, false};
  EXPECT_EQ(learned_text(*tokenizer, last.encode(c, "here")), "");
  EXPECT_EQ(learned_text(*tokenizer,
                         ChatEncoder(*tokenizer, jinja_template(prompt_template("chatml")), LossOn::all).encode(c, "here"))
                .substr(0, 19),
            "<s><|im_start|>user")
      << "all is all, whatever is learned";
}

// The pad token of this tokenizer is the end token <|im_end|>: it is learned all the same.
TEST(ChatEncoder, pad_token_that_ends_answers_is_learned) {
  auto tokenizer = open_tokenizer(kGolden);
  ASSERT_TRUE(tokenizer->special().pad);
  ChatEncoder encoder(*tokenizer, jinja_template(prompt_template("chatml")), LossOn::answers);
  ASSERT_EQ(encoder.end_token(), *tokenizer->special().pad);
  auto store = std::make_shared<ChatStore>(tokenizer->size());
  store->append(encoder.encode(talk({"a", "b"}), "here"), 1);
  Sample s = ChatSamples(store, {.columns = 64, .padding = *tokenizer->special().pad}).sample(0);
  EXPECT_EQ(std::count(s.labels.begin(), s.labels.end(), encoder.end_token()), 1);
}

TEST(ChatEncoder, templates_by_name) {
  auto tokenizer = open_tokenizer(kGolden);
  for (const std::string& name : prompt_template_names()) {
    SCOPED_TRACE(name);
    ChosenTemplate chosen = choose_template(name, "", *tokenizer, "data.chat_template");
    ChatEncoder encoder(*tokenizer, std::move(chosen.chat), LossOn::answers);
    const Conversation talked = talk({"Why?", "It is.", "And?", "The sea."});
    if (name == "glm4") {  // the next role follows an answer; only GLM's tokenizer has it as a special token
      EXPECT_USER_ERROR(encoder.encode(talked, "here"), "message 2 must appear in the text with an end token behind it");
      continue;
    }
    EncodedChat e = encoder.encode(talked, "here");
    std::string learned = learned_text(*tokenizer, e);
    size_t first = learned.find("It is."), second = learned.find("The sea.");
    ASSERT_NE(second, std::string::npos) << learned;
    EXPECT_LE(first, 1u) << learned;
    EXPECT_EQ(learned.find("And"), std::string::npos) << learned;
    EXPECT_EQ(learned.find("Why"), std::string::npos) << learned;
    EXPECT_EQ(e.ids.back(), encoder.end_token());
    EXPECT_EQ(e.learned.back(), 1);
    bool bos = e.ids[0] == *tokenizer->special().bos;
    EXPECT_EQ(bos, name != "qwen" && name != "glm4");
  }
  EXPECT_USER_ERROR(choose_template("chatlm", "", *tokenizer, "data.chat_template"), "did you mean 'chatml'?");
  EXPECT_USER_ERROR(choose_template("", "", *tokenizer, "data.chat_template"),
                    "the tokenizer has no chat template (data.chat_template)");
  EXPECT_EQ(choose_template("", kGolden, *tokenizer, "data.chat_template").source, "");
  Bytes bytes(false);  // puts no bos in front: the named template must not either, wherever it is rendered
  EXPECT_TRUE(choose_template("chatml", "", bytes, "data.chat_template").source.starts_with("{% set bos_token = '' %}"));
}

TEST(ChatEncoder, template_without_an_end_token_gets_eos) {
  auto tokenizer = open_tokenizer(kGolden);
  ChatEncoder encoder(*tokenizer, jinja_template("{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"),
                      LossOn::answers);
  EXPECT_TRUE(encoder.end_is_appended());
  EXPECT_EQ(encoder.end_token(), *tokenizer->special().eos);
  EXPECT_EQ(learned_text(*tokenizer, encoder.encode(talk({"a", "the river"}), "here")),
            " the river\n</s>");  // its first token holds the space of the heading
  EXPECT_EQ(learned_text(*tokenizer, encoder.encode(talk({"a", "the river", "b"}), "here")), " the river\n");
  Bytes none(false, false);
  EXPECT_USER_ERROR(ChatEncoder(none, jinja_template("{{ messages[-1].content }}"), LossOn::answers), "no end token");
  EXPECT_USER_ERROR(ChatEncoder(*tokenizer, jinja_template("{{ messages[0].content }}"), LossOn::answers), "drops the answer");
}

// The end token is the template's, anywhere the template writes it. After the last answer it appears once.
TEST(ChatEncoder, the_end_token_is_found_behind_any_answer) {
  auto tokenizer = open_tokenizer(kGolden);
  auto source = [](const std::string& answer) {
    return "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}" + answer +
           "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  };
  auto encode = [&](const std::string& answer, const Conversation& c, LossOn loss = LossOn::answers) {
    ChatEncoder encoder(*tokenizer, jinja_template(source(answer)), loss);
    EXPECT_EQ(tokenizer->id_to_piece(encoder.end_token()), "<|im_end|>") << answer;
    return learned_text(*tokenizer, encoder.encode(c, "here"));
  };
  const Conversation one = talk({"Why?", "It is."}), two = talk({"Why?", "It is.", "And?", "The sea."});
  const std::string earlier = "{{ m.content }}{% if not loop.last %}<|im_end|>{% endif %}";
  EXPECT_EQ(encode(earlier, one), "It is.<|im_end|>");
  EXPECT_EQ(encode(earlier, two), "It is.<|im_end|>|The sea.<|im_end|>");
  EXPECT_EQ(encode(earlier, two, LossOn::last), "The sea.<|im_end|>");
  EXPECT_EQ(encode(earlier, talk({"Why?", "It is.", "And?"})), "It is.<|im_end|>");
  EXPECT_TRUE(encode(earlier, one, LossOn::all).ends_with("It is.\n<|im_end|>"));
  const std::string but_the_first = "{{ m.content }}{% if loop.index0 != 1 %}<|im_end|>{% endif %}";
  EXPECT_EQ(encode(but_the_first, one), "It is.<|im_end|>");
  EXPECT_EQ(encode(but_the_first, two, LossOn::last), "The sea.<|im_end|>");
  EXPECT_USER_ERROR(encode(but_the_first, two), "message 2 must appear in the text with an end token behind it");
  // A text between the answer and its end.
  const std::string between = "{{ m.content }} over{{ '<|im_end|>' }}";
  EXPECT_EQ(encode(between, two), "It is. over<|im_end|>|The sea. over<|im_end|>");
  // Answers whose letters the end token has.
  for (const char* contents : {"i", "end", ">"})
    for (const std::string& how : {std::string("{{ m.content }}<|im_end|>"), earlier})
      EXPECT_EQ(encode(how, talk({"Why?", contents})), std::string(contents) + "<|im_end|>");
}

// Blanks at the beginning of an answer are learned too where the prompt for it ends otherwise than the text goes on.
TEST(ChatEncoder, an_answer_keeps_its_blanks) {
  auto tokenizer = open_tokenizer(kGolden);
  const std::string thinks =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}";
  ChatEncoder encoder(*tokenizer, jinja_template(thinks), LossOn::answers);
  EXPECT_EQ(learned_text(*tokenizer, encoder.encode(talk({"Why?", "   It is.", "And?", "  The sea."}), "here")),
            "   It is.<|im_end|>|  The sea.<|im_end|>");
}

// The question is rendered otherwise where an answer follows it; and answers that begin like the prompt for one.
TEST(PairEncoder, learns_the_answers_alone) {
  auto tokenizer = open_tokenizer(kGolden);
  auto learned = [&](const std::string& source, const std::string& chosen, const std::string& rejected) {
    const Json record = {{"prompt", {{{"role", "user"}, {"content", "Why?"}}}},
                         {"chosen", {{{"role", "assistant"}, {"content", chosen}}}},
                         {"rejected", {{{"role", "assistant"}, {"content", rejected}}}}};
    const EncodedPair pair = PairEncoder(*tokenizer, jinja_template(source)).encode(read_preference(record, "f"), "f");
    return learned_text(*tokenizer, pair.chosen) + "/" + learned_text(*tokenizer, pair.rejected);
  };
  const std::string open_question =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}{{ '<|im_end|>' if not loop.last or m.role == "
      "'assistant' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  EXPECT_EQ(learned(open_question, "It is.", "  No."), "It is.<|im_end|>/  No.<|im_end|>");
  const std::string thinks =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}";
  EXPECT_EQ(learned(thinks, "<thorn>", "No."), "<thorn><|im_end|>/No.<|im_end|>");
  // The end token of the template, or the tokenizer's, behind a last answer that the template writes none behind.
  auto ends = [&](const std::string& end) {
    return "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}" + end +
           "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  };
  EXPECT_EQ(learned(ends("{{ '<|im_end|>' if not loop.last else '\n' }}"), "It is.", "No."), "It is.<|im_end|>/No.<|im_end|>");
  EXPECT_EQ(learned("{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}", "It is.", "No."),
            "assistant: It is.</s>/assistant: No.</s>");
  EXPECT_EQ(learned(ends("{{ '<|im_end|>' }}"), "It is.", "No."), "It is.<|im_end|>/No.<|im_end|>") << "once";
}

TEST(ChatEncoder, templates_that_rewrite_the_past) {
  auto tokenizer = open_tokenizer(kGolden);
  // Earlier answers lose their text.
  const char* forgets =
      "{% for m in messages %}{% if m.role == 'user' %}{{ 'Q' + m.content }}{% elif loop.last %}{{ 'A' + m.content + '</s>' }}{% else %}{{ 'A...</s>' }}{% endif %}{% endfor %}";
  Conversation c = talk({"Why?", "It is.", "And?", "The sea."});
  ChatEncoder answers(*tokenizer, jinja_template(forgets), LossOn::answers),
      last(*tokenizer, jinja_template(forgets), LossOn::last);
  EncodedChat e = last.encode(c, "f record 2");
  EXPECT_TRUE(learned_text(*tokenizer, e).ends_with("The sea.</s>"));
  EXPECT_USER_ERROR(
      ChatEncoder(
          *tokenizer,
          jinja_template(
              "{% for m in messages %}{{ raise_exception('only one turn') if messages|length > 2 }}{{ m.content }}{% endfor %}</s>"),
          LossOn::answers)
          .encode(c, "f record 2"),
      "the chat template refuses this conversation (f record 2): only one turn");
}

// Qwen3's way, gpt-oss's way, and templates whose earlier answers cannot be learned.
TEST(ChatEncoder, earlier_answers_are_learned_whole_or_refused) {
  auto tokenizer = open_tokenizer(kGolden);
  auto encode = [&](const std::string& source, const Conversation& c, LossOn loss = LossOn::answers) {
    return learned_text(*tokenizer, ChatEncoder(*tokenizer, jinja_template(source), loss).encode(c, "f record 2"));
  };
  auto each = [](const std::string& answer) {
    return "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}" + answer +
           "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
           "'<|im_start|>assistant\n' }}{% endif %}";
  };
  const Conversation c = talk({"Why?", "It is.", "It is.", "The sea."}), open = talk({"Why?", "It is.", "And?"});
  const std::string thinks = each("{% if loop.last %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{{ m.content }}<|im_end|>");
  EXPECT_EQ(encode(thinks, c), "It is.<|im_end|>|<think>\n\n</think>\n\nThe sea.<|im_end|>");
  EXPECT_EQ(encode(thinks, c, LossOn::last), "<think>\n\n</think>\n\nThe sea.<|im_end|>");
  EXPECT_EQ(encode(thinks, open), "It is.<|im_end|>");
  const std::string line = each("{{ '\n' }}{% if loop.last %}{{ '<think>\n' }}{% endif %}{{ m.content }}<|im_end|>");
  EXPECT_EQ(encode(line, c), "\nIt is.<|im_end|>|\n<think>\nThe sea.<|im_end|>");
  // Another end token, and none.
  const std::string two = each("{{ m.content }}{{ '<|im_end|>' if loop.last else '</s>' }}");
  EXPECT_EQ(encode(two, c), "It is.</s>|The sea.<|im_end|>");
  EXPECT_EQ(encode(two, open), "It is.</s>");
  const std::string none = each("{{ m.content }}{{ '<|im_end|>' if loop.last else ' over' }}");
  EXPECT_USER_ERROR(encode(none, c), "f record 2): message 2 must appear in the text with an end token behind it");
  EXPECT_USER_ERROR(encode(none, c), "set data.loss_on=last");
  // Nothing behind it but the token that opens the next message.
  const std::string opens =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}{{ '<|im_end|>' if m.role == "
      "'user' or loop.last }}{% endfor %}{{ '<|im_start|>assistant\n' if add_generation_prompt }}";
  EXPECT_USER_ERROR(encode(opens, c), "f record 2): message 2 must appear in the text with an end token behind it");
  EXPECT_EQ(encode(none, c, LossOn::last), "The sea.<|im_end|>");
  // Lost, or another text.
  EXPECT_USER_ERROR(encode(each("{{ m.content if loop.last else '..' }}<|im_end|>"), c),
                    "message 2 must appear in the text as it is");
  EXPECT_USER_ERROR(encode(each("{{ m.content[:3] }}{{ m.content[3:] if m.content != 'The sea.' }}<|im_end|>"), c),
                    "message 4 must appear in the text as it is");
  const Conversation thought = talk({"Why?", "<think>a</think>\n\nIt is.", "And?", "<think>b</think>The sea."});
  const std::string cuts = each(
      "{% set t = m.content.split('</think>') %}{% if loop.last %}{{ t[0] + '\n</think>\n\n' }}{% endif %}{{ t[-1]|trim }}<|im_end|>");
  EXPECT_USER_ERROR(encode(cuts, thought), "message 2 must appear in the text as it is");
  EXPECT_EQ(encode(cuts, thought, LossOn::last), "<think>b\n</think>\n\nThe sea.<|im_end|>");
  // Calls of tools alone.
  const Json calls{{"messages",
                    {{{"role", "user"}, {"content", "Why?"}},
                     {{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "sum"}, {"arguments", {{"a", 1}}}}}}}}},
                     {{"role", "tool"}, {"content", "3"}},
                     {{"role", "assistant"}, {"content", "It is."}}}}};
  const Conversation called = read_conversation(calls, ChatFormat::messages, "f");
  EXPECT_EQ(
      encode(
          each(
              "{% if loop.last %}<think>{% endif %}{% for t in m.tool_calls or [] %}{{ t.function.name }}{% endfor %}{{ m.content }}<|im_end|>"),
          called),
      "sum<|im_end|>|<think>It is.<|im_end|>");
  EXPECT_USER_ERROR(encode(each("{{ m.content }}<|im_end|>"), called),
                    "message 2 must appear in the text with its calls of tools");
}

// OpenAI's form has null beside calls and their arguments as text; tables have lists of objects as text.
TEST(ChatEncoder, calls_of_tools_are_written_as_the_template_takes_them) {
  auto tokenizer = open_tokenizer(kGolden);
  auto talk_with = [](const Json& calls) {
    return Json{{"tools", R"(["{\"name\": \"sum\"}"])"},
                {"messages",
                 {{{"role", "user"}, {"content", "Why?"}},
                  {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", calls}},
                  {{"role", "tool"}, {"content", "3"}},
                  {{"role", "assistant"}, {"content", "It is."}}}}};
  };
  auto read = [&](const Json& calls) { return read_conversation(talk_with(calls), ChatFormat::messages, "f record 2"); };
  auto encode = [&](const std::string& answer, const Json& calls) {
    const std::string source =
        "{{ (tools or [{}])[0].name }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}" + answer +
        "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    return learned_text(*tokenizer,
                        ChatEncoder(*tokenizer, jinja_template(source), LossOn::answers).encode(read(calls), "f record 2"));
  };
  const std::string tojson =
      "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}{{ m.content }}";
  const std::string text =
      "{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments }}{% endfor %}{{ m.content }}";
  const std::string with_null =
      "{% if m.content is none %}{% for c in m.tool_calls %}{{ c.function.name + c.function.arguments }}{% endfor %}{% endif %}"
      "{% if m.content is not none %}{{ m.content }}{% endif %}";
  const std::string call = R"({"function": {"name": "sum", "arguments": "{\"a\": 1}"}})";
  for (const Json& calls : {Json(Json::array({parse_json(call, "")})), Json("[" + call + "]"), Json(Json::array({call})),
                            Json(Json::array({{{"function", {{"name", "sum"}, {"arguments", {{"a", 1}}}}}}}))})
    for (const std::string& how : {tojson, text, with_null})
      EXPECT_EQ(encode(how, calls), "sum{\"a\": 1}<|im_end|>|It is.<|im_end|>") << how;
  const Json wrong = Json::array({{{"function", {{"name", "sum"}, {"arguments", "{\"a\": "}}}}});
  EXPECT_USER_ERROR(encode(tojson, wrong),
                    "(f record 2): message 2, tool_calls[0].function.arguments: not valid JSON; the template takes a map");
  EXPECT_USER_ERROR(encode(tojson, wrong), "correct the record, or set data.chat_template to another template");
  EXPECT_USER_ERROR(read("[{"), "f record 2, message 2: tool_calls");
  EXPECT_USER_ERROR(read(Json{{"a", 1}}),
                    "'tool_calls' is no list (f record 2, message 2): it must be a list of calls of tools");
}

// Whole numbers beyond 64 bits would lose digits: what a template renders has none, other members of a record may.
TEST(ChatEncoder, whole_numbers_keep_their_digits) {
  Folder f;
  auto tokenizer = open_tokenizer(kGolden);
  const ChatEncoder encoder(*tokenizer, jinja_template(prompt_template("chatml")), LossOn::answers);
  auto read = [&](const std::string& call, const std::string& more) {
    const std::string path = f.write(
        "n.jsonl", R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "tool_calls": [)" +
                       call + "]}]" + more + "}\n");
    return test::message([&] { read_chats({path}, *tokenizer, encoder, {}); });
  };
  const std::string at = "(" + (f / "n.jsonl") + " record 1: ";
  auto call = [](const std::string& n) { return R"({"name": "f", "arguments": {"n": )" + n + "}}"; };
  for (const char* kept : {"9223372036854775807", "-9223372036854775808", "1e30", "12345678901234567890123.0"})
    EXPECT_EQ(read(call(kept), R"(, "id": 12345678901234567890123)").find("beyond 64"), std::string::npos) << kept;
  for (const char* lost : {"9223372036854775808", "-9223372036854775809", "12345678901234567890123"})
    EXPECT_NE(read(call(lost), "").find("a whole number beyond 64 bits " + at + "messages[1].tool_calls[0].arguments.n)"),
              std::string::npos)
        << read(call(lost), "");
  EXPECT_NE(read(call("1"), R"(, "tools": [{"max": 18446744073709551616}])").find(at + "tools[0].max)"), std::string::npos);
  EXPECT_NE(read(call("1"), R"(, "tools": "[{\"max\": [18446744073709551616]}]")").find(at + "tools: [0].max[0])"),
            std::string::npos);
}

// Encodes a chat by the rule itself: renders and encodes the beginning for every border.
EncodedChat by_the_rule(const Tokenizer& t, const ChatTemplate& chat, const Conversation& c, const std::string& end,
                        bool prompt_changes_text) {
  auto render = [&](size_t n, bool add_generation_prompt) {
    Json first = Json::array();
    for (size_t i = 0; i < n; ++i) first.push_back(c.messages[i]);
    return chat.render({{"messages", first}, {"add_generation_prompt", add_generation_prompt}});
  };
  auto common = [](std::string_view a, std::string_view b) {
    size_t n = 0;
    while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
    return n;
  };
  const std::string text = render(c.messages.size(), false);
  EncodedChat e;
  e.ids = t.encode(text, false);
  e.learned.assign(e.ids.size(), 0);
  auto within = [&](size_t bytes) {
    if (bytes >= text.size() || bytes == 0) return bytes == 0 ? size_t{0} : e.ids.size();
    const Ids part = t.encode(std::string_view(text).substr(0, bytes), false);
    size_t same = 0;
    while (same < part.size() && same < e.ids.size() && part[same] == e.ids[same]) ++same;
    if (same == part.size()) return same;
    for (; same < e.ids.size(); ++same) {
      const std::string stands_for = t.decode(std::span(e.ids).first(same + 1), false);
      if (stands_for.size() > bytes || !text.starts_with(stands_for)) break;
    }
    return same;
  };
  for (size_t i = c.learned.size(); i-- > 0;) {
    if (!c.learned[i]) continue;
    const auto& contents = c.messages[i]["content"].get_ref<const std::string&>();
    const size_t from = contents.find_first_not_of(" \n"), to = contents.find_last_not_of(" \n");
    const std::string words = from == std::string::npos ? "" : contents.substr(from, to - from + 1),
                      prompt = i ? render(i, true) : "";
    size_t begin = 0;
    if (i > 0 && text.starts_with(prompt)) {
      begin = prompt.size();
      size_t at = prompt_changes_text || words.empty() ? std::string::npos : text.find(words, begin);
      if (at != std::string::npos && text.find_first_not_of(" \n", begin) < at) {
        for (size_t k = from; k > 0 && at > begin && text[at - 1] == contents[k - 1]; --k) --at;
        begin = at;
      }
    } else {
      begin = words.empty() ? std::string::npos : text.find(words, common(text, i ? render(i, false) : ""));
      if (begin == std::string::npos) throw UserError("not found", "", "", "");
      for (size_t k = from; k > 0 && begin > common(text, prompt) && begin > common(text, i ? render(i, false) : "") &&
                            text[begin - 1] == contents[k - 1];
           --k)
        --begin;
    }
    size_t stop = i + 1 < c.messages.size() ? common(text, render(i + 1, false)) : text.size();
    // Other tests cover texts that change at the end of a conversation.
    if (stop < begin || (i + 1 < c.messages.size() && stop < render(i + 1, false).size()))
      throw UserError("rewritten", "", "", "");
    if (!end.empty())
      if (size_t at = text.substr(0, stop).rfind(end); at != std::string::npos && at >= begin) stop = at + end.size();
    std::fill(e.learned.begin() + static_cast<ptrdiff_t>(within(begin)),
              e.learned.begin() + static_cast<ptrdiff_t>(std::max(within(begin), within(stop))), uint8_t{1});
  }
  return e;
}

TEST(ChatEncoder, borders_are_those_of_a_rendering_for_each_turn) {
  auto json_tokenizer = open_tokenizer(kGolden);
  Bytes bytes(false);
  const std::vector<std::string> words = {"the", " river", "of ", "stones", "<|im_end|>", "\n", "it is",
                                          "?",   "  ",     "é",   "</s>",   "assistant",  "0"};
  size_t compared = 0, refused = 0;
  for (const Tokenizer* t : std::initializer_list<const Tokenizer*>{json_tokenizer.get(), &bytes}) {
    std::vector<std::pair<std::string, std::string>> templates;
    for (const std::string& name : prompt_template_names())
      templates.emplace_back(name, choose_template(name, "", *t, "data.chat_template").source);
    const Json expected = read_json(kGolden + "expected.json");
    for (const auto& [name, source] : expected["templates"].items()) templates.emplace_back(name, source);
    templates.emplace_back(
        "rewrites",
        "{% for m in messages %}{% if m.role == 'user' %}{{ 'Q' + m.content }}{% elif loop.last %}{{ 'A' + m.content + '</s>' }}{% else %}{{ 'A...</s>' }}{% endif %}{% endfor %}");
    templates.emplace_back("counts",
                           "{% for m in messages %}{{ m.content }}</s>{% if messages|length > 5 %} {% endif %}{% endfor %}");
    templates.emplace_back(
        "last",
        "{% for m in messages %}{{ m.role }} {{ m.content }}{{ '</s>' if not loop.last or m.role == 'assistant' }}\n{% endfor %}{% if add_generation_prompt %}assistant {% endif %}");
    for (const auto& [name, source] : templates) {
      SCOPED_TRACE(name);
      if (source.empty()) continue;
      std::unique_ptr<ChatEncoder> encoder;
      try {
        encoder = std::make_unique<ChatEncoder>(*t, jinja_template(source), LossOn::answers);
      } catch (const UserError&) {
        continue;
      }
      const auto chat = jinja_template(source);
      const Json question = {{{"role", "user"}, {"content", "Hello"}}};
      const bool prompt_changes_text = chat->render({{"messages", question}, {"add_generation_prompt", true}}) !=
                                       chat->render({{"messages", question}, {"add_generation_prompt", false}});
      const std::string end = encoder->end_is_appended() ? "" : t->id_to_piece(encoder->end_token());
      for (uint32_t seed = 0; seed < 30; ++seed) {
        uint32_t state = seed * 2654435761u + 1;
        auto draw = [&](uint32_t n) { return (state = state * 1664525u + 1013904223u) / 65536 % n; };
        std::vector<std::string> contents;
        for (uint32_t i = 0, n = 1 + draw(9); i < n; ++i) {
          std::string text = draw(4) ? words[draw(4)] : "";
          for (uint32_t k = draw(4); k-- > 0;) text += words[draw(static_cast<uint32_t>(words.size()))];
          contents.push_back(text);
        }
        const Conversation c = talk(contents, draw(8) ? "user" : "assistant");
        std::optional<EncodedChat> want, got;
        try {
          want = by_the_rule(*t, *chat, c, end, prompt_changes_text);
        } catch (const std::exception&) {
        }
        try {
          got = encoder->encode(c, "here");
        } catch (const UserError&) {
        }
        if (!want || !got) {  // the rule finds the beginning of an answer; other tests cover its end
          ++refused;
          continue;
        }
        if (encoder->end_is_appended() && !c.learned.empty() && c.learned.back())
          want->ids.push_back(encoder->end_token()), want->learned.push_back(1);
        while (!want->learned.empty() && want->learned.back() == 0) want->learned.pop_back(), want->ids.pop_back();
        ASSERT_EQ(got->ids, want->ids) << c.messages.dump();
        ASSERT_EQ(got->learned, want->learned) << c.messages.dump();
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 300u);
  EXPECT_GT(refused, 5u);
}

// Counts the bytes it is given.
class Counted final : public Tokenizer {
 public:
  explicit Counted(const Tokenizer& of) : of_(of) { special_ = of.special(); }
  std::string kind() const override { return of_.kind(); }
  int64_t size() const override { return of_.size(); }
  uint64_t fingerprint() const override { return of_.fingerprint(); }
  std::vector<int32_t> encode(std::string_view text, bool special) const override {
    return bytes += text.size(), of_.encode(text, special);
  }
  std::unique_ptr<Decoding> start_decoding(bool skip) const override { return of_.start_decoding(skip); }
  std::string id_to_piece(int32_t id) const override { return of_.id_to_piece(id); }
  mutable size_t bytes = 0;

 private:
  const Tokenizer& of_;
};

TEST(ChatEncoder, long_chats_are_encoded_in_proportion) {
  auto tokenizer = open_tokenizer(kGolden);
  Counted counted(*tokenizer);
  ChatEncoder encoder(counted, jinja_template(prompt_template("chatml")), LossOn::answers);
  std::vector<std::string> contents;
  for (int i = 0; i < 2000; ++i) contents.push_back(fmt::format("the river {} of stones", i));
  counted.bytes = 0;
  const EncodedChat e = encoder.encode(talk(contents), "here");
  const size_t text = tokenizer->decode(e.ids, false).size();
  EXPECT_GT(std::count(e.learned.begin(), e.learned.end(), 1), 4000);
  EXPECT_LT(counted.bytes, 6 * text);
  // A template that looks at the end of the conversation first is refused when that takes too much.
  ChatEncoder looks(*tokenizer, jinja_template("{% set n = messages|length %}" + prompt_template("chatml")), LossOn::answers);
  contents.resize(200);
  EXPECT_NO_THROW(looks.encode(talk(contents), "here"));
  for (int i = 0; i < 4800; ++i) contents.push_back("a");
  EXPECT_USER_ERROR(looks.encode(talk(contents), "f record 2"),
                    "the chat template refuses this conversation (f record 2): the template takes too many steps");
}

TEST(Conversations, forms) {
  Json alpaca{{"system", "S"},
              {"instruction", "I"},
              {"input", "X"},
              {"output", "O"},
              {"history", Json::array({Json::array({"q", "a"})})}};
  Conversation c = read_conversation(alpaca, ChatFormat::alpaca, "r");
  EXPECT_EQ(
      c.messages.dump(),
      R"([{"role":"system","content":"S"},{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"I\nX"},{"role":"assistant","content":"O"}])");
  EXPECT_EQ(c.learned, (std::vector<bool>{false, false, true, false, true}));
  Json share{{"conversations",
              {{{"from", "human"}, {"value", "q"}},
               {{"from", "function_call"}, {"value", "f()"}},
               {{"from", "observation"}, {"value", "1"}},
               {{"from", "gpt"}, {"value", "a"}}}},
             {"tools", "[{\"name\": \"f\"}]"}};
  c = read_conversation(share, ChatFormat::sharegpt, "r");
  EXPECT_EQ(c.messages[1]["role"], "assistant");
  EXPECT_EQ(c.messages[2]["role"], "tool");
  EXPECT_EQ(c.tools[0]["name"], "f");
  Json openai = parse_json(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, {"role": "assistant", "content": null, "tool_calls": []}, {"role": "assistant", "content": "c", "weight": 0}]})",
      "r");
  c = read_conversation(openai, ChatFormat::messages, "r");
  EXPECT_EQ(c.messages[0]["content"], "ab");
  EXPECT_EQ(c.messages[1]["content"], "");
  EXPECT_FALSE(c.messages[2].contains("weight"));
  EXPECT_EQ(c.learned, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(detect_chat_format(alpaca), ChatFormat::alpaca);
  EXPECT_EQ(detect_chat_format(share), ChatFormat::sharegpt);
  EXPECT_EQ(detect_chat_format(openai), ChatFormat::messages);
  EXPECT_EQ(detect_chat_format({{"text", "x"}}), std::nullopt);
  EXPECT_USER_ERROR(
      read_conversation({{"instruction", "I"}, {"ouput", "O"}}, ChatFormat::alpaca, "f record 3"),
      "no key 'output' (f record 3): the record must have it, it has instruction, ouput; did you mean 'ouput'? rename 'ouput' to 'output'");
  EXPECT_USER_ERROR(
      read_conversation({{"conversations", {{{"from", "bot"}, {"value", "q"}}}}}, ChatFormat::sharegpt, "f record 3"),
      "unknown speaker 'bot' (f record 3)");
  EXPECT_USER_ERROR(read_conversation({{"messages", Json::array()}}, ChatFormat::messages, "f record 3"),
                    "an empty conversation (f record 3)");
  EXPECT_USER_ERROR(read_conversation(parse_json(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", ""),
                                      ChatFormat::messages, "f record 3"),
                    "wrong part of 'content' (f record 3)");
}

TEST(Conversations, every_role_and_every_empty_message) {
  for (auto [from, role] : std::vector<std::pair<const char*, const char*>>{{"human", "user"},
                                                                            {"user", "user"},
                                                                            {"gpt", "assistant"},
                                                                            {"assistant", "assistant"},
                                                                            {"chatgpt", "assistant"},
                                                                            {"bing", "assistant"},
                                                                            {"bard", "assistant"},
                                                                            {"model", "assistant"},
                                                                            {"function_call", "assistant"},
                                                                            {"system", "system"},
                                                                            {"observation", "tool"},
                                                                            {"tool", "tool"}}) {
    const Conversation c =
        read_conversation({{"conversations", {{{"from", from}, {"value", "x"}}}}}, ChatFormat::sharegpt, "r");
    EXPECT_EQ(c.messages[0]["role"], role) << from;
    EXPECT_EQ(c.learned[0], role == std::string("assistant")) << from;
  }
  auto read = [](const char* text, ChatFormat format) { return read_conversation(parse_json(text, "r"), format, "r"); };
  const auto alpaca = ChatFormat::alpaca, share = ChatFormat::sharegpt, messages = ChatFormat::messages;
  EXPECT_EQ(read(R"({"instruction": "I", "input": "", "output": "O"})", alpaca).messages[0]["content"], "I");
  EXPECT_EQ(read(R"({"instruction": "", "input": "X", "output": "O"})", alpaca).messages[0]["content"], "X");
  EXPECT_EQ(
      read(R"({"instruction": "I", "input": null, "output": "O", "system": "", "history": null})", alpaca).messages.size(), 2u);
  EXPECT_USER_ERROR(read(R"({"instruction": null, "output": "O"})", alpaca), "'instruction' is null (r)");
  EXPECT_USER_ERROR(read(R"({"instruction": "I", "output": "O", "history": [["q"]]})", alpaca),
                    "each must be [question, answer]");
  EXPECT_USER_ERROR(read(R"({"instruction": "I", "output": "O", "history": "q"})", alpaca),
                    "it must be a list of [question, answer]");
  EXPECT_USER_ERROR(read(R"({"instruction": 3, "output": "O"})", alpaca),
                    "'instruction' is no text (r): it must be a string, not number");
  Conversation c = read(R"({"system": "S", "conversations": [{"from": "human", "value": "q"}], "tools": ""})", share);
  EXPECT_EQ(c.messages[0].dump(), R"({"role":"system","content":"S"})");
  EXPECT_TRUE(c.tools.is_null());
  EXPECT_TRUE(read(R"({"messages": [{"role": "user", "content": "q"}], "tools": []})", messages).tools.is_null());
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": "q"}], "tools": [{"a": 1}]})", messages).tools.size(), 1u);
  EXPECT_USER_ERROR(read(R"({"messages": [{"role": "user", "content": "q"}], "tools": {"a": 1}})", messages),
                    "'tools' is no list");
  // Other fields stay for the template; null ones are none.
  c = read(
      R"({"messages": [{"role": "user", "content": "q", "name": "N", "extra": null, "weight": 1}, {"role": "assistant", "tool_calls": [1]}, {"role": "tool", "content": ""}]})",
      messages);
  EXPECT_EQ(c.messages[0].dump(), R"({"role":"user","content":"q","name":"N"})");
  EXPECT_EQ(c.messages[1].dump(), R"({"role":"assistant","tool_calls":[1],"content":""})");
  EXPECT_EQ(c.learned, (std::vector<bool>{false, true, false}));
  EXPECT_USER_ERROR(read(R"({"messages": [{"role": "user"}]})", messages), "'content' is no text");
  EXPECT_USER_ERROR(read(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})", messages),
                    "wrong 'weight'");
  EXPECT_USER_ERROR(read(R"({"messages": [{"content": "a"}]})", messages), "no key 'role' (r: messages)");
  EXPECT_USER_ERROR(read(R"([1])", messages), "not a JSON object");
  EXPECT_EQ(detect_chat_format(parse_json(R"({"messages": "x", "instruction": "", "output": ""})", "r")), alpaca)
      << "messages are a list";
  EXPECT_EQ(detect_chat_format(parse_json(R"({"messages": [], "conversations": [], "instruction": "", "output": ""})", "r")),
            messages);
  EXPECT_EQ(detect_chat_format(parse_json(R"({"conversations": [], "instruction": "", "output": ""})", "r")), share);
  EXPECT_EQ(detect_chat_format(parse_json(R"({"instruction": ""})", "r")), std::nullopt);
  for (ChatFormat f : {alpaca, share, messages}) EXPECT_EQ(chat_format(value_named<RecordFormat>(name(f)).value()), f);
  EXPECT_EQ(chat_format(RecordFormat::automatic), std::nullopt);
}

TEST(ChatCounts, are_printed_in_words) {
  ChatCounts c{.records = 1000, .cut = 12, .tokens = 4000, .learned = 1000};
  EXPECT_EQ(c.text(), "1000 conversations, 4000 tokens (25.0 % learned), 12 cut at data.sequence_length");
  EXPECT_EQ(c.warning(), "");
  c.without_answer = 20, c.answer_behind = 30;
  EXPECT_EQ(
      c.text(),
      "1000 conversations, 4000 tokens (25.0 % learned), 12 cut at data.sequence_length, 50 left out: 20 without an answer to learn, 30 with the answer after data.sequence_length");
  EXPECT_EQ(c.warning(), "") << "one in twenty and no more";
  c.answer_behind = 31;
  EXPECT_EQ(
      c.warning(),
      "51 of 1000 conversations (5 %) are left out and not learned: 20 without an answer to learn, 31 with the answer after data.sequence_length; a larger data.sequence_length reaches their answers; "
      "look at some for an answer that is empty, or roles that data.format does not expect");
  c = {.records = 10, .too_long = 4};
  EXPECT_EQ(c.text(), "10 conversations, 0 tokens (0.0 % learned), 4 left out: 4 too long");
  EXPECT_EQ(
      c.warning(),
      "4 of 10 conversations (40 %) are left out and not learned: 4 too long; a larger data.sequence_length keeps long ones whole, data.too_long=cut their beginning");
  EXPECT_EQ(ChatCounts{}.warning(), "");
}

TEST(ChatSets, a_share_is_held_out_and_never_none_or_all) {
  const uint64_t half = uint64_t{1} << 63;
  EXPECT_EQ(held_out_threshold({1, half, UINT64_MAX}, 0.5, "f"), half);
  EXPECT_EQ(held_out_threshold({1, half, UINT64_MAX}, 0.25, "f"), half / 2);
  EXPECT_EQ(held_out_threshold({half + 5, UINT64_MAX}, 0.25, "f"), half + 6) << "the least of them";
  EXPECT_EQ(held_out_threshold({1, 5, 9}, 0.25, "f"), 9u) << "all but the greatest";
  EXPECT_USER_ERROR(held_out_threshold({7, 7}, 0.5, "f"), "too few conversations to hold some out (f)");
}

std::shared_ptr<ChatStore> store_of(const std::vector<int>& lengths) {
  auto s = std::make_shared<ChatStore>(100000);
  int32_t id = 10;
  for (int n : lengths) {
    EncodedChat e;
    for (int i = 0; i < n; ++i) e.ids.push_back(id++), e.learned.push_back(i % 2);
    s->append(e, s->count() + 1);
  }
  return s;
}

TEST(ChatSamples, pack_every_conversation_once_and_apart) {
  std::vector<int> lengths;
  for (int i = 0; i < 200; ++i) lengths.push_back(2 + i * 37 % 16);
  auto store = store_of(lengths);
  ChatSamples p(store, {.columns = 16, .pack = true, .padding = 3});
  std::multiset<Ids> seen, want;
  for (int64_t i = 0; i < store->count(); ++i) {
    Ids ids = store->chat(i).ids;
    ids.pop_back();
    want.insert(ids);
  }
  int64_t used = 0;
  for (int64_t i = 0; i < p.count(); ++i) {
    Sample s = p.sample(i);
    ASSERT_EQ(s.ids.size(), 16u);
    int32_t at = 0;
    for (TokenSpan seg : s.segments) {
      EXPECT_EQ(seg.begin, at);
      at += seg.length;
      Ids ids(s.ids.begin() + seg.begin, s.ids.begin() + at);
      seen.insert(ids);
      for (int32_t t = 0; t < seg.length; ++t) {
        auto k = static_cast<size_t>(seg.begin + t);
        EXPECT_EQ(s.positions[k], t);
        EXPECT_EQ(s.labels[k], (t + 1) % 2 ? s.ids[k] + 1 : kIgnored);
      }
    }
    used += at;
    for (size_t k = static_cast<size_t>(at); k < 16; ++k) {
      EXPECT_EQ(s.ids[k], 3);
      EXPECT_EQ(s.labels[k], kIgnored);
    }
  }
  EXPECT_EQ(seen, want);
  EXPECT_LE(p.count(),
            used / 16 * 11 / 9 + 1);  // best fit decreasing: at most 11/9 of the optimum, which is at least used / 16
  ChatSamples alone(store, {.columns = 16, .pack = false});
  EXPECT_EQ(alone.count(), 200);
  EXPECT_TRUE(alone.ragged());
  EXPECT_EQ(alone.origin(7), "record 8");
  EXPECT_THROW(ChatSamples(store_of({18}), {.columns = 16}), Error);
}

DatasetOptions options(const std::string& path, int64_t columns) {
  DatasetOptions o;
  o.train = {{path}};
  o.sequence_length = columns;
  o.chat_template = "chatml";
  return o;
}

std::string set_of(const Folder& f, const std::string& name, int n) {
  Json list = Json::array();
  for (int i = 0; i < n; ++i)
    list.push_back({{"instruction", fmt::format("What is {}?", i)},
                    {"input", ""},
                    {"output", fmt::format("It is {} {}", i, std::string(static_cast<size_t>(i % 9), 'x'))}});
  return f.write(name, list.dump(1));
}

TEST(ChatSets, become_datasets) {
  Folder f;
  auto tokenizer = open_tokenizer(kGolden);
  auto o = options(set_of(f, "a.json", 60), 96);
  for (int threads : {1, 3}) {
    int before = thread_count();
    set_thread_count(threads);
    Datasets d = open_datasets(o, tokenizer.get());
    set_thread_count(before);
    EXPECT_EQ(tokenizer->id_to_piece(*d.end_token), "<|im_end|>");
    ASSERT_EQ(d.notes.size(), 2u);
    EXPECT_NE(d.notes[1].find("a.json (alpaca): 60 conversations"), std::string::npos) << d.notes[1];
    EXPECT_FALSE(d.train->ragged());
    int64_t segments = 0;
    for (int64_t i = 0; i < d.train->sample_count(); ++i) segments += static_cast<int64_t>(d.train->sample(i).segments.size());
    EXPECT_EQ(segments, 60);
  }
  o.pack = false;
  o.valid_fraction = 0.2;
  Datasets d = open_datasets(o, tokenizer.get());
  EXPECT_EQ(d.train->sample_count() + d.valid->sample_count(), 60);
  EXPECT_GE(d.valid->sample_count(), 1);
  EXPECT_TRUE(d.train->ragged());
  // Micro batches are as wide as they must be, and lose nothing.
  MicroBatch m = make_micro_batch(*d.train, 0, 4);
  int64_t longest = 0, valid = 0;
  for (int64_t i = 0; i < 4; ++i) {
    Sample s = d.train->sample(i);
    longest = std::max<int64_t>(longest, s.segments[0].length);
    valid += static_cast<int64_t>(s.labels.size()) - std::count(s.labels.begin(), s.labels.end(), kIgnored);
    auto begin = m.ids.begin() + i * m.columns;
    EXPECT_TRUE(std::equal(begin, begin + s.segments[0].length, s.ids.begin()));
    EXPECT_EQ(m.segments[static_cast<size_t>(i)], (TokenSpan{static_cast<int32_t>(i * m.columns), s.segments[0].length}));
  }
  EXPECT_EQ(m.columns, std::min<int64_t>(96, (longest + 31) / 32 * 32));
  EXPECT_EQ(m.valid_tokens, valid);
}

TEST(ChatSets, text_and_conversations_side_by_side) {
  Folder f;
  auto tokenizer = open_tokenizer(kGolden);
  auto o = options("", 32);
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += Json{{"instruction", "Why?"}, {"output", "It is"}}.dump() + "\n";
  o.train = {{f.write("a.jsonl", lines)}, {f.write("b.jsonl", "{\"text\": \"the river and the sea\"}\n")}};
  Datasets d = open_datasets(o, tokenizer.get());
  bool text = false, chat = false;
  for (int64_t i = 0; i < d.train->sample_count(); ++i)
    (d.train->origin(i).find("b.jsonl") != std::string::npos ? text : chat) = true;
  EXPECT_TRUE(text && chat);
  o.train[0].weight = 3;
  EXPECT_NO_THROW(open_datasets(o, tokenizer.get()));
  o.train = {{f.write("c.jsonl", "{\"text\": \"the river\", \"instruction\": \"a\", \"output\": \"b\"}\n")}};
  o.chat_template = "";  // has the text key: it is text, which needs no template
  EXPECT_NO_THROW(open_datasets(o, tokenizer.get()));
  o.format = RecordFormat::alpaca;
  EXPECT_USER_ERROR(open_datasets(o, tokenizer.get()), "the tokenizer has no chat template");
}

// A table has every field in every row, with null for missing ones. The conversations are equal to those in lines
// without nulls.
TEST(ChatSets, parquet_equals_lines) {
  const std::string files = RAVINE_SOURCE_DIR "/tests/golden/files/chat_";
  auto tokenizer = open_tokenizer(kGolden);
  const bool parquet = test::reads_parquet();
  ChatEncoder encoder(*tokenizer, jinja_template(prompt_template("chatml")), LossOn::answers);
  for (const char* form : {"alpaca", "sharegpt", "messages"}) {
    SCOPED_TRACE(form);
    const ChatSet lines = read_chats({files + form + ".jsonl"}, *tokenizer, encoder, {});
    EXPECT_EQ(name(lines.format), form);
    ASSERT_EQ(lines.train.count() + lines.counts.without_answer, 20);
    if (!parquet) continue;
    EXPECT_EQ(detect_chat_file(files + form + ".parquet", "text"), lines.format);
    const ChatSet table = read_chats({files + form + ".parquet"}, *tokenizer, encoder, {});
    ASSERT_EQ(table.train.count(), lines.train.count());
    for (int64_t i = 0; i < lines.train.count(); ++i) {
      EXPECT_EQ(table.train.chat(i).ids, lines.train.chat(i).ids) << i;
      EXPECT_EQ(table.train.chat(i).learned, lines.train.chat(i).learned) << i;
    }
  }
  if (!parquet) GTEST_SKIP() << "built without Apache Arrow";
  // Tools and calls: members of other rows are not in them, a default of null and a null of an enum are.
  ChatRecords lines(files + "tools.jsonl"), table(files + "tools.parquet");
  Record line, row;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(lines.next(line) && table.next(row));
    const Conversation want = read_conversation(line.json(), ChatFormat::messages, "r"),
                       got = read_conversation(row.json(), ChatFormat::messages, "r");
    EXPECT_EQ(got.tools.dump(), want.tools.dump());
    EXPECT_EQ(got.messages.dump(), want.messages.dump());
  }
}

TEST(ChatSets, what_does_not_fit_is_counted) {
  Folder f;
  auto tokenizer = open_tokenizer(kGolden);
  auto chat = [](const std::string& q, const std::string& a) {
    return Json{{"messages", {{{"role", "user"}, {"content", q}}, {{"role", "assistant"}, {"content", a}}}}}.dump() + "\n";
  };
  std::string lines = chat("a", "b") + chat("a", std::string(300, 'x')) + chat(std::string(300, 'x'), "b") +
                      R"({"messages": [{"role": "user", "content": "no answer"}]})" + "\n";
  auto path = f.write("m.jsonl", lines);
  ChatEncoder encoder(*tokenizer, jinja_template(prompt_template("chatml")), LossOn::answers);
  ChatSet cut = read_chats({path}, *tokenizer, encoder, {.longest = 40});
  EXPECT_EQ(cut.counts.records, 4);
  EXPECT_EQ(cut.counts.cut, 1);
  EXPECT_EQ(cut.counts.answer_behind, 1);
  EXPECT_EQ(cut.counts.without_answer, 1);
  EXPECT_EQ(cut.train.count(), 2);
  EXPECT_EQ(cut.train.length(1), 40);
  EXPECT_NE(cut.counts.text().find("1 cut at data.sequence_length, 2 left out: 1 without an answer to learn (the first is " +
                                   path + " record 4), 1 with the answer after"),
            std::string::npos)
      << cut.counts.text();
  ChatSet dropped = read_chats({path}, *tokenizer, encoder, {.longest = 40, .too_long = TooLong::drop});
  EXPECT_EQ(dropped.counts.too_long, 2);
  EXPECT_EQ(dropped.train.count(), 1);
  EXPECT_USER_ERROR(read_chats({path}, *tokenizer, encoder, {.longest = 4}), "no conversation is left");
  EXPECT_USER_ERROR(read_chats({path}, *tokenizer, encoder, {.vocabulary = 50}),
                    "is beyond the vocabulary (" + path + " record 1)");
  EXPECT_USER_ERROR(read_chats({f.write("e.jsonl", "")}, *tokenizer, encoder, {}), "the file holds no record");
  EXPECT_USER_ERROR(read_chats({f.write("w.jsonl", "{\"a\": 1}\n")}, *tokenizer, encoder, {}),
                    "no conversation (" + (f / "w.jsonl") + " record 1)");
  EXPECT_USER_ERROR(read_chats({f.write("x.jsonl", chat("a", "b") + "\n{\"messages\": 3}\n")}, *tokenizer, encoder, {}),
                    "(" + (f / "x.jsonl") + " record 3)");
}

// A conversation of just as many tokens as fit is whole; the cut keeps the first ones.
TEST(ChatSets, as_long_as_fits_is_whole) {
  Folder f;
  auto tokenizer = open_tokenizer(kGolden);
  ChatEncoder encoder(*tokenizer, jinja_template(prompt_template("chatml")), LossOn::answers);
  const std::string line = Json{{"instruction", "Why?"}, {"output", "the river and the sea"}}.dump() + "\n";
  const auto path = f.write("a.jsonl", line);
  const EncodedChat whole = read_chats({path}, *tokenizer, encoder, {}).train.chat(0);
  const auto n = static_cast<int64_t>(whole.ids.size());
  for (const TooLong longer : {TooLong::cut, TooLong::drop}) {
    const ChatSet fits = read_chats({path}, *tokenizer, encoder, {.longest = n, .too_long = longer});
    EXPECT_EQ(fits.counts.cut + fits.counts.left_out(), 0);
    EXPECT_EQ(fits.counts.tokens, n);
    EXPECT_EQ(fits.counts.learned, std::count(whole.learned.begin(), whole.learned.end(), 1));
  }
  const ChatSet cut = read_chats({path}, *tokenizer, encoder, {.longest = n - 1});
  EXPECT_EQ(cut.counts.cut, 1);
  EXPECT_EQ(cut.train.chat(0).ids, Ids(whole.ids.begin(), whole.ids.end() - 1));
  // Origins of records of several files, also behind a split.
  const auto other = f.write("b.jsonl", line + "\n" + Json{{"instruction", "And?"}, {"output", "it is"}}.dump() + "\n");
  const ChatSet two = read_chats({path, other}, *tokenizer, encoder, {});
  ASSERT_EQ(two.train.count(), 3);
  EXPECT_EQ(two.train.origin(0), path + " record 1");
  EXPECT_EQ(two.train.origin(2), other + " record 3");
  const ChatSet split = read_chats({path, other}, *tokenizer, encoder, {.held_out = 0.5});
  EXPECT_EQ(split.train.count() + split.held_out.count(), 3);
  std::set<std::string> origins;
  for (const ChatStore* s : {&split.train, &split.held_out})
    for (int64_t i = 0; i < s->count(); ++i) origins.insert(s->origin(i));
  EXPECT_EQ(origins, (std::set<std::string>{path + " record 1", other + " record 1", other + " record 3"}));
}

// Best fit selects the sample that is left fullest, so these five take two.
TEST(ChatSamples, best_fit_and_origins) {
  auto store = store_of({7, 6, 5, 4, 3});  // of 6, 5, 4, 3, 2 columns
  ChatSamples p(store, {.columns = 10, .pack = true});
  ASSERT_EQ(p.count(), 2);
  EXPECT_EQ(p.sample(0).segments, (std::vector<TokenSpan>{{0, 6}, {6, 4}}));
  EXPECT_EQ(p.sample(1).segments, (std::vector<TokenSpan>{{0, 5}, {5, 3}, {8, 2}}));
  EXPECT_EQ(p.origin(0), "record 1 and 1 more");
  EXPECT_EQ(p.origin(1), "record 2 and 2 more");
  EXPECT_EQ(p.token_count(), 25);
  // In the padding positions go on from where the last conversation ends in the row.
  ChatSamples alone(store, {.columns = 10, .pack = false, .padding = 7});
  EXPECT_EQ(alone.sample(4).positions, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(alone.sample(4).ids[2], 7);
}

TEST(ChatRecords, lists_and_objects) {
  Folder f;
  auto bodies = [&](const std::string& text, const char* name = "a.json") {
    ChatRecords r(f.write(name, text));
    std::vector<std::string> out;
    for (Record x; r.next(x);) out.push_back(fmt::format("{}:{}", x.number, x.body));
    return out;
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(bodies(" [ {\"a\": \"}{\\\"\"} ,\n{\"b\":[{}]} ]\n"), (List{"1:{\"a\": \"}{\\\"\"}", "2:{\"b\":[{}]}"}));
  EXPECT_EQ(bodies("{\"a\":1}\n{\"b\":2}{}"), (List{"1:{\"a\":1}", "2:{\"b\":2}", "3:{}"}));
  EXPECT_EQ(bodies("\xEF\xBB\xBF[]"), List{});
  EXPECT_EQ(bodies(""), List{});
  EXPECT_EQ(bodies("{\"a\":1}\n\n{}\n", "a.jsonl"), (List{"1:{\"a\":1}", "3:{}"}));
  std::string large = "[";
  for (int i = 0; i < 3000; ++i) large += fmt::format("{}{{\"t\":\"{}\"}}", i ? "," : "", std::string(1000, 'x'));
  EXPECT_EQ(bodies(large + "]").size(), 3000u);  // over several reads
  for (const char* bad : {"[{}", "[{},]", "[{} {}]", "[{}] x", "{\"a\":", "x", "{},{}", "[{\"a\":\"]"})
    EXPECT_USER_ERROR(bodies(bad), "not valid JSON");
  for (const char* bad : {"[1]", "[[{}]]", "[\"a\"]", "[null]", "[{}, 1]"})
    EXPECT_USER_ERROR(bodies(bad), "a list of something else than objects");
}

}  // namespace test_data_chat
}  // namespace ravine
