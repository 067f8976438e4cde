#include "data/open_datasets.h"

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "config/load.h"
#include "data/fixed_batches.h"
#include "data/packing.h"
#include "tests/unit/data_help.h"

namespace ravine {
namespace test_data_dataset {

using test::Bytes;
using test::Folder;
using test::write_batches;
using Ids = std::vector<int32_t>;

std::shared_ptr<TokenStore> store(const std::vector<Ids>& documents, int64_t vocabulary = 1000) {
  auto s = std::make_shared<TokenStore>(vocabulary);
  s->begin_file("a.txt");
  for (const auto& d : documents) s->append(d);
  return s;
}

Ids iota(int n, int from = 0) {
  Ids v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), from);
  return v;
}

TEST(Packing, every_token_but_the_first_is_predicted_once) {
  for (int64_t vocabulary : {1000, 100000})
    for (int n : {1, 2, 8, 9, 10, 17, 40}) {
      PackedSamples p(store({iota(n)}, vocabulary), {.columns = 8, .padding = 7});
      ASSERT_EQ(p.count(), (n - 1 + 7) / 8);
      Ids predicted;
      for (int64_t i = 0; i < p.count(); ++i) {
        Sample s = p.sample(i);
        ASSERT_EQ(s.ids.size(), 8u);
        EXPECT_EQ(s.positions, iota(8));
        ASSERT_EQ(s.segments.size(), 1u);
        for (int32_t t = 0; t < 8; ++t) {
          auto k = static_cast<size_t>(t);
          EXPECT_EQ(s.labels[k] != kIgnored, t < s.segments[0].length);
          if (t >= s.segments[0].length) {
            EXPECT_EQ(s.ids[k], 7);
            continue;
          }
          EXPECT_EQ(s.labels[k], s.ids[k] + 1);
          predicted.push_back(s.labels[k]);
        }
      }
      EXPECT_EQ(predicted, iota(n - 1, 1));
    }
}

TEST(Packing, attention_inside_documents) {
  // 5 + 1 + 6 tokens; columns of 4: [0 1 2 3][4 | 10 | 20 21][22 23 24 | pad]
  PackedSamples p(store({iota(5), {10}, iota(6, 20)}), {.columns = 4, .document_attention = true, .padding = 9});
  ASSERT_EQ(p.count(), 3);
  Sample a = p.sample(0), b = p.sample(1), c = p.sample(2);
  EXPECT_EQ(a.labels, (Ids{1, 2, 3, 4}));
  EXPECT_EQ(b.ids, (Ids{4, 10, 20, 21}));
  EXPECT_EQ(b.labels, (Ids{kIgnored, kIgnored, 21, 22}));
  EXPECT_EQ(b.positions, (Ids{0, 0, 0, 1}));
  EXPECT_EQ(b.segments, (std::vector<TokenSpan>{{0, 1}, {1, 1}, {2, 2}}));
  EXPECT_EQ(c.ids, (Ids{22, 23, 24, 9}));
  EXPECT_EQ(c.labels, (Ids{23, 24, 25, kIgnored}));
  EXPECT_EQ(c.segments, (std::vector<TokenSpan>{{0, 3}}));
  PackedSamples plain(store({iota(5), {10}, iota(6, 20)}), {.columns = 4});
  EXPECT_EQ(plain.sample(1).labels, (Ids{10, 20, 21, 22}));
  EXPECT_EQ(plain.sample(1).positions, (Ids{0, 1, 2, 3}));
}

