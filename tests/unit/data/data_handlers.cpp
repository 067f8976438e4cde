// Record handlers of instruction sets against what the handlers of ModelLink give (tools/golden/make_chat.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/handlers/handlers.h"
#include "tests/unit/data_help.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace test_data_handlers {

const std::string kGolden = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/chat/";
using Ids = std::vector<int32_t>;

std::unique_ptr<RecordHandler> make(const std::string& name, const HandlerOptions& options) {
  for (const HandlerEntry& e : instruct_handlers())
    if (name == e.name) return e.make(options);
  throw Error("no handler " + name);
}

Record record_of(const Json& json) {
  Record r;
  r.body = json.dump();
  r.file = std::make_shared<const std::string>("set.json");
  r.number = 7;
  return r;
}

HandledRecord handle(const RecordHandler& h, const Json& json) {
  HandledRecord out;
  out.lists.resize(h.lists().size());
  h.handle(record_of(json), out);
  return out;
}

std::vector<Ids> sequences(const TokenDocument& d) {
  std::vector<Ids> out;
  size_t at = 0;
  for (int32_t n : d.lengths) {
    out.emplace_back(d.ids.begin() + static_cast<ptrdiff_t>(at),
                     d.ids.begin() + static_cast<ptrdiff_t>(at + static_cast<size_t>(n)));
    at += static_cast<size_t>(n);
  }
  EXPECT_EQ(at, d.ids.size());
  return out;
}

TEST(Handlers, as_recorded) {
  auto tokenizer = open_tokenizer(kGolden);
  Json want = read_json(kGolden + "expected.json")["handlers"];
  std::set<std::string> seen;
  for (const Json& row : want) {
    SCOPED_TRACE(row["handler"].dump() + " " + row["record"].dump() + row["append_eod"].dump());
    HandlerOptions o;
    o.tokenizer = tokenizer.get();
    o.append_eod = row["append_eod"].get<bool>();
    auto h = make(row["handler"].get<std::string>(), o);
    HandledRecord got = handle(*h, row["record"]);
    std::vector<Ids> ids = sequences(got.lists[0]);
    ASSERT_EQ(ids.size(), row["ids"].size());
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], row["ids"][i].get<Ids>()) << i;
    if (got.lists.size() == 3) {
      std::vector<Ids> mask = sequences(got.lists[1]), labels = sequences(got.lists[2]);
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(labels[i], row["labels"][i].get<Ids>()) << i;
        EXPECT_EQ(mask[i], Ids(ids[i].size(), 1));
      }
    }
    seen.insert(row["handler"].get<std::string>());
  }
  EXPECT_EQ(seen.size(), 7u);
}

TEST(Handlers, lists_are_those_of_the_seed) {
  auto tokenizer = open_tokenizer(kGolden);
  HandlerOptions o;
  o.tokenizer = tokenizer.get();
  o.chat_template = "chatml";
  for (const HandlerEntry& e : instruct_handlers()) {
    auto lists = e.make(o)->lists();
    if (std::string_view(e.name).find("Pretrain") != std::string_view::npos) {
      ASSERT_EQ(lists.size(), 1u) << e.name;
      EXPECT_EQ(lists[0].name, "text");
      continue;
    }
    ASSERT_EQ(lists.size(), 3u) << e.name;
    EXPECT_EQ(lists[0].name, "packed_input_ids");
    EXPECT_EQ(lists[1].name, "packed_attention_mask");
    EXPECT_EQ(lists[2].name, "packed_labels");
    for (const auto& l : lists) EXPECT_TRUE(l.negative) << "int32 files";
  }
}

TEST(Handlers, long_sequences_are_dropped_and_counted) {
  auto tokenizer = open_tokenizer(kGolden);
  HandlerOptions o;
  o.tokenizer = tokenizer.get();
  Json moss{{"chat", {{"a", {{"Human", "x"}, {"MOSS", "y"}}}, {"b", {{"Human", "z"}, {"MOSS", "w"}}}}}};
  auto all = sequences(handle(*make("MOSSInstructionHandler", o), moss).lists[0]);
  ASSERT_EQ(all.size(), 2u);
  o.sequence_length = static_cast<int64_t>(all[1].size());  // a sequence of that length is dropped as in the seed
  HandledRecord cut = handle(*make("MOSSInstructionHandler", o), moss);
  EXPECT_EQ(sequences(cut.lists[0]), (std::vector<Ids>{all[0]}));
  EXPECT_EQ(cut.dropped.size(), 1u);
  EXPECT_EQ(cut.lists[2].lengths, cut.lists[0].lengths);
}

