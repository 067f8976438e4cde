#include <filesystem>
#include <set>

#include "data/megatron/gpt_dataset.h"
#include "data/megatron/megatron_dataset.h"
#include "data/open_datasets.h"
#include "tests/unit/megatron_golden.h"

namespace ravine {
namespace test_data_megatron {

using test::Folder;
using test::md5_of;
using test::megatron;
using test::write_pair;

const Json& gpt() { return megatron()["gpt"]; }

// Corpora lie in the working folder while this lives, so that prefixes are written as in the recorded descriptions.
struct Corpora {
  Folder folder;
  std::filesystem::path before = std::filesystem::current_path();
  Corpora() {
    for (const auto& [name, c] : gpt()["corpora"].items()) write_pair(folder, c["path"], c);
    std::filesystem::current_path(folder.path);
  }
  ~Corpora() { std::filesystem::current_path(before); }
  static std::string prefix(const Json& corpus) { return gpt()["corpora"][corpus.get<std::string>()]["path"]; }
};

GptOptions options_of(const Json& c, const Json& corpus) {
  GptOptions o;
  o.sequence_length = c["sequence_length"];
  o.seed = c["seed"];
  o.split = c["split"];
  const Json& k = gpt()["corpora"][corpus.get<std::string>()];
  o.eod = k["eod"];
  o.tokenizer = Json{{"class", "StubTokenizer"}, {"vocab_size", k["vocab_size"]}, {"eod", k["eod"]}}.dump();
  if (c.contains("options")) {
    o.partial_valid = !c["options"].value("drop_last_partial_validation_sequence", true);
    o.extra_token = c["options"].value("add_extra_token_to_sequence", true);
  }
  return o;
}

std::array<int64_t, 3> sizes_of(const Json& c) {
  std::array<int64_t, 3> sizes;
  for (size_t i = 0; i < 3; ++i) sizes[i] = c["sizes"][i].is_null() ? -1 : c["sizes"][i].get<int64_t>();
  return sizes;
}

void expect_arrays(const GptDataset& d, const Json& arrays) {
  EXPECT_EQ(md5_of(d.document_index()), arrays["document_index"].get<std::string>());
  EXPECT_EQ(md5_of(d.sample_index()), arrays["sample_index"].get<std::string>());
  EXPECT_EQ(md5_of(d.shuffle_index()), arrays["shuffle_index"].get<std::string>());
}

void expect_samples(const GptBlend& d, const Json& wanted) {
  std::vector<int32_t> tokens, labels, positions, part;
  std::vector<uint8_t> loss, hidden;
  for (int64_t i = 0; i < std::min<int64_t>(20, d.size()); ++i) {
    const GptSample s = d.sample(i);
    tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
    labels.insert(labels.end(), s.labels.begin(), s.labels.end());
    positions.insert(positions.end(), s.positions.begin(), s.positions.end());
    loss.insert(loss.end(), s.loss_mask.begin(), s.loss_mask.end());
    const auto bits = hidden_bits(s);
    hidden.insert(hidden.end(), bits.begin(), bits.end());
    part.push_back(static_cast<int32_t>(d.part_of(i)));
  }
  for (const auto& [name, md5] : wanted.items()) {
    const std::string got = name == "tokens"         ? md5_of(std::span<const int32_t>(tokens))
                            : name == "labels"       ? md5_of(std::span<const int32_t>(labels))
                            : name == "position_ids" ? md5_of(std::span<const int32_t>(positions))
                            : name == "loss_mask"    ? md5_of(std::span<const uint8_t>(loss))
                            : name == "dataset_id"   ? md5_of(std::span<const int32_t>(part))
                                                     : md5_of(std::span<const uint8_t>(hidden));
    EXPECT_EQ(got, md5.get<std::string>()) << name;
  }
}

TEST(NumpyRandom, shuffles) {
  for (const Json& c : gpt()["shuffles"]) {
    NumpyRandomState random(c["seed"].get<uint32_t>());
    for (size_t i = 0; i < c["sizes"].size(); ++i) {
      std::vector<int64_t> values(c["sizes"][i].get<size_t>());
      for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<int64_t>(k);
      random.shuffle(std::span(values));
      EXPECT_EQ(values, c["shuffled"][i].get<std::vector<int64_t>>());
    }
  }
}

TEST(MegatronSplit, ranges_of_both_generations) {
  for (const Json& row : gpt()["splits"]) {
    const SplitString split(row["split"]);
    const int64_t n = row["elements"];
    for (MegatronSplit s : kMegatronSplits) {
      SCOPED_TRACE(row["split"].get<std::string>() + " " + std::to_string(n) + " " + name(s));
      const auto i = static_cast<size_t>(s);
      const auto core = split.range(s, n, MegatronOrder::core);
      ASSERT_EQ(core.has_value(), !row["core_0_16"][i].is_null());
      if (!core) continue;
      EXPECT_EQ(Json({core->begin, core->end}), row["core_0_16"][i]);
      if (!row["megatron_2023"].is_array()) {
        continue;
      }
      if (row["megatron_2023"][i][0].get<int64_t>() < 0) {
        EXPECT_USER_ERROR(split.range(s, n, MegatronOrder::of_2023), "split does not fit the data");
        continue;
      }
      const auto old = split.range(s, n, MegatronOrder::of_2023);
      EXPECT_EQ(Json({old->begin, old->end}), row["megatron_2023"][i]);
    }
  }
  EXPECT_USER_ERROR(SplitString("a,b"), "wrong split");
  EXPECT_USER_ERROR(SplitString("1,1,1,1"), "wrong split");
  EXPECT_USER_ERROR(SplitString("0,0,0"), "wrong split");
  EXPECT_USER_ERROR(SplitString("1..2,3"), "is not a number");
  EXPECT_USER_ERROR(SplitString("90,-10"), "not negative");
}

TEST(MegatronGpt, every_recorded_case) {
  Corpora corpora;
  for (const auto& [name, c] : gpt()["cases"].items()) {
    SCOPED_TRACE(name);
    const GptSplits splits = build_gpt_splits({Corpora::prefix(c["corpus"])}, {}, sizes_of(c), options_of(c, c["corpus"]));
    for (MegatronSplit s : kMegatronSplits) {
      SCOPED_TRACE(ravine::name(s));
      const Json& r = c["splits"][ravine::name(s)];
      const auto& d = splits[static_cast<size_t>(s)];
      ASSERT_EQ(d == nullptr, r.is_null());
      if (!d) continue;
      EXPECT_EQ(d->size(), r["length"].get<int64_t>());
      EXPECT_EQ(d->description(), r["description"].get<std::string>());
      EXPECT_EQ(md5_hex(d->description()), r["md5"].get<std::string>());
      expect_arrays(*d->parts()[0], r["arrays"]);
      expect_samples(*d, r["samples"]);
    }
  }
}

TEST(MegatronGpt, the_2023_generation) {
  Corpora corpora;
  int compared = 0;
  for (const auto& [name, c] : gpt()["cases"].items()) {
    if (!c["options"].empty()) continue;
    GptOptions o = options_of(c, c["corpus"]);
    o.order = MegatronOrder::of_2023;
    for (MegatronSplit s : kMegatronSplits) {
      const Json& r = c["splits"][ravine::name(s)];
      if (r.is_null() || !r.contains("megatron_2023") || !r["megatron_2023"].contains("md5")) continue;
      SCOPED_TRACE(name + " " + ravine::name(s));
      std::array<int64_t, 3> sizes{0, 0, 0};
      sizes[static_cast<size_t>(s)] = sizes_of(c)[static_cast<size_t>(s)];
      const auto d = std::move(build_gpt_splits({Corpora::prefix(c["corpus"])}, {}, sizes, o)[static_cast<size_t>(s)]);
      const Json& old = r["megatron_2023"];
      EXPECT_EQ(d->size(), old["length"].get<int64_t>());
      EXPECT_EQ(d->description(), old["description"].get<std::string>());
      EXPECT_EQ(md5_hex(d->description()), old["md5"].get<std::string>());
      for (const auto& [array, same] : old["same_arrays_as_core"].items()) {
        if (!same.get<bool>()) continue;
        const std::string got = array == "document_index" ? md5_of(d->parts()[0]->document_index())
                                : array == "sample_index" ? md5_of(d->parts()[0]->sample_index())
                                                          : md5_of(d->parts()[0]->shuffle_index());
        EXPECT_EQ(got, r["arrays"][array].get<std::string>()) << array;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 20);
}

TEST(MegatronGpt, resets_and_masks_at_document_ends) {
  Corpora corpora;
  const Json& flags = gpt()["flags"];
  const Json& c = gpt()["cases"][flags["case"].get<std::string>()];
  for (const Json& file : flags["files"]) {
    GptOptions o = options_of(c, c["corpus"]);
    o.reset_position_ids = file["reset_position_ids"];
    o.reset_attention_mask = file["reset_attention_mask"];
    o.eod_mask_loss = file["eod_mask_loss"];
    SCOPED_TRACE(file.dump());
    expect_samples(*build_gpt_splits({Corpora::prefix(c["corpus"])}, {}, sizes_of(c), o)[0], file["tensors"]);
  }
}

TEST(MegatronGpt, blends) {
  Corpora corpora;
  for (const auto& [name, c] : gpt()["blends"].items()) {
    SCOPED_TRACE(name);
    std::vector<std::string> prefixes;
    for (const Json& k : c["corpora"]) prefixes.push_back(Corpora::prefix(k));
    const auto weights = c["weights"].is_null() ? std::vector<double>{} : c["weights"].get<std::vector<double>>();
    const GptSplits splits = build_gpt_splits(prefixes, weights, sizes_of(c), options_of(c, c["corpora"][0]));
    for (MegatronSplit s : kMegatronSplits) {
      SCOPED_TRACE(ravine::name(s));
      const Json& r = c["splits"][ravine::name(s)];
      const auto& d = splits[static_cast<size_t>(s)];
      ASSERT_EQ(d == nullptr, r.is_null() || sizes_of(c)[static_cast<size_t>(s)] == 0);
      if (!d) continue;
      EXPECT_EQ(d->size(), r["length"].get<int64_t>());
      EXPECT_EQ(d->description(), r["description"].get<std::string>());
      EXPECT_EQ(md5_of(d->dataset_index()), r["arrays"]["dataset_index"].get<std::string>());
      EXPECT_EQ(md5_of(d->dataset_sample_index()), r["arrays"]["dataset_sample_index"].get<std::string>());
      for (size_t k = 0; k < prefixes.size(); ++k) expect_arrays(*d->parts()[k], r["parts"][k]);
      expect_samples(*d, r["samples"]);
      if (!c["megatron_2023"].contains(ravine::name(s))) continue;
      const Json& old = c["megatron_2023"][ravine::name(s)];
      GptOptions o = options_of(c, c["corpora"][0]);
      o.order = MegatronOrder::of_2023;
      const GptSplits old_splits = build_gpt_splits(prefixes, weights, sizes_of(c), o);
      const GptBlend& blend = *old_splits[static_cast<size_t>(s)];
      EXPECT_EQ(blend.size(), old["blend_size"].get<int64_t>());
      EXPECT_EQ(blend.description(), old["description"].get<std::string>());
      const auto first = blend.dataset_index().first(old["first40"].size());
      EXPECT_EQ(std::vector<int>(first.begin(), first.end()), old["first40"].get<std::vector<int>>());
    }
  }
  for (const Json& r : gpt()["raw_blends"]) {
    const BlendIndex index = build_blend_index(r["weights"].get<std::vector<double>>(), r["size"]);
    EXPECT_EQ(md5_of(std::span<const int16_t>(index.dataset)), r["dataset_index"].get<std::string>());
    EXPECT_EQ(md5_of(std::span<const int64_t>(index.sample)), r["dataset_sample_index"].get<std::string>());
  }
  for (const Json& r : gpt()["raw_exhaustive_blends"]) {
    std::string digits;
    for (int16_t d : build_exhaustive_blend_index(r["sizes"].get<std::vector<int64_t>>()).dataset)
      digits += static_cast<char>('0' + d);
    EXPECT_EQ(digits, r["dataset_index"].get<std::string>());
  }
}

// The names of files follow the tokenizer's identity; files that differ in it alone are taken, whoever made them.
TEST(MegatronGpt, index_files_of_another_tokenizer_object) {
  Corpora corpora;
  const Json& c = gpt()["blends"]["w30_70"];
  GptOptions o = options_of(c, c["corpora"][0]);
  const std::vector<std::string> prefixes{Corpora::prefix("a"), Corpora::prefix("b")};
  auto files = [] {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator("cache")) names.insert(file.path().filename().string());
    return names;
  };
  auto open = [&](int64_t seed = 0) {
    GptOptions with = o;
    with.seed += seed;
    return build_gpt_splits(prefixes, {0.3, 0.7}, {200, 10, 5}, with);
  };
  const std::string identity = R"({"class": "_HuggingFaceTokenizer", "tokenizer_path": ["llama"], "use_fast": "True"})";
  o.index_cache = "cache";
  o.tokenizer = tokenizer_identity(identity);
  const GptSplits theirs = open();
  const std::string text = theirs[0]->parts()[0]->description();
  // As json.dumps(indent=4) writes it.
  EXPECT_NE(
      text.find(
          "\n    \"tokenizer\": {\n        \"class\": \"_HuggingFaceTokenizer\",\n        \"tokenizer_path\": [\n            \"llama\"\n        ],\n        \"use_fast\": \"True\"\n    }\n}"),
      std::string::npos)
      << text;
  const std::set<std::string> before = files();
  ASSERT_TRUE(before.count(md5_hex(text) + "-GPTDataset-train-shuffle_index.npy"));
  for (const char* mine : {"", R"({"class": "Mine"})"}) {
    o.tokenizer = tokenizer_identity(mine);
    const GptSplits found = open();
    EXPECT_EQ(files(), before) << "made again for " << mine;
    EXPECT_EQ(found[0]->sample(7).tokens, theirs[0]->sample(7).tokens);
  }
  open(1);
  EXPECT_GT(files().size(), before.size()) << "another seed is another index";
  // From a file, also a description.
  EXPECT_EQ(tokenizer_identity("cache/" + md5_hex(text) + "-GPTDataset-train-description.txt"), tokenizer_identity(identity));
  EXPECT_EQ(tokenizer_identity(corpora.folder.write("identity.json", identity)), tokenizer_identity(identity));
  EXPECT_USER_ERROR(tokenizer_identity("nothing"), "no identity of a tokenizer");
  EXPECT_USER_ERROR(tokenizer_identity("{"), "--index-tokenizer");
}

TEST(MegatronGpt, index_files_are_written_found_and_not_trusted) {
  Corpora corpora;
  const Json& c = gpt()["blends"]["w30_70"];
  GptOptions o = options_of(c, c["corpora"][0]);
  const std::vector<std::string> prefixes{Corpora::prefix("a"), Corpora::prefix("b")};
  const GptSplits plain = build_gpt_splits(prefixes, {0.3, 0.7}, {200, 10, 5}, o);
  o.index_cache = "cache";
  const GptSplits written = build_gpt_splits(prefixes, {0.3, 0.7}, {200, 10, 5}, o),
                  read = build_gpt_splits(prefixes, {0.3, 0.7}, {200, 10, 5}, o);
  for (int64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(written[0]->sample(i).tokens, plain[0]->sample(i).tokens);
    EXPECT_EQ(read[0]->sample(i).tokens, plain[0]->sample(i).tokens);
  }
  std::string shuffle;
  for (const auto& file : std::filesystem::directory_iterator("cache")) {
    const std::string name = file.path().filename();
    if (name.starts_with(md5_hex(plain[0]->parts()[0]->description())) && name.find("shuffle") != std::string::npos)
      shuffle = file.path();
  }
  EXPECT_EQ(std::filesystem::path(shuffle).filename().string(),
            md5_hex(plain[0]->parts()[0]->description()) + "-GPTDataset-train-shuffle_index.npy");
  // A number beyond the samples.
  std::string bytes = test::whole(shuffle);
  for (size_t i = bytes.size() - 800; i < bytes.size(); ++i) bytes[i] = '\xff';
  corpora.folder.write(shuffle, bytes);
  const GptSplits damaged = build_gpt_splits(prefixes, {0.3, 0.7}, {200, 10, 5}, o);
  const std::string text = test::message([&] {
    for (int64_t i = 0; i < damaged[0]->parts()[0]->size(); ++i) damaged[0]->parts()[0]->sample(i);
  });
  EXPECT_NE(text.find("index files do not fit the data"), std::string::npos) << text;
  // A file cut short is made again.
  corpora.folder.write(shuffle, bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(build_gpt_splits(prefixes, {0.3, 0.7}, {200, 10, 5}, o)[0]->sample(7).tokens, plain[0]->sample(7).tokens);
}

TEST(MegatronGpt, what_does_not_fit_is_named) {
  Corpora corpora;
  const std::string a = Corpora::prefix("a"), b = Corpora::prefix("b");
  GptOptions o;
  o.sequence_length = 32;
  o.split = "949,50,1";
  EXPECT_USER_ERROR(build_gpt_splits({a}, {}, {10, 0, 10}, o), "no tokens in a split");
  EXPECT_USER_ERROR(build_gpt_splits({a}, {0.5, 0.5}, {10, 0, 0}, o), "wrong number of weights");
  EXPECT_USER_ERROR(build_gpt_splits({a, b}, {0.5, 0.5}, {-1, 0, 0}, o), "no number of train samples");
  EXPECT_USER_ERROR(build_gpt_splits({a + "x"}, {}, {10, 0, 0}, o), "no token files");
  o.reset_position_ids = true;
  EXPECT_USER_ERROR(build_gpt_splits({a}, {}, {10, 0, 0}, o), "no end-of-document id");
  o = {};
  o.order = MegatronOrder::of_2023;
  EXPECT_USER_ERROR(build_gpt_splits({a, b}, {}, {10, 0, 0}, o), "blends by weights only");
  o = {};
  o.seed = int64_t{1} << 32;
  EXPECT_USER_ERROR(build_gpt_splits({a}, {}, {10, 0, 0}, o), "wrong seed");
}

TEST(MegatronDataset, trains_in_that_order) {
  Corpora corpora;
  const Json& c = gpt()["cases"]["two_epochs_separate"];
  DatasetOptions o;
  o.train = {{Corpora::prefix("a")}};
  o.order = SampleOrder::megatron;
  o.sequence_length = c["sequence_length"];
  o.seed = c["seed"];
  o.split = c["split"];
  o.train_samples = 350;
  o.valid_samples = 20;
  o.vocabulary = 1000;
  const Datasets d = open_datasets(o, nullptr);
  const GptSplits wanted = build_gpt_splits({Corpora::prefix("a")}, {}, {350, 20, 0}, options_of(c, "a"));
  ASSERT_EQ(d.train->sample_count(), wanted[0]->size());
  ASSERT_EQ(d.valid->sample_count(), wanted[1]->size());
  EXPECT_EQ(d.train->columns(), 32);
  for (int64_t i : {int64_t{0}, int64_t{349}, wanted[0]->size()}) {
    const Sample s = d.train->sample(i);
    const GptSample g = wanted[0]->sample(i % wanted[0]->size());
    EXPECT_EQ(s.ids, g.tokens);
    EXPECT_EQ(s.labels, g.labels);
    EXPECT_EQ(s.segments, (std::vector<TokenSpan>{{0, 32}}));
  }
  o.reset_attention_mask = o.reset_position_ids = o.eod_mask_loss = true;
  o.eod = 999;
  const Sample s = open_datasets(o, nullptr).train->sample(3);
  int32_t position = 0;
  size_t ends = 0;
  for (size_t k = 0; k < 32; ++k) {
    EXPECT_EQ(s.positions[k], position++);
    if (s.ids[k] != 999) continue;
    EXPECT_EQ(s.labels[k], kIgnored);
    position = 0;
    ++ends;
  }
  EXPECT_GE(s.segments.size(), ends);
  o.vocabulary = 500;
  EXPECT_USER_ERROR(open_datasets(o, nullptr), "is beyond the vocabulary");
  o.valid_fraction = 0.1;
  EXPECT_USER_ERROR(open_datasets(o, nullptr), "data.valid_fraction");
  DatasetOptions philox;
  philox.train = o.train;
  philox.eod_mask_loss = true;
  EXPECT_USER_ERROR(open_datasets(philox, nullptr), "option has no effect");
}

// numpy.sum of [0.1 * (i % 13) + 1 / (i + 3) for i in range(n)]: plain below eight, eight sums up to 128, halves above.
TEST(NumpySum, is_numpys_to_the_last_bit) {
  for (auto [n, sum] : std::vector<std::pair<int, double>>{{3, 1.0833333333333335},
                                                           {7, 3.4289682539682547},
                                                           {8, 4.2289682539682545},
                                                           {9, 5.119877344877345},
                                                           {17, 10.447739657143684},
                                                           {128, 79.64859133826599},
                                                           {129, 80.75622492605224},
                                                           {300, 184.1892973977139},
                                                           {1000, 605.3874678655415}}) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(0.1 * (i % 13) + 1.0 / (i + 3));
    EXPECT_EQ(numpy_sum(values), sum) << n;
    EXPECT_EQ(normalized(values)[2], values[2] / sum) << n;
  }
}

DatasetOptions megatron_options(const std::vector<DataSource>& train) {
  DatasetOptions o;
  o.train = train;
  o.order = SampleOrder::megatron;
  o.sequence_length = 32;
  o.seed = 1234;
  o.split = "80,20,0";
  o.train_samples = 150;
  o.valid_samples = 12;
  o.vocabulary = 100000;
  return o;
}

// data.train and data.valid as arguments of Megatron's builder: weights blend, separate lists take the splits 100 and
// 0,100.
TEST(MegatronDataset, blends_and_lists_of_their_own) {
  Corpora corpora;
  const std::string a = Corpora::prefix("a"), b = Corpora::prefix("b");
  auto same = [](const Dataset& got, const GptBlend& want) {
    ASSERT_EQ(got.sample_count(), want.size());
    for (int64_t i = 0; i < std::min<int64_t>(40, want.size()); ++i) EXPECT_EQ(got.sample(i).ids, want.sample(i).tokens) << i;
    EXPECT_EQ(got.origin(3), want.origin(3));
    EXPECT_EQ(got.origin(want.size() + 3), want.origin(3));
    EXPECT_EQ(got.token_count(), want.tokens());
  };
  GptOptions g;
  g.sequence_length = 32, g.seed = 1234, g.split = "80,20,0", g.vocabulary = 100000;
  Datasets d = open_datasets(megatron_options({{a, 3}, {b, 1}}), nullptr);
  GptSplits want = build_gpt_splits({a, b}, {3, 1}, {150, 12, 0}, g);
  same(*d.train, *want[0]);
  same(*d.valid, *want[1]);
  d = open_datasets(megatron_options({{a}, {b}}), nullptr);  // without weights by size
  want = build_gpt_splits({a, b}, {}, {150, 12, 0}, g);
  same(*d.train, *want[0]);
  DatasetOptions o = megatron_options({{a, 2}});
  same(*open_datasets(o, nullptr).train, *build_gpt_splits({a}, {2}, {150, 12, 0}, g)[0]);
  o = megatron_options({{a}});
  o.valid = {{b}};
  d = open_datasets(o, nullptr);
  g.split = "100";
  same(*d.train, *build_gpt_splits({a}, {}, {150, 0, 0}, g)[0]);
  g.split = "0,100";
  same(*d.valid, *build_gpt_splits({b}, {}, {0, 12, 0}, g)[1]);
  o.order = SampleOrder::megatron_2023;
  g.order = MegatronOrder::of_2023;
  g.split = "100";
  same(*open_datasets(o, nullptr).train, *build_gpt_splits({a}, {}, {150, 0, 0}, g)[0]);
  o = megatron_options({{a}});
  o.valid_samples = 0;
  EXPECT_EQ(open_datasets(o, nullptr).valid, nullptr);
}

TEST(MegatronDataset, what_the_order_does_not_take) {
  Corpora corpora;
  const std::string a = Corpora::prefix("a"), b = Corpora::prefix("b");
  auto refused = [&](const std::function<void(DatasetOptions&)>& change, const std::string& part) {
    DatasetOptions o = megatron_options({{a}});
    change(o);
    EXPECT_USER_ERROR(open_datasets(o, nullptr), part);
  };
  refused([](auto& o) { o.valid_fraction = 0.1; }, "(data.valid_fraction): data.split says what is held out");
  refused([](auto& o) { o.document_attention = true; }, "(data.document_attention)");
  refused([](auto& o) { o.shuffle = false; }, "(data.shuffle=false)");
  refused([](auto& o) { o.pack = false; }, "(data.pack=false)");
  refused(
      [&](auto& o) {
        o.train = {{a, 2}, {b, 1}}, o.valid_samples = -1;
      },
      "no number of validation samples (train.valid_batches)");
  refused([&](auto& o) { o.train = {{corpora.folder.write("t.txt", "text")}}; },
          "not token files (data.train: " + (corpora.folder / "t.txt") + ")");
  refused([](auto& o) { o.reset_attention_mask = true; }, "no end-of-document id");
  refused([](auto& o) { o.split = "0,1"; }, "too little data (data.train): the split '0,1' leaves no sample of 32 tokens");
  DatasetOptions all = megatron_options({{a, 2}, {b, 1}});
  all.valid_samples = -1, all.split = "100";
  EXPECT_NO_THROW(open_datasets(all, nullptr)) << "no validation, no question";
  auto needs_order = [&](const std::function<void(DatasetOptions&)>& change, const std::string& key) {
    DatasetOptions o = megatron_options({{a}});
    o.order = SampleOrder::philox, o.split = DatasetOptions().split;
    change(o);
    EXPECT_USER_ERROR(open_datasets(o, nullptr), "option has no effect (" + key);
  };
  needs_order([](auto& o) { o.reset_position_ids = true; }, "data.reset_position_ids");
  needs_order([](auto& o) { o.reset_attention_mask = true; }, "data.reset_position_ids, data.reset_attention_mask");
  needs_order([](auto& o) { o.eod_mask_loss = true; }, "data.eod_mask_loss");
  needs_order([](auto& o) { o.index_cache = "x"; }, "data.index_cache");
}

}  // namespace test_data_megatron
}  // namespace ravine