// As the scripts of Transformers cut text: labels are shifted inside a block.
TEST(Packing, a_block_may_predict_nothing_of_the_next) {
  PackedSamples p(store({iota(10)}), {.columns = 4, .predict_next_block = false, .padding = 9});
  ASSERT_EQ(p.count(), 3);
  EXPECT_EQ(p.sample(0).ids, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(p.sample(0).labels, (Ids{1, 2, 3, kIgnored}));
  EXPECT_EQ(p.sample(1).ids, (Ids{4, 5, 6, 7}));
  EXPECT_EQ(p.sample(2).labels, (Ids{9, kIgnored, kIgnored, kIgnored})) << "the rest has no block behind it";
}

TEST(Packing, document_that_ends_with_the_window) {
  PackedSamples p(store({iota(4), iota(4, 10)}), {.columns = 4, .document_attention = true});
  EXPECT_EQ(p.sample(0).labels, (Ids{1, 2, 3, kIgnored}));
  EXPECT_EQ(p.sample(0).segments, (std::vector<TokenSpan>{{0, 4}}));
}

TEST(Packing, one_document_per_sample) {
  PackedSamples p(store({iota(3), {50}, iota(7, 10)}), {.columns = 4, .pack = false, .padding = 0});
  ASSERT_EQ(p.count(), 3);  // 2 predictions, none, 6 in two samples
  EXPECT_EQ(p.sample(0).ids, (Ids{0, 1, 0, 0}));
  EXPECT_EQ(p.sample(0).labels, (Ids{1, 2, kIgnored, kIgnored}));
  EXPECT_EQ(p.sample(1).labels, (Ids{11, 12, 13, 14}));
  EXPECT_EQ(p.sample(2).labels, (Ids{15, 16, kIgnored, kIgnored}));
  EXPECT_EQ(p.origin(2), "a.txt document 3");
}

DatasetOptions options(std::vector<DataSource> train, int64_t columns = 8) {
  DatasetOptions o;
  o.train = std::move(train);
  o.sequence_length = columns;
  return o;
}

TEST(Dataset, text_gets_its_end_tokens) {
  Folder f;
  auto path = f.write("a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"c\"}\n");
  auto o = options({{path}}, 4);
  o.shuffle = false;
  auto d = open_datasets(o, std::make_unique<Bytes>(true).get()).train;
  EXPECT_EQ(d->sample(0).ids, (Ids{1, 'a' + 3, 'b' + 3, 2}));
  EXPECT_EQ(d->sample(0).labels, (Ids{'a' + 3, 'b' + 3, 2, 1}));
  EXPECT_EQ(d->token_count(), 7);
  o.append_eos = false;
  EXPECT_EQ(open_datasets(o, std::make_unique<Bytes>(true).get()).train->token_count(), 5);
  o.append_eos = true;
  Bytes no_eos(true, false);
  EXPECT_USER_ERROR(open_datasets(o, &no_eos), "the tokenizer has no end token (data.append_eos)");
}

// A template of the tokenizer that ends in eos, and data.append_eos: one eos.
TEST(Dataset, a_tokenizer_that_ends_texts_itself) {
  struct Ends : Bytes {
    using Bytes::Bytes;
    std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
      auto ids = Bytes::encode(text, add_special);
      if (add_special) ids.push_back(2);
      return ids;
    }
  };
  Folder f;
  auto o = options({{f.write("a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"c\"}\n")}}, 5);
  o.shuffle = false;
  const Ends ends;
  for (bool append : {true, false}) {
    o.append_eos = append;
    auto d = open_datasets(o, &ends).train;
    EXPECT_EQ(d->token_count(), 5);
    EXPECT_EQ(d->sample(0).ids, (Ids{'a' + 3, 'b' + 3, 2, 'c' + 3, 2})) << append;
  }
}

std::string numbered(const Folder& f, const std::string& name, int n, int seed = 0) {
  std::string lines;
  for (int i = 0; i < n; ++i) lines += fmt::format("{{\"text\": \"{} number {} of {}\"}}\n", name, i, seed);
  return f.write(name, lines);
}

TEST(Dataset, each_pass_has_every_sample_once_in_an_order_of_its_own) {
  Folder f;
  auto o = options({{numbered(f, "a.jsonl", 50)}, {numbered(f, "b.jsonl", 30)}}, 16);
  Bytes bytes;
  auto d = open_datasets(o, &bytes).train;
  auto again = open_datasets(o, &bytes).train;
  o.seed = 43;
  auto other = open_datasets(o, &bytes).train;
  int64_t n = d->sample_count();
  std::multiset<Ids> first, second;
  int moved = 0, different = 0;
  for (int64_t i = 0; i < n; ++i) {
    first.insert(d->sample(i).ids);
    second.insert(d->sample(n + i).ids);
    moved += d->sample(i).ids != d->sample(n + i).ids;
    different += d->sample(i).ids != other->sample(i).ids;
    EXPECT_EQ(d->sample(i).ids, again->sample(i).ids);
  }
  EXPECT_EQ(first, second);
  EXPECT_GT(moved, n / 2);
  EXPECT_GT(different, n / 2);
}

TEST(Dataset, result_does_not_depend_on_threads) {
  Folder f;
  auto o = options({{numbered(f, "a.jsonl", 500)}}, 16);
  Bytes bytes;
  o.threads = 1;
  auto one = open_datasets(o, &bytes).train;
  o.threads = 7;
  auto seven = open_datasets(o, &bytes).train;
  ASSERT_EQ(one->sample_count(), seven->sample_count());
  for (int64_t i = 0; i < one->sample_count(); ++i) EXPECT_EQ(one->sample(i).ids, seven->sample(i).ids);
}