TEST(Handlers, chat_templates) {
  auto tokenizer = open_tokenizer(kGolden);
  HandlerOptions o;
  o.tokenizer = tokenizer.get();
  o.chat_template = kGolden;  // the folder's own
  Json messages{{"messages", {{{"role", "user"}, {"content", "Why?"}}, {{"role", "assistant"}, {"content", "The sea"}}}}};
  HandledRecord got = handle(*make("messages", o), messages);
  EXPECT_EQ(tokenizer->decode(got.lists[0].ids, false),
            "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\nThe sea<|im_end|>");
  Ids learned;
  for (int32_t l : got.lists[2].ids)
    if (l != -100) learned.push_back(l);
  EXPECT_EQ(tokenizer->decode(learned, false), "The sea<|im_end|>");
  messages["messages"].erase(1);
  HandledRecord none = handle(*make("messages", o), messages);
  EXPECT_TRUE(none.lists[0].lengths.empty());
  EXPECT_EQ(none.dropped.size(), 1u);
  Json alpaca{{"instruction", "Why?"}, {"output", "The sea"}},
      shares{{"conversations", {{{"from", "human"}, {"value", "Why?"}}, {{"from", "gpt"}, {"value", "The sea"}}}}};
  EXPECT_EQ(handle(*make("alpaca", o), alpaca).lists[2].ids, got.lists[2].ids);
  EXPECT_EQ(handle(*make("sharegpt", o), shares).lists[2].ids, got.lists[2].ids);
}

TEST(Handlers, errors_name_the_record) {
  test::Bytes bytes(false, false);
  HandlerOptions o;
  o.tokenizer = &bytes;
  auto general = make("GeneralInstructionHandler", o);
  EXPECT_USER_ERROR(handle(*general, {{"instruction", "a"}, {"inptu", "b"}, {"output", "c"}}),
                    "no key 'input' (set.json:7): did you mean 'inptu'?");
  EXPECT_USER_ERROR(handle(*general, {{"instruction", 3}, {"input", "b"}, {"output", "c"}}),
                    "'instruction' is no text (set.json:7)");
  EXPECT_USER_ERROR(handle(*general, Json::array({1})), "not a JSON object (set.json:7)");
  EXPECT_USER_ERROR(handle(*make("BelleMultiTurnInstructionHandler", o), {{"instruction", ""}, {"output", "c"}}),
                    "holds no turn (set.json:7)");
  EXPECT_USER_ERROR(handle(*make("MOSSInstructionHandler", o), {{"chat", "x"}}), "no map 'chat' (set.json:7)");
  EXPECT_USER_ERROR(make("MOSSMultiTurnHandler", o), "the tokenizer has no end token");
  o.append_eod = true;
  EXPECT_USER_ERROR(make("GeneralInstructionHandler", o), "the tokenizer has no end token (--append-eod)");
}

// eos behind a conversation that does not end with it, and learned; the length that is dropped counts it.
TEST(Handlers, eos_behind_conversations_and_the_length_with_it) {
  auto tokenizer = open_tokenizer(kGolden);
  HandlerOptions o;
  o.tokenizer = tokenizer.get();
  o.chat_template = "chatml";
  const Json record{{"instruction", "Why?"}, {"output", "The sea"}};
  const HandledRecord plain = handle(*make("alpaca", o), record);
  o.append_eod = true;
  const HandledRecord ended = handle(*make("alpaca", o), record);
  Ids want = plain.lists[0].ids;
  want.push_back(*tokenizer->special().eos);
  ASSERT_NE(plain.lists[0].ids.back(), *tokenizer->special().eos);
  EXPECT_EQ(ended.lists[0].ids, want);
  EXPECT_EQ(ended.lists[2].ids.back(), *tokenizer->special().eos);
  EXPECT_EQ(ended.lists[1].ids, Ids(want.size(), 1));
  o.chat_template = "empty";  // ends answers with eos itself
  const Ids own = handle(*make("alpaca", o), record).lists[0].ids;
  EXPECT_EQ(std::count(own.begin(), own.end(), *tokenizer->special().eos), 1);
  for (const char* name : {"AlpacaPretrainHandler", "GeneralInstructionHandler", "alpaca"}) {
    HandlerOptions with = o;
    with.chat_template = std::string(name) == "alpaca" ? "chatml" : "";
    const Json full{{"instruction", "Why?"}, {"input", "x"}, {"output", "The sea"}};
    const auto n = static_cast<int64_t>(handle(*make(name, with), full).lists[0].ids.size());
    for (auto [limit, kept] : {std::pair<int64_t, bool>{n + 1, true}, {n, false}, {0, true}}) {
      with.sequence_length = limit;
      const HandledRecord r = handle(*make(name, with), full);
      EXPECT_EQ(r.lists[0].lengths.size(), kept ? 1u : 0u) << name << limit;
      EXPECT_EQ(r.dropped.size(), kept ? 0u : 1u) << name << limit;
      if (!kept) {
        EXPECT_EQ(r.dropped[0], "as long as --seq-length or longer");
      }
    }
  }
  // Turns that are null or empty are none.
  HandlerOptions moss;
  moss.tokenizer = tokenizer.get();
  const Json chat{{"chat",
                   {{"turn_1", {{"Human", "<|Human|>: a<eoh>\n"}, {"MOSS", "<|MOSS|>: b<eom>\n"}}},
                    {"turn_2", nullptr},
                    {"turn_3", Json::object()}}}};
  const Json one{{"chat", {{"turn_1", {{"Human", "a"}, {"MOSS", "b"}}}}}};
  for (const char* name : {"MOSSInstructionHandler", "MOSSMultiTurnHandler"})
    EXPECT_EQ(handle(*make(name, moss), chat).lists[0].ids, handle(*make(name, moss), one).lists[0].ids) << name;
}

}  // namespace test_data_handlers
}  // namespace ravine
