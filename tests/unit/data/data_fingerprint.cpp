// The data of a run that a checkpoint records, and the changes that a resume refuses.
#include "data/fingerprint.h"

#include <set>

#include "tests/unit/data_help.h"

namespace ravine {
namespace test_data_fingerprint {

using test::Bytes;
using test::Folder;
using test::message;

// Weights that are all 1 are left out.
DataOptions sources(std::vector<std::pair<std::string, double>> list) {
  DataOptions o;
  const bool given = std::any_of(list.begin(), list.end(), [](const auto& s) { return s.second != 1; });
  for (auto& [path, weight] : list) o.train.push_back({path, given ? std::optional(weight) : std::nullopt, std::nullopt});
  return o;
}

struct OtherBytes : Bytes {
  uint64_t fingerprint() const override { return 2; }
};

struct FingerprintTexts : testing::Test {
  Folder folder;
  std::string a = folder.write("a.txt", "one two three"), b = folder.write("b.txt", "four five");
  Bytes tokenizer;
  std::string refusal(const DataOptions& was, const DataOptions& now) {
    Json kept = fingerprint_of(was, &tokenizer).json();
    std::string text =
        message([&] { refuse_other_data(Json::parse(kept.dump()), fingerprint_of(now, &tokenizer), "step_000007"); });
    return text == "no error" ? "" : text;
  }
};

TEST_F(FingerprintTexts, SameDataUnderAnotherPathGoesOn) {
  std::string moved = folder.write("elsewhere/c.txt", "one two three");
  EXPECT_EQ(refusal(sources({{a, 1}}), sources({{moved, 1}})), "");
}

TEST_F(FingerprintTexts, AnyOtherByteIsRefused) {
  Json kept = fingerprint_of(sources({{a, 1}, {b, 1}}), &tokenizer).json();
  folder.write("b.txt", "four Five");
  std::string what = message([&] {
    refuse_other_data(kept, fingerprint_of(sources({{a, 1}, {b, 1}}), &tokenizer), "step_000007");
  });
  EXPECT_NE(what.find("other data than the checkpoint's (data.train: " + b + ")"), std::string::npos) << what;
  EXPECT_NE(what.find("step_000007"), std::string::npos) << what;
  EXPECT_NE(what.find("checkpoint.other_data=true"), std::string::npos) << what;
}

TEST_F(FingerprintTexts, WithoutWeightsOrderAndNumberCount) {
  EXPECT_NE(refusal(sources({{a, 1}, {b, 1}}), sources({{b, 1}, {a, 1}})).find("data.train: " + b), std::string::npos);
  EXPECT_NE(refusal(sources({{a, 1}}), sources({{a, 1}, {b, 1}})).find("names 2 sources"), std::string::npos);
}

TEST_F(FingerprintTexts, InABlendSourcesComeAndGo) {
  std::string c = folder.write("c.txt", "six");
  EXPECT_EQ(refusal(sources({{a, 3}, {b, 1}}), sources({{b, 1}, {a, 2}})), "");
  EXPECT_EQ(refusal(sources({{a, 3}, {b, 1}}), sources({{b, 1}, {c, 2}})), "");
  EXPECT_NE(refusal(sources({{a, 3}, {b, 1}}), sources({{c, 1}})).find("none of its sources"), std::string::npos);
  Json kept = fingerprint_of(sources({{a, 3}, {b, 1}}), &tokenizer).json();
  folder.write("b.txt", "something else");
  EXPECT_NE(message([&] {
              refuse_other_data(kept, fingerprint_of(sources({{a, 3}, {b, 1}}), &tokenizer), "x");
            }).find("data.train: " + b),
            std::string::npos);
}

TEST_F(FingerprintTexts, AnotherTokenizerIsRefused) {
  Json kept = fingerprint_of(sources({{a, 1}}), &tokenizer).json();
  OtherBytes other;
  std::string what = message([&] { refuse_other_data(kept, fingerprint_of(sources({{a, 1}}), &other), "step_000007"); });
  EXPECT_NE(what.find("another tokenizer than the checkpoint's (model.tokenizer)"), std::string::npos) << what;
}

TEST_F(FingerprintTexts, AnotherChatTemplateIsRefused) {
  auto refusal = [&](std::optional<uint64_t> was, std::optional<uint64_t> now) {
    const Json kept = Json::parse(fingerprint_of(sources({{a, 1}}), &tokenizer, was).json().dump());
    return message([&] { refuse_other_data(kept, fingerprint_of(sources({{a, 1}}), &tokenizer, now), "step_000007"); });
  };
  EXPECT_NE(refusal(5, 6).find("another chat template than the checkpoint's (data.chat_template"), std::string::npos)
      << refusal(5, 6);
  EXPECT_NE(refusal(0, 6).find("another chat template"), std::string::npos);
  EXPECT_EQ(refusal(5, 5), "no error");
  EXPECT_EQ(refusal({}, 6), "no error") << "none was rendered, or the program did not record it";
  EXPECT_EQ(refusal(5, {}), "no error");
  Json older = fingerprint_of(sources({{a, 1}}), &tokenizer, 5).json();
  older.erase("chat_template");
  EXPECT_EQ(message([&] { refuse_other_data(older, fingerprint_of(sources({{a, 1}}), &tokenizer, 6), "x"); }), "no error");
  EXPECT_NE(fingerprint_of(sources({{a, 1}}), &tokenizer, 5).text(), fingerprint_of(sources({{a, 1}}), &tokenizer, 6).text());
}

TEST_F(FingerprintTexts, OptionsThatCutSamplesAreNamed) {
  DataOptions was = sources({{a, 1}}), now = was;
  now.pack = false;
  now.prefetch = 9;
  std::vector<std::string> other = other_data_options(fingerprint_of(was, &tokenizer).json(), fingerprint_of(now, &tokenizer));
  EXPECT_EQ(other, std::vector<std::string>{"data.pack (was true, is false)"});
}

TEST_F(FingerprintTexts, WhatIsNoFingerprintIsIgnored) {
  DataFingerprint now = fingerprint_of(sources({{a, 1}}), &tokenizer);
  for (const char* text :
       {"null", "3", "{}", R"({"sources":7})", R"({"sources":[7],"blend":"x","tokenizer":[]})", R"({"options":[1]})"}) {
    Json was = Json::parse(text);
    std::string what = message([&] { refuse_other_data(was, now, "x"); });
    EXPECT_TRUE(what == "no error" || what.find("other data") == 0) << text << ": " << what;
    EXPECT_TRUE(other_data_options(was, now).empty());
  }
}

// Token files are not read at a start: of a large one a part is looked at, its ends among it.
TEST(Fingerprint, OfLargeTokenFilesSizeAndPartsCount) {
  Folder folder;
  std::string prefix = folder.write("big.idx", "index");
  prefix.resize(prefix.size() - 4);
  std::string bin = prefix + ".bin";
  std::ofstream(bin).close();
  std::filesystem::resize_file(bin, (int64_t{64} << 20) + 12345);  // sparse
  auto sum = [&] { return fingerprint_of(sources({{prefix, 1}}), nullptr).sources[0].checksum; };
  std::string zeros = sum();
  EXPECT_EQ(sum(), zeros);
  {
    std::fstream f(bin, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(-1, std::ios::end);
    f.put(1);
  }
  std::string end = sum();
  EXPECT_NE(end, zeros);
  std::filesystem::resize_file(bin, (int64_t{64} << 20) + 12346);
  EXPECT_NE(sum(), end);
  folder.write("big.idx", "indeX");
  EXPECT_NE(sum(), end);
}

// 1024 blocks of 4 KiB of a large file are read, from the first byte to the last.
TEST(Fingerprint, BlocksAllOverALargeFileCount) {
  Folder folder;
  const std::string prefix = folder.write("big", ""), bin = prefix + ".bin";
  folder.write("big.idx", "index");
  std::ofstream(bin).close();
  const int64_t size = (int64_t{64} << 20) + 999, step = (size - 4096) / 1023;
  std::filesystem::remove(prefix);
  auto sum_with = [&](int64_t at) {
    std::filesystem::resize_file(bin, 0);
    std::filesystem::resize_file(bin, static_cast<uintmax_t>(size));
    if (at >= 0) {
      std::fstream f(bin, std::ios::in | std::ios::out | std::ios::binary);
      f.seekp(at);
      f.put(1);
    }
    return fingerprint_of(sources({{prefix, 1}}), nullptr).sources[0].checksum;
  };
  const std::string zeros = sum_with(-1);
  for (int64_t at : {int64_t{0}, int64_t{4095}, step, step + 4095, 700 * step + 17, 1022 * step, size - 4096, size - 1})
    EXPECT_NE(sum_with(at), zeros) << at;
}

TEST_F(FingerprintTexts, EveryOptionThatCutsOrOrdersIsRemembered) {
  Json j = fingerprint_of(sources({{a, 1}}), &tokenizer).json();
  std::set<std::string> keys;
  for (const auto& [key, value] : j["options"].items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"data.valid_fraction",
                                         "data.sequence_length",
                                         "data.text_key",
                                         "data.format",
                                         "data.chat_template",
                                         "data.loss_on",
                                         "data.too_long",
                                         "data.pack",
                                         "data.pass_end",
                                         "data.document_attention",
                                         "data.predict_next_block",
                                         "data.append_eos",
                                         "data.shuffle",
                                         "data.order",
                                         "data.split",
                                         "data.reset_position_ids",
                                         "data.reset_attention_mask",
                                         "data.eod_mask_loss",
                                         "data.eod",
                                         "data.labels",
                                         "data.pad",
                                         "data.samples",
                                         "data.seed"}));
  EXPECT_FALSE(j["blend"].get<bool>());
  EXPECT_TRUE(fingerprint_of(sources({{a, 1}, {b, 2}}), &tokenizer).json()["blend"].get<bool>());
  const DataFingerprint one = fingerprint_of(sources({{a, 1}}), &tokenizer);
  EXPECT_EQ(one.text(), a + ": checksum " + one.sources[0].checksum + "\ntokenizer: checksum " + one.tokenizer + "\n");
  EXPECT_NE(fingerprint_of(sources({{a, 1}}), nullptr).text().find("tokenizer: none"), std::string::npos);
  DataOptions other = sources({{a, 1}});
  other.split = "1,0,0", other.eod = 3;
  EXPECT_EQ(other_data_options(j, fingerprint_of(other, &tokenizer)),
            (std::vector<std::string>{"data.split (was \"969,30,1\", is \"1,0,0\")", "data.eod (was -1, is 3)"}));
}

// The checksum of a folder covers all its files; a run without a tokenizer accepts any.
TEST_F(FingerprintTexts, OfAnExistingBlendAndWithoutATokenizer) {
  EXPECT_EQ(refusal(sources({{a, 1}, {b, 1}}), sources({{a, 1}, {b, 1}})), "");
  EXPECT_EQ(refusal(sources({{a, 1}, {b, 1}}), sources({{a, 2}, {folder.write("new.txt", "x"), 1}})), "")
      << "it blends from now on: a new one may come";
  EXPECT_EQ(refusal(sources({{a, 2}, {b, 1}}), sources({{a, 1}})), "") << "the checkpoint blended: who is gone is gone";
  EXPECT_NE(refusal(sources({{a, 1}, {b, 1}}), sources({{a, 1}})).find("names 1 sources, step_000007 was made with 2"),
            std::string::npos);
  Json kept = fingerprint_of(sources({{a, 1}}), &tokenizer).json();
  EXPECT_EQ(message([&] { refuse_other_data(kept, fingerprint_of(sources({{a, 1}}), nullptr), "x"); }), "no error");
  folder.write("d/1.txt", "one"), folder.write("d/2.txt", "two");
  const std::string before = fingerprint_of(sources({{folder / "d", 1}}), nullptr).sources[0].checksum;
  folder.write("d/2.txt", "twO");
  EXPECT_NE(fingerprint_of(sources({{folder / "d", 1}}), nullptr).sources[0].checksum, before);
}

}  // namespace test_data_fingerprint
}  // namespace ravine