TEST(Dataset, weights_are_shares_of_samples) {
  Folder f;
  auto o = options({{f.write("a.txt", std::string(5000, 'a')), 3}, {f.write("b.txt", std::string(500, 'b')), 1}}, 16);
  o.append_eos = false;
  Bytes bytes;
  auto d = open_datasets(o, &bytes).train;
  std::map<int, int> count;
  for (int64_t i = 0; i < 1000; ++i) ++count[d->sample(i).ids[0]];
  EXPECT_EQ(count['a' + 3], 750);
  EXPECT_EQ(count['b' + 3], 250);
  o.train[1].weight = 0;
  EXPECT_USER_ERROR(open_datasets(o, &bytes), "it must be above 0");
  o.train[1].weight = 1e-7;
  EXPECT_USER_ERROR(open_datasets(o, &bytes), "weight too small");
}

TEST(Dataset, held_out_documents_are_never_seen_in_training) {
  Folder f;
  auto path = numbered(f, "a.jsonl", 400);
  auto texts = [&](const Dataset& d) {
    std::set<std::string> all;
    for (int64_t i = 0; i < d.sample_count(); ++i) {
      std::string s;
      for (int32_t id : d.sample(i).ids)
        if (id >= 3) s += static_cast<char>(id - 3);
      all.insert(s.substr(0, s.find(" of")));
    }
    return all;
  };
  auto o = options({{path}}, 64);
  o.pack = false;
  o.valid_fraction = 0.1;
  Bytes bytes;
  auto d = open_datasets(o, &bytes);
  auto train = texts(*d.train), valid = texts(*d.valid);
  EXPECT_EQ(train.size() + valid.size(), 400u);
  EXPECT_GT(valid.size(), 10u);  // 40 expected, deviation 6
  EXPECT_LT(valid.size(), 70u);
  for (const auto& t : valid) EXPECT_FALSE(train.contains(t));
  o.seed = 7;  // another seed, the same split
  EXPECT_EQ(texts(*open_datasets(o, &bytes).valid), valid);
  // Few documents: one of them is cut.
  for (double share : {0.1, 0.9}) {
    o.train = {{numbered(f, "few.jsonl", 3)}};
    o.valid_fraction = share;
    d = open_datasets(o, &bytes);
    EXPECT_GE(d.valid->sample_count(), 1);
    EXPECT_GE(d.train->sample_count(), 1);
  }
  // One document: its end is held out, what lies before is learned, nothing twice.
  const std::string prose = "The ravine is deep.\nWater runs in it.\n\nNobody has seen its end.\n";
  o.train = {{f.write("one.txt", prose)}};
  o.sequence_length = 256;
  o.valid_fraction = 0.4;
  d = open_datasets(o, &bytes);
  EXPECT_EQ(texts(*d.train), std::set<std::string>{"The ravine is deep.\nWater runs in it.\n\n"});
  EXPECT_EQ(texts(*d.valid), std::set<std::string>{"Nobody has seen its end.\n"});
  o.train = {{f.write("least.txt", "x")}};
  EXPECT_USER_ERROR(open_datasets(o, &bytes), "too little text to hold some out");
}

TEST(Dataset, validation_files_stand_in_order) {
  Folder f;
  auto o = options({{f.write("a.txt", "train")}}, 4);
  o.valid = {{f.write("v.txt", "0123456789")}, {f.write("w.txt", "abc")}};
  o.append_eos = false;
  Bytes bytes;
  auto d = open_datasets(o, &bytes);
  EXPECT_EQ(d.valid->sample_count(), 3);
  EXPECT_EQ(d.valid->sample(0).ids, (Ids{'0' + 3, '1' + 3, '2' + 3, '3' + 3}));
  EXPECT_EQ(d.valid->sample(2).ids, (Ids{'8' + 3, '9' + 3, 'a' + 3, 'b' + 3}));
  EXPECT_EQ(d.valid->origin(1), (f / "v.txt") + " document 1");
}

