// Cases where two rules of the data room meet: second files and lists, keys of stored data, settings that only one of
// two files has.
#include <gtest/gtest.h>
#include <zlib.h>

#include <fmt/ranges.h>

#include "base/json.h"
#include "data/handlers/all_handlers.h"
#include "data/open_datasets.h"
#include "data/preprocess.h"
#include "data/source.h"
#include "tests/unit/data_help.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace test_data_corners {

using test::Bytes;
using test::Folder;
using Ids = std::vector<int32_t>;
namespace fs = std::filesystem;

const std::string kChat = RAVINE_SOURCE_DIR "/tests/golden/chat", kLlama = RAVINE_SOURCE_DIR "/tests/golden/tokenizer/llama";

std::vector<std::string> documents(const std::string& path) {
  auto reader = open_documents(path, "text");
  std::vector<std::string> all;
  for (std::string text; reader->next(text);) all.push_back(text);
  return all;
}

TEST(Folders, DescriptionsOfADatasetAreNoData) {
  Folder f;
  const std::string data = f.write("d/train.JSONL", "{\"text\": \"a\"}\n");
  for (const char* other :
       {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", ".hidden.jsonl", "notes.md"})
    f.write(std::string("d/") + other, "{}");
  EXPECT_EQ(source_files(f / "d"), std::vector<std::string>{data});
  fs::create_directories(f / "d/x.jsonl");
  EXPECT_EQ(source_files(f / "d/*.*SO*"), std::vector<std::string>{data});
  EXPECT_EQ(source_files(f / "d/[tx]*"), std::vector<std::string>{data}) << "a folder that fits the pattern is no file";
}

TEST(Texts, PositionsCountTheMarkAtTheBeginningAndLinesMayEndAsOnWindows) {
  Folder f;
  const auto bad = f.write("bad.txt", "\xEF\xBB\xBFgood\nbad \xFF here\n");
  EXPECT_USER_ERROR(documents(bad), bad + ":2, byte 12 of the text");
  std::string text;
  for (int i = 0; text.size() < 300000; ++i) text += std::string(100, 'x') + (i % 5 == 4 ? "\r\n\r\n" : "\r\n");
  const auto docs = documents(f.write("w.txt", text));
  EXPECT_GT(docs.size(), 3u);
  std::string all;
  for (size_t i = 0; i < docs.size(); ++i) {
    all += docs[i];
    if (i + 1 < docs.size()) {
      EXPECT_TRUE(docs[i].ends_with("\r\n\r\n")) << i;
    }
  }
  EXPECT_EQ(all, text);
  EXPECT_EQ(documents(f.write("n.jsonl", "{\"text\": null}\n{\"text\": \"a\"}\n{\"text\": null, \"x\": 1}\n")),
            std::vector<std::string>{"a"})
      << "null is no text, as in a table";
}

// --- tokens that are kept

DatasetOptions options(const std::string& file, const std::string& cache = "") {
  DatasetOptions o;
  o.train = {{file, 1}};
  o.sequence_length = 16;
  o.threads = 1;
  o.token_folder = cache;
  o.tokenizer_path = kChat;
  return o;
}

TEST(TokenKeys, FollowTheSuffixAndNotTheFolder) {
  Folder f;
  Bytes t;
  const TokenizeOptions o{"text", true, 0, 0, 1, {}};
  const std::string line = "{\"text\": \"a\"}\n";
  const auto key = [&](const std::string& name) { return token_key({f.write(name, line)}, t, o); };
  EXPECT_EQ(key("a/x.jsonl"), key("b/y.jsonl"));
  EXPECT_NE(key("a/x.jsonl"), key("a/x.txt")) << "read as text it has other tokens";
  EXPECT_NE(key("a/x.jsonl"), key("a/x.json"));
}

std::string chat_lines(int n, const std::string& last = "It is") {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += Json{{"instruction", fmt::format("What is {}?", i)}, {"output", i + 1 < n ? "It is" : last}}.dump() + "\n";
  return text;
}

TEST(TokenKeys, OfConversationsFollowWhatCutsAndDropsThem) {
  Folder f;
  const auto t = open_tokenizer(kChat);
  const auto file = f.write("a.jsonl", chat_lines(6));
  auto key = [&](const std::function<void(DatasetOptions&)>& change) {
    DatasetOptions o = options(file, f / "tokens");
    o.sequence_length = 200;
    change(o);
    return open_datasets(o, t.get()).tokens.at(0).key;
  };
  const uint64_t plain = key([](auto&) {});
  EXPECT_EQ(key([](DatasetOptions& o) { o.shuffle = false, o.pack = false, o.seed = 3; }), plain) << "what comes behind";
  EXPECT_NE(key([](DatasetOptions& o) { o.sequence_length = 199; }), plain);
  EXPECT_NE(key([](DatasetOptions& o) { o.too_long = TooLong::drop; }), plain);
  EXPECT_NE(key([](DatasetOptions& o) { o.loss_on = LossOn::all; }), plain);
  EXPECT_NE(key([&](DatasetOptions& o) { o.vocabulary = t->size() + 1; }), plain) << "ids are checked against it";
  EXPECT_NE(key([](DatasetOptions& o) { o.format = RecordFormat::alpaca; }), plain);
}

TEST(TokensKept, WithTheirNotices) {
  Folder f;
  const auto t = open_tokenizer(kChat);
  DatasetOptions o = options(f.write("a.jsonl", chat_lines(4, "")), f / "tokens");
  o.sequence_length = 200;
  Datasets first = open_datasets(o, t.get());
  save_tokens(f / "tokens", first.tokens);
  Datasets again = open_datasets(o, t.get());
  EXPECT_FALSE(again.tokens.at(0).fresh);
  EXPECT_EQ(again.notes, first.notes);
  EXPECT_EQ(again.warnings, first.warnings);
  ASSERT_EQ(first.warnings.size(), 1u);
  EXPECT_NE(first.warnings[0].find("(the first is " + o.train[0].path + " record 4)"), std::string::npos) << first.warnings[0];
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator(folder)) out.push_back(e.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

TEST(TokensKept, OfBothListsAndNothingOfOthersIsRemoved) {
  Folder f;
  Bytes t;
  DatasetOptions o = options(f.write("a.jsonl", "{\"text\": \"one\"}\n"), f / "tokens");
  o.valid = {{f.write("v.jsonl", "{\"text\": \"two\"}\n"), 1}};
  Datasets d = open_datasets(o, &t);
  save_tokens(o.token_folder, d.tokens);
  EXPECT_EQ(entries(o.token_folder).size(), 2u) << "those of the validation files too";
  for (const TokensInUse& kept : open_datasets(o, &t).tokens) EXPECT_FALSE(kept.fresh);
  // Another run's entries, in a folder that is linked here, stay; in the run's own they go.
  fs::create_directory_symlink(o.token_folder, f / "linked");
  DatasetOptions other = options(f.write("b.jsonl", "{\"text\": \"three\"}\n"), f / "linked");
  Datasets more = open_datasets(other, &t);
  save_tokens(other.token_folder, more.tokens);
  EXPECT_EQ(entries(o.token_folder).size(), 3u);
  // Those of an older version go, whatever else lies there stays.
  const std::vector<std::byte> one(1);
  auto foreign = [&](const std::string& stem, const std::string& format, const std::string& key) {
    save_safetensors(f / ("tokens/" + stem + ".safetensors"), {{"x", DType::u8, {1}, one}},
                     {.metadata = {{"format", format}, {"key", key}}});
  };
  foreign("0123456789abcdef", "ravine-chats-1", "0123456789abcdef");
  foreign("0123456789abcde0", "pt", "0123456789abcde0");
  foreign("0123456789abcde1", "ravine-tokens-1", "0123456789abcdef");
  foreign("weights", "ravine-tokens-1", "weights");
  d = open_datasets(o, &t);
  save_tokens(o.token_folder, d.tokens);
  std::vector<std::string> left = entries(o.token_folder);
  EXPECT_EQ(left.size(), 2u + 3u);
  for (const char* stays : {"0123456789abcde0.safetensors", "0123456789abcde1.safetensors", "weights.safetensors"})
    EXPECT_EQ(std::count(left.begin(), left.end(), stays), 1) << stays;
}

// --- lists of data

TEST(Lists, EachSourceIsReadInItsOwnFormAndEachFileToo) {
  Folder f;
  const auto t = open_tokenizer(kChat);
  const std::string both = Json{{"text", "the river"}, {"instruction", "Why?"}, {"output", "It is"}}.dump() + "\n";
  DatasetOptions o = options(f.write("a.jsonl", both));
  o.sequence_length = 100;
  o.train[0].format = RecordFormat::alpaca;
  o.train.push_back({f.write("b.jsonl", both), 1});
  Datasets d = open_datasets(o, t.get());
  EXPECT_TRUE(d.end_token);
  EXPECT_NE(fmt::format("{}", fmt::join(d.notes, "|")).find("a.jsonl (alpaca): 1 conversation"), std::string::npos)
      << fmt::format("{}", fmt::join(d.notes, "|"));
  EXPECT_NE(fmt::format("{}", fmt::join(d.notes, "|")).find("b.jsonl: the text under 'text'; not used: instruction, output"),
            std::string::npos)
      << fmt::format("{}", fmt::join(d.notes, "|"));
  o.train[0].format = std::nullopt, o.format = RecordFormat::alpaca, o.train[1].format = RecordFormat::text;
  d = open_datasets(o, t.get());
  EXPECT_NE(fmt::format("{}", fmt::join(d.notes, "|")).find("a.jsonl (alpaca): 1 conversation"), std::string::npos);
  EXPECT_EQ(fmt::format("{}", fmt::join(d.notes, "|")).find("b.jsonl (alpaca)"), std::string::npos)
      << "the source's own goes first";
  // Files of one source in two forms.
  f.write("two/a.jsonl", chat_lines(2));
  f.write(
      "two/b.jsonl",
      Json{{"conversations", {{{"from", "human"}, {"value", "Why?"}}, {{"from", "gpt"}, {"value", "It is"}}}}}.dump() + "\n");
  o = options(f / "two");
  o.sequence_length = 100;
  d = open_datasets(o, t.get());
  EXPECT_NE(fmt::format("{}", fmt::join(d.notes, "|")).find("3 conversations"), std::string::npos)
      << fmt::format("{}", fmt::join(d.notes, "|"));
}

TEST(Lists, ValidationMessagesCountOnce) {
  Folder f;
  const auto t = open_tokenizer(kChat);
  DatasetOptions o = options(f.write("a.jsonl", chat_lines(3)));
  o.sequence_length = 100;
  o.valid = o.train;
  Datasets d = open_datasets(o, t.get());
  EXPECT_EQ(d.notes.size(), 2u) << fmt::format("{}", fmt::join(d.notes, "|"));
  // Text to train on, conversations to validate on: the end token is theirs.
  o.train = {{f.write("b.txt", "the river and the sea"), 1}};
  d = open_datasets(o, t.get());
  ASSERT_TRUE(d.end_token);
  EXPECT_EQ(t->id_to_piece(*d.end_token), "<|im_end|>");
  // A message names the first four files of a folder.
  for (int i = 0; i < 6; ++i) f.write(fmt::format("many/{}.jsonl", i), "{\"text\": \"the river\", \"other\": 1}\n");
  d = open_datasets(options(f / "many"), t.get());
  EXPECT_EQ(d.notes.size(), 4u) << fmt::format("{}", fmt::join(d.notes, "|"));
  // Validation stands in order.
  o = options(f / "many");
  o.valid = {{f.write("v.txt", std::string("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz")), 1}};
  o.append_eos = false;
  Bytes bytes;
  const auto valid = std::move(open_datasets(o, &bytes).valid);
  for (int64_t i = 0; i < valid->sample_count(); ++i) EXPECT_EQ(valid->sample(i).ids[0], 'a' + 3 + (16 * i) % 26);
}

TEST(Lists, AWeightThatIsNothingIsRefused) {
  Folder f;
  Bytes t;
  DatasetOptions o = options(f.write("a.txt", "the river"));
  o.train.push_back({f.write("b.txt", "the sea"), 32768});
  EXPECT_USER_ERROR(open_datasets(o, &t), "weight too small (data.train): 1 is less than 1/32768 of all");
  o.train[1].weight = 32767;
  EXPECT_NO_THROW(open_datasets(o, &t));
}

// --- token files in Megatron's orders

std::string token_file(const Folder& f, const std::string& name, const std::string& text) {
  Bytes t;
  HandlerOptions h;
  h.tokenizer = &t;
  PreprocessOptions o;
  o.inputs = {f.write(name + ".txt", text)};  // a document for each line
  o.output_prefix = f / name;
  preprocess(o, t, *make_record_handler("text", h));
  return f / (name + "_text_document");
}

TEST(MegatronOrders, TheEndThatIsNamedAndIdsOfLabels) {
  Folder f;
  Bytes t;
  DatasetOptions o = options(token_file(f, "a", "xbxxbxxxbxxxxbxxx"));
  o.order = SampleOrder::megatron, o.split = "100", o.sequence_length = 4, o.eod_mask_loss = true, o.train_samples = 4,
  o.valid_samples = 0;
  auto learned = [&] {
    int64_t n = 0;
    const auto d = std::move(open_datasets(o, &t).train);
    for (int64_t i = 0; i < d->sample_count(); ++i) {
      const Sample s = d->sample(i);
      for (size_t c = 0; c < s.ids.size(); ++c) {
        n += s.labels[c] != kIgnored;
        if (o.eod >= 0) {
          EXPECT_EQ(s.labels[c] == kIgnored, s.ids[c] == o.eod);
        }
      }
    }
    return n;
  };
  EXPECT_EQ(learned(), 16) << "the tokenizer's end is in no text";
  o.eod = 'b' + 3;
  EXPECT_LT(learned(), 16);
  // An id that comes as a label only.
  o = options(token_file(f, "b", "xxxxz"));
  o.order = SampleOrder::megatron, o.split = "100", o.sequence_length = 4, o.train_samples = 1, o.valid_samples = 0,
  o.vocabulary = 'x' + 4;
  EXPECT_THROW(open_datasets(o, &t).train->sample(0), UserError);
  o.vocabulary = 'z' + 4;
  EXPECT_NO_THROW(open_datasets(o, &t).train->sample(0));
}

TEST(MegatronOrders, a_weight_of_one_is_a_weight) {
  Folder f;
  Bytes t;
  std::string text;
  for (int i = 0; i < 400; ++i) text += i % 10 == 9 ? '\n' : static_cast<char>('a' + i % 26);
  DatasetOptions o = options(token_file(f, "a", text));
  o.sequence_length = 4, o.train_samples = 8, o.valid_samples = -1;
  for (const SampleOrder order : {SampleOrder::megatron, SampleOrder::megatron_2023}) {
    o.order = order;
    o.train[0].weight.reset();
    EXPECT_NO_THROW(open_datasets(o, &t)) << name(order);
    o.train[0].weight = 1;
    EXPECT_USER_ERROR(open_datasets(o, &t), "no number of validation samples");
    DatasetOptions named = o;
    named.valid = {{token_file(f, fmt::format("v{}", name(order)), text)}};
    EXPECT_NO_THROW(open_datasets(named, &t)) << name(order) << ": files of its own are taken for one epoch";
  }
}

TEST(Preprocess, OtherRulesDoNotGoOnWithTheFirst) {
  Folder f;
  Bytes t;
  HandlerOptions h;
  h.tokenizer = &t;
  PreprocessOptions o;
  std::string lines;
  for (int i = 0; i < 9000; ++i) lines += i == 8999 ? "{\n" : "{\"text\":\"the river\"}\n";
  o.inputs = {f.write("a.jsonl", lines)};
  o.output_prefix = f / "p";
  auto run = [&] { return preprocess(o, t, *make_record_handler("text", h)); };
  EXPECT_USER_ERROR(run(), "a.jsonl:9000");
  ASSERT_TRUE(fs::exists(f / "p.preprocess/state.json"));
  for (bool PreprocessOptions::*flag : {&PreprocessOptions::strict, &PreprocessOptions::whole_text}) {
    o.*flag = true;
    EXPECT_USER_ERROR(run(), "it had another --");
    o.*flag = false;
  }
  EXPECT_USER_ERROR(run(), "a.jsonl:9000");
}

// --- settings of tokenizers

TEST(LlamaFolder, SettingsOfBothFiles) {
  Folder f;
  auto with = [&](const char* config, const char* map = "{}", const char* added = "{}") {
    f.write("t/tokenizer_config.json", config), f.write("t/special_tokens_map.json", map),
        f.write("t/added_tokens.json", added);
    fs::copy_file(kLlama + "/tokenizer.model", f / "t/tokenizer.model", fs::copy_options::overwrite_existing);
    return open_tokenizer(f / "t");
  };
  const auto plain = with("{}");
  const int64_t pieces = plain->size();
  const int32_t bos = *plain->special().bos, eos = *plain->special().eos;
  EXPECT_NE(bos, eos);
  EXPECT_EQ(with(R"({"unk_token": null})")->special().unk, std::nullopt) << "null is none, though a Llama has one";
  EXPECT_EQ(with(R"({"unk_token": "<unk>"})", R"({"unk_token": null})")->special().unk, std::nullopt)
      << "whatever the config says";
  EXPECT_EQ(with("{}", R"({"bos_token": "</s>"})")->special().bos, eos) << "what the config leaves out is the map's";
  EXPECT_EQ(with(R"({"bos_token": "<s>"})", R"({"bos_token": "</s>"})")->special().bos, eos) << "the map goes first";
  EXPECT_EQ(with(R"({"bos_token": "<s>", "added_tokens_decoder": {}})", R"({"bos_token": "</s>"})")->special().bos, bos)
      << "and is not read beside added_tokens_decoder";
  for (const auto& [config, map] : {std::pair{R"({"additional_special_tokens": ["<new>"]})", "{}"},
                                    {"{}", R"({"additional_special_tokens": ["<new>"]})"},
                                    {R"({"extra_special_tokens": ["<new>"]})", "{}"}}) {
    const auto t = with(config, map);
    EXPECT_EQ(t->size(), pieces + 1) << config << map;
    EXPECT_EQ(t->encode("<new>", false).back(), pieces) << config << map;
    EXPECT_EQ(t->decode(Ids{static_cast<int32_t>(pieces)}, true), "") << "it is special";
  }
  const std::string far = fmt::format(R"({{"<far>": {}}})", pieces + 9);
  const auto t = with(R"({"pad_token": "<pad>"})", "{}", far.c_str());
  EXPECT_EQ(t->special().pad, pieces + 10) << "behind all ids that are taken";
  EXPECT_EQ(t->encode("<far>", false).back(), pieces + 9);
  EXPECT_EQ(with(R"({"added_tokens_decoder": {}})", "{}", far.c_str())->size(), pieces)
      << "the older file counts where the newer list is not there";
}

TEST(JsonFolder, NamedTokensAreSpecialAndListedOnesMayChangeTheirFlags) {
  Folder f;
  const Json json{{"version", "1.0"},
                  {"added_tokens", {{{"id", 2}, {"content", "<y>"}, {"special", false}}}},
                  {"model", {{"type", "WordPiece"}, {"vocab", {{"a", 0}, {" ", 1}}}, {"unk_token", "a"}}}};
  f.write("t/tokenizer.json", json.dump());
  auto with = [&](const char* config) {
    f.write("t/tokenizer_config.json", config);
    return open_tokenizer(f / "t");
  };
  EXPECT_EQ(with("{}")->decode(Ids{2}, true), "<y>");
  EXPECT_EQ(with(R"({"eos_token": "<y>"})")->decode(Ids{2}, true), "");
  EXPECT_EQ(with("{}")->encode("<y> ", false), (Ids{2, 1}));
  EXPECT_EQ(with(R"({"added_tokens_decoder": {"2": {"content": "<y>", "rstrip": true}}})")->encode("<y> ", false), Ids{2});
  f.write("w/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[Q]\nthe\n");
  f.write("w/tokenizer_config.json", R"({"cls_token": {"content": "[Q]", "special": true}})");
  EXPECT_EQ(open_tokenizer(f / "w")->encode("the", true), (Ids{4, 5, 3})) << "a token may be an object";
  gzFile z = gzopen((f / "tokenizer.json.gz").c_str(), "wb");
  const std::string text = json.dump();
  gzwrite(z, text.data(), static_cast<unsigned>(text.size()));
  gzclose(z);
  EXPECT_EQ(open_tokenizer(f / "tokenizer.json.gz")->encode("<y>", false), Ids{2});
}

}  // namespace test_data_corners
}  // namespace ravine