TEST(Dataset, errors) {
  Folder f;
  Bytes bytes;
  auto text = f.write("a.txt", "text"), fixed = write_batches(f / "b.safetensors", {{"input_ids", {1, 4}, {1, 2, 3, 4}}});
  EXPECT_USER_ERROR(open_datasets(options({}), &bytes), "no training data (data.train)");
  EXPECT_USER_ERROR(open_datasets(options({{text}}), nullptr), "no tokenizer");
  EXPECT_USER_ERROR(open_datasets(options({{text}, {fixed}}), &bytes), "kinds of data do not mix");
  EXPECT_USER_ERROR(open_datasets(options({{f.write("e.txt", "")}}), &bytes), "no text in the data");
  EXPECT_USER_ERROR(open_datasets(options({{fixed, 2}}, 4), &bytes), "weights do not apply");
  EXPECT_USER_ERROR(open_datasets(options({{fixed}}, 5), &bytes), "it has 4 columns, data.sequence_length is 5; set");
  auto o = options({{text}});
  o.vocabulary = 100;
  EXPECT_USER_ERROR(open_datasets(o, &bytes), "token 119 is beyond the vocabulary (" + text + ":1)");
  o = options({{fixed}}, 4);
  o.valid_fraction = 0.1;
  EXPECT_USER_ERROR(open_datasets(o, &bytes), "nothing to hold out");
}

TEST(FixedBatches, rows_in_order_and_over_again) {
  Folder f;
  auto a = write_batches(f / "a.safetensors", {{"input_ids", {2, 3}, {1, 2, 3, 4, 5, 6}}});
  auto b = write_batches(f / "b.safetensors", {{"input_ids", {1, 3}, {7, 8, 9}}});
  auto d = open_datasets(options({{a}, {b}}, 3), std::make_unique<Bytes>().get()).train;
  EXPECT_EQ(d->sample_count(), 3);
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(d->sample(i).ids[0], 1 + 3 * (i % 3)) << i;
  EXPECT_EQ(d->origin(5), b + " row 0");
  auto o = options({{a}}, 3);
  o.vocabulary = 7;
  EXPECT_EQ(open_datasets(o, nullptr).train->sample(1).ids, (Ids{4, 5, 6}));  // needs no tokenizer
}

TEST(FixedBatches, labels_are_shifted_inside) {
  Folder f;
  FixedBatches own(
      write_batches(f / "a.safetensors", {{"input_ids", {1, 4}, {1, 2, 3, 4}}, {"labels", {1, 4}, {1, -100, 3, 9}}}), 10);
  EXPECT_EQ(own.sample(0).labels, (Ids{-100, 3, 9, -100}));
  EXPECT_EQ(own.sample(0).segments, (std::vector<TokenSpan>{{0, 4}}));
  FixedBatches next(
      write_batches(f / "b.safetensors", {{"input_ids", {1, 4}, {1, 2, 3, 4}}, {"next_labels", {1, 4}, {1, -100, 3, 9}}}), 10);
  EXPECT_EQ(next.sample(0).labels, (Ids{1, -100, 3, 9}));
  FixedBatches none(write_batches(f / "c.safetensors", {{"input_ids", {1, 4}, {1, 2, 3, 4}}}), 10);
  EXPECT_EQ(none.sample(0).labels, (Ids{2, 3, 4, -100}));
}

TEST(FixedBatches, masks) {
  Folder f;
  FixedBatches b(
      write_batches(f / "a.safetensors", {{"input_ids", {4, 4}, {0, 0, 3, 4, 1, 2, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}},
                                          {"attention_mask", {4, 4}, {0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0}}}),
      10);
  EXPECT_EQ(b.sample(0).segments, (std::vector<TokenSpan>{{2, 2}}));
  EXPECT_EQ(b.sample(0).labels, (Ids{-100, -100, 4, -100}));  // the padding before it predicts nothing
  EXPECT_EQ(b.sample(0).positions, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(b.sample(1).segments, (std::vector<TokenSpan>{{0, 2}}));
  EXPECT_EQ(b.sample(1).labels, (Ids{2, -100, -100, -100}));  // padding is not predicted
  EXPECT_EQ(b.sample(2).labels, (Ids{2, 3, 4, -100}));
  EXPECT_TRUE(b.sample(3).segments.empty());
  EXPECT_EQ(b.sample(3).labels, (Ids{-100, -100, -100, -100}));
  FixedBatches p(write_batches(f / "p.safetensors", {{"input_ids", {1, 3}, {1, 2, 3}}, {"position_ids", {1, 3}, {0, 0, 1}}}),
                 10);
  EXPECT_EQ(p.sample(0).positions, (Ids{0, 0, 1}));
  EXPECT_EQ(p.sample(0).segments, (std::vector<TokenSpan>{{0, 1}, {1, 2}})) << "parts of a packed row are apart";
  EXPECT_EQ(p.joined_row(), -1);
  const test::IntTensor ids{"input_ids", {2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 1}},
      positions{"position_ids", {2, 5}, {0, 1, 2, 3, 4, 3, 4, 0, 1, 9}};
  FixedBatches cut(write_batches(f / "cut.safetensors", {ids, positions}), 10);
  EXPECT_EQ(cut.sample(0).segments, (std::vector<TokenSpan>{{0, 5}}));
  EXPECT_EQ(cut.sample(1).segments, (std::vector<TokenSpan>{{0, 2}, {2, 2}, {4, 1}})) << "any step but one more begins a part";
  EXPECT_EQ(cut.sample(1).labels, (Ids{7, 8, 9, 1, -100})) << "a label at a seam counts";
  FixedBatches joined(
      write_batches(f / "joined.safetensors", {ids, positions, {"attention_mask", {2, 5}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 0}}}),
      10);
  EXPECT_EQ(joined.sample(1).segments, (std::vector<TokenSpan>{{0, 4}}))
      << "under a mask a row is one part, as in Transformers";
  EXPECT_EQ(joined.joined_row(), 1);
}

TEST(FixedBatches, errors_name_row_and_column) {
  Folder f;
  auto open = [&](const std::vector<test::IntTensor>& t) {
    return FixedBatches(write_batches(f / "x.safetensors", t), 10).rows();
  };
  test::IntTensor ids{"input_ids", {2, 2}, {1, 2, 3, 4}};
  EXPECT_USER_ERROR(open({{"input_ids", {2, 2}, {1, 2, 10, 4}}}),
                    "10 is out of range (" + (f / "x.safetensors") + ": input_ids, row 1, column 0): 0 to 9");
  EXPECT_USER_ERROR(open({{"input_ids", {2, 2}, {1, -1, 1, 4}}}), "input_ids, row 0, column 1");
  EXPECT_USER_ERROR(open({ids, {"labels", {2, 2}, {1, 2, 3, -99}}}), "-99 is out of range (");
  EXPECT_USER_ERROR(open({ids, {"labels", {2, 2}, {1, 2, 3, 12}}}), "labels, row 1, column 1");
  EXPECT_USER_ERROR(open({ids, {"labels", {1, 2}, {1, 2}}}), "it is [1, 2], input_ids are [2, 2]");
  EXPECT_USER_ERROR(open({ids, {"labels", {2, 2}, {1, 2, 3, 4}}, {"next_labels", {2, 2}, {1, 2, 3, 4}}}), "labels given twice");
  EXPECT_USER_ERROR(open({ids, {"lables", {2, 2}, {1, 2, 3, 4}}}), "did you mean 'labels'?");
  EXPECT_USER_ERROR(open({ids, {"attention_mask", {2, 2}, {1, 2, 1, 1}}}), "attention_mask, row 0, column 1");
  EXPECT_USER_ERROR(open({{"input_ids", {1, 3}, {1, 2, 3}}, {"attention_mask", {1, 3}, {1, 0, 1}}}),
                    "attention mask with a gap");
  EXPECT_USER_ERROR(open({{"input_ids", {3}, {1, 2, 3}}}), "it must be [rows, columns]");
  EXPECT_USER_ERROR(open({{"input_ids", {0, 3}, {}}}), "empty data");
  EXPECT_USER_ERROR(open({{"input_ids", {3, 1}, {1, 2, 3}}}), "one column predicts nothing");
  EXPECT_USER_ERROR(open({{"labels", {3, 1}, {1, 2, 3}}}), "input_ids");
  std::vector<float> values{1, 2};
  save_safetensors(f / "f.safetensors", {{"input_ids", DType::f32, {1, 2}, std::as_bytes(std::span(values))}});
  EXPECT_USER_ERROR(FixedBatches(f / "f.safetensors", 10), "it must hold integers, not f32");
}

// Each option of a config reaches the data by its name.
TEST(DatasetOptions, every_option_arrives) {
  const std::string yaml =
      "model: {path: M, tokenizer: T}\n"
      "data: {train: [{path: a, weight: 2, format: text}, b], valid: [v], sequence_length: 77, text_key: body, pack: false, document_attention: true, append_eos: false, shuffle: false, format: alpaca,\n"
      "  chat_template: chatml, loss_on: last, too_long: drop, order: megatron, split: '98,2', index_cache: I, reset_position_ids: true, eod: 5}\n"
      "train: {seed: 9, threads: 3, output: O, steps: 100, global_batch: 6, micro_batch: 3, valid_every: 30, valid_batches: 4}\n";
  const DatasetOptions o = dataset_options(parse_config(yaml, "c"), 1234);
  EXPECT_EQ(o.train.size(), 2u);
  EXPECT_EQ(o.train[0].weight, 2);
  EXPECT_EQ(o.train[0].format, RecordFormat::text);
  EXPECT_EQ(o.valid.at(0).path, "v");
  EXPECT_EQ(o.sequence_length, 77);
  EXPECT_EQ(o.text_key, "body");
  EXPECT_FALSE(o.pack || o.append_eos || o.shuffle);
  EXPECT_TRUE(o.document_attention);
  EXPECT_EQ(o.format, RecordFormat::alpaca);
  EXPECT_EQ(o.chat_template, "chatml");
  EXPECT_EQ(o.loss_on, LossOn::last);
  EXPECT_EQ(o.too_long, TooLong::drop);
  EXPECT_EQ(o.tokenizer_path, "T");
  EXPECT_EQ(o.seed, 9u);
  EXPECT_EQ(o.vocabulary, 1234);
  EXPECT_EQ(o.threads, 3);
  EXPECT_EQ(o.token_folder, "O/tokens");
  EXPECT_EQ(o.order, SampleOrder::megatron);
  EXPECT_EQ(o.split, "98,2");
  EXPECT_EQ(o.index_cache, "I");
  EXPECT_EQ(o.eod, 5);
  EXPECT_EQ(o.train_samples, 600);
  EXPECT_EQ(o.valid_samples, (100 / 30 + 1) * 4 * 3) << "as Megatron asks: one validation more than there are";
  for (const char* flag : {"reset_position_ids", "reset_attention_mask", "eod_mask_loss"}) {
    const DatasetOptions one = dataset_options(parse_config(fmt::format("data: {{{}: true}}", flag), "c"), 1);
    EXPECT_EQ(one.reset_position_ids, flag == std::string("reset_position_ids"));
    EXPECT_EQ(one.reset_attention_mask, flag == std::string("reset_attention_mask"));
    EXPECT_EQ(one.eod_mask_loss, flag == std::string("eod_mask_loss"));
  }
  const DatasetOptions plain = dataset_options(
      parse_config("model: {path: M}\ndata: {cache: false, valid_fraction: 0.25}\ntrain: {valid_every: 5}\n", "c"), 1);
  EXPECT_EQ(plain.tokenizer_path, "M");
  EXPECT_EQ(plain.token_folder, "");
  EXPECT_EQ(plain.valid_fraction, 0.25);
  EXPECT_EQ(plain.valid_samples, -1) << "all, one epoch";
  EXPECT_EQ(dataset_options(parse_config("train: {valid_batches: 5}", "c"), 1).valid_samples, 0) << "no validation";
}

TEST(Dataset, which_datasets_need_a_tokenizer) {
  Folder f;
  const auto text = f.write("a.txt", "text"), fixed = write_batches(f / "b.safetensors", {{"input_ids", {1, 4}, {1, 2, 3, 4}}});
  EXPECT_TRUE(needs_tokenizer(options({{text}})));
  EXPECT_FALSE(needs_tokenizer(options({{fixed}})));
  DatasetOptions o = options({{fixed}});
  o.valid = {{text}};
  EXPECT_TRUE(needs_tokenizer(o));
  o = options({{f / "x"}});
  o.order = SampleOrder::megatron;
  EXPECT_FALSE(needs_tokenizer(o));
  for (bool DatasetOptions::*flag :
       {&DatasetOptions::reset_position_ids, &DatasetOptions::reset_attention_mask, &DatasetOptions::eod_mask_loss}) {
    DatasetOptions with = o;
    with.*flag = true;
    EXPECT_TRUE(needs_tokenizer(with)) << "its end token";
    with.eod = 0;
    EXPECT_FALSE(needs_tokenizer(with));
  }
}

TEST(Dataset, what_does_not_go_together_is_refused) {
  Folder f;
  Bytes bytes;
  const auto text = f.write("t/a.txt", "text"),
             fixed = write_batches(f / "b.safetensors", {{"input_ids", {1, 8}, {1, 2, 3, 4, 5, 6, 7, 8}}});
  f.write("m/a.txt", "text");
  f.write("m/b.jsonl", R"({"instruction": "a", "output": "b"})");
  EXPECT_USER_ERROR(open_datasets(options({{f / "m"}}), &bytes),
                    "kinds of data do not mix (data.train: " + (f / "m") + "): its files are of several kinds");
  DatasetOptions o = options({{fixed}});
  o.valid = {{fixed}, {text}};
  EXPECT_USER_ERROR(open_datasets(o, &bytes), "kinds of data do not mix (data.valid): fixed batch files stand alone");
  o.valid = {{text}};
  EXPECT_USER_ERROR(open_datasets(o, nullptr), "no tokenizer");
  EXPECT_EQ(open_datasets(o, &bytes).valid->sample(0).ids[0], 't' + 3) << "fixed batches may be validated on text";
  o = options({{text}});
  o.valid = {{text, 2}};
  o.valid_fraction = 0.5;
  EXPECT_EQ(open_datasets(o, &bytes).valid->token_count(), 5) << "names go before the share, and weights are for training";
  for (int64_t n : {0, (1 << 24) + 1})
    EXPECT_USER_ERROR(open_datasets(options({{text}}, n), &bytes),
                      "wrong sequence length (data.sequence_length): 1 to 16777216");
  for (double share : {-0.1, 1.0, std::nan("")}) {
    o = options({{text}});
    o.valid_fraction = share;
    EXPECT_USER_ERROR(open_datasets(o, &bytes), "wrong share");
  }
  o = options({{text}});
  o.chat_template = "chatlm";
  EXPECT_USER_ERROR(open_datasets(o, &bytes), "did you mean 'chatml'?");  // though nothing asks for it
  o = options({{f.write("one.txt", "x")}});
  o.append_eos = false;
  EXPECT_USER_ERROR(open_datasets(o, &bytes), "too little data (data.train: " + (f / "one.txt") + "): at least two tokens");
}

// Padding is pad, else eos, else 0; and 0 where the model does not have that id.
TEST(Dataset, padding_is_an_id_that_the_model_has) {
  struct Padded : Bytes {
    explicit Padded(std::optional<int32_t> pad, bool eos) : Bytes(false, eos) { special_.pad = pad; }
  };
  Folder f;
  for (auto [pad, eos, vocabulary, want] :
       std::vector<std::tuple<std::optional<int32_t>, bool, int64_t, int32_t>>{{258, true, 0, 258},
                                                                               {std::nullopt, true, 0, 2},
                                                                               {std::nullopt, false, 0, 0},
                                                                               {258, true, 258, 0},
                                                                               {258, true, 259, 258}}) {
    const Padded t(pad, eos);
    auto o = options({{f.write("a.txt", "ab")}}, 4);
    o.append_eos = false;
    o.vocabulary = vocabulary;
    EXPECT_EQ(open_datasets(o, &t).train->sample(0).ids, (Ids{'a' + 3, want, want, want})) << want;
  }
}

// Sources with weights are streams of their own; without, all text is one row of documents and token files another.
TEST(Dataset, sources_without_weights_are_one_text) {
  Folder f;
  Bytes bytes;
  auto o = options({{f.write("a.txt", "abc")}, {f.write("b.txt", "defg")}}, 4);
  o.append_eos = o.shuffle = false;
  const auto joined = open_datasets(o, &bytes).train;
  EXPECT_EQ(joined->sample_count(), 2);
  EXPECT_EQ(joined->sample(0).ids, (Ids{'a' + 3, 'b' + 3, 'c' + 3, 'd' + 3}));
  EXPECT_EQ(joined->origin(0), (f / "a.txt") + " document 1 to " + (f / "b.txt") + " document 1");
  o.train[0].weight = o.train[1].weight = 2;
  const auto apart = open_datasets(o, &bytes).train;
  EXPECT_EQ(apart->sample_count(), 2);
  std::set<int32_t> first{apart->sample(0).ids[0], apart->sample(1).ids[0]};
  EXPECT_EQ(first, (std::set<int32_t>{'a' + 3, 'd' + 3}));
}

template <class T>
std::string typed_batches(const Folder& f, DType type, const std::vector<T>& values) {
  const std::string path = f / "typed.safetensors";
  save_safetensors(path, {{"input_ids", type, {1, static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values))}});
  return path;
}

TEST(FixedBatches, ids_of_every_whole_type) {
  Folder f;
  const Ids want{1, 120, 3};
  EXPECT_EQ(FixedBatches(typed_batches<int64_t>(f, DType::i64, {1, 120, 3}), 1000).sample(0).ids, want);
  EXPECT_EQ(FixedBatches(typed_batches<int32_t>(f, DType::i32, {1, 120, 3}), 1000).sample(0).ids, want);
  EXPECT_EQ(FixedBatches(typed_batches<int16_t>(f, DType::i16, {1, 120, 3}), 1000).sample(0).ids, want);
  EXPECT_EQ(FixedBatches(typed_batches<int8_t>(f, DType::i8, {1, 120, 3}), 1000).sample(0).ids, want);
  EXPECT_EQ(FixedBatches(typed_batches<uint8_t>(f, DType::u8, {1, 200, 3}), 1000).sample(0).ids, (Ids{1, 200, 3}));
  EXPECT_EQ(FixedBatches(typed_batches<int32_t>(f, DType::i32, {1, 70000, 3}), 100000).sample(0).ids, (Ids{1, 70000, 3}));
  EXPECT_USER_ERROR(FixedBatches(typed_batches<int64_t>(f, DType::i64, {1, int64_t{1} << 32, 3}), 1000),
                    "4294967296 is out of range");
  EXPECT_USER_ERROR(FixedBatches(typed_batches<int16_t>(f, DType::i16, {1, -5, 3}), 1000), "-5 is out of range");
}

TEST(FixedBatches, what_counts_and_what_does_not) {
  Folder f;
  auto open = [&](const std::vector<test::IntTensor>& t, int64_t positions = 0) {
    return FixedBatches(write_batches(f / "x.safetensors", t), 10, positions);
  };
  const test::IntTensor ids{"input_ids", {2, 3}, {1, 2, 3, 4, 5, 6}}, mask{"attention_mask", {2, 3}, {0, 1, 1, 1, 1, 0}};
  // The row is chosen by its number, in each tensor.
  const auto all = open({ids, mask, {"labels", {2, 3}, {9, 8, 7, 6, 5, 4}}, {"position_ids", {2, 3}, {0, 0, 1, 0, 1, 2}}});
  EXPECT_EQ(all.sample(0).labels, (Ids{kIgnored, 7, kIgnored}));
  EXPECT_EQ(all.sample(1).labels, (Ids{5, 4, kIgnored})) << "labels of one's own count behind the mask's end too";
  EXPECT_EQ(all.sample(1).ids, (Ids{4, 5, 6}));
  EXPECT_EQ(all.sample(1).positions, (Ids{0, 1, 2}));
  EXPECT_EQ(all.sample(1).segments, (std::vector<TokenSpan>{{0, 2}}));
  const auto next = open({ids, mask, {"next_labels", {2, 3}, {9, 8, 7, 6, 5, 4}}});
  EXPECT_EQ(next.sample(0).labels, (Ids{kIgnored, 8, 7}));
  EXPECT_EQ(next.sample(1).labels, (Ids{6, 5, kIgnored}));
  EXPECT_EQ(open({{"input_ids", {1, 1}, {3}}, {"next_labels", {1, 1}, {4}}}).sample(0).labels, Ids{4})
      << "one column has a next label";
  EXPECT_NO_THROW(open({ids, {"position_ids", {2, 3}, {0, 1, 2, 3, 4, 5}}}, 6));
  EXPECT_USER_ERROR(
      open({ids, {"position_ids", {2, 3}, {0, 1, 2, 3, 4, 5}}}, 5),
      "5 is out of range (" + (f / "x.safetensors") + ": position_ids, row 1, column 2): 0 to 4; correct the file");
  EXPECT_USER_ERROR(open({ids, {"position_ids", {2, 3}, {0, 1, 2, 3, 4, 1 << 24}}}), "0 to 16777215");
  EXPECT_USER_ERROR(open({ids, {"position_ids", {2, 3}, {0, -1, 2, 3, 4, 5}}}), "-1 is out of range");
  EXPECT_USER_ERROR(
      open({ids, {"labels", {2, 3}, {9, -100, -100, 9, -100, -100}}}),
      "nothing to learn (" + (f / "x.safetensors") + ": labels): no row has a label to learn: all are -100 or masked");
  EXPECT_USER_ERROR(open({ids, {"next_labels", {2, 3}, {-100, -100, -100, -100, -100, -100}}}),
                    ": next_labels): no row has a label");
  EXPECT_USER_ERROR(open({ids, {"attention_mask", {2, 3}, {0, 0, 0, 0, 0, 0}}}),
                    ": attention_mask): the mask has no 1 in any row");
  EXPECT_USER_ERROR(open({ids, {"attention_mask", {2, 3}, {1, 0, 0, 0, 1, 0}}}), ": attention_mask): no row has a label");
  EXPECT_NO_THROW(open({ids, {"attention_mask", {2, 3}, {0, 0, 0, 1, 1, 0}}})) << "one row is enough";
  EXPECT_THROW(all.sample(2), Error);
}

}  // namespace test_data_dataset
}  // namespace ravine
