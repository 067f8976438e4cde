// Instruction files: rows as from ModelLink's loader, ModelLink's order, packing, and all errors of the three files.
#include "data/instruct/instruction_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/indexed/indexed_writer.h"
#include "data/megatron/instruction_order.h"
#include "data/open_datasets.h"
#include "data/source.h"
#include "tests/unit/data_help.h"

namespace ravine {
namespace test_data_instructions {

using test::Bytes;
using test::Folder;
using Ids = std::vector<int32_t>;

struct Chat {
  Ids ids, labels, mask;
};

// Conversation i: its number, then ids that tell where they are; the last third is learned, ending with 2.
Chat chat(int32_t i, int32_t length) {
  Chat c;
  for (int32_t t = 0; t < length; ++t) {
    c.ids.push_back(t + 1 == length ? 2 : t == 0 ? 100 + i : 10 + (7 * i + t) % 80);
    c.labels.push_back(3 * t >= 2 * length ? c.ids.back() : kIgnored);
    c.mask.push_back(1);
  }
  return c;
}

std::vector<Chat> chats() {
  std::vector<Chat> all;
  for (int32_t n : {5, 9, 3, 12, 7, 4, 16, 6, 8, 10}) all.push_back(chat(static_cast<int32_t>(all.size()), n));
  return all;
}

void write_list(const Folder& f, const std::string& prefix, const std::string& list, const std::vector<Ids>& rows,
                TokenType type = TokenType::i32) {
  IndexedWriter w(f.path.string(), "w", type, false);
  StoredDocuments d;
  for (const Ids& row : rows) {
    const auto n = static_cast<int32_t>(row.size());
    d.add(type, row, std::span(&n, 1), "row");
  }
  w.add_documents(d);
  w.finish();
  IndexedWriter::publish(f.path.string(), "w", f / (prefix + "_" + list + "_document"), true);
}

std::string write_set(const Folder& f, const std::string& prefix, const std::vector<Chat>& all) {
  std::vector<Ids> ids, labels, mask;
  for (const Chat& c : all) ids.push_back(c.ids), labels.push_back(c.labels), mask.push_back(c.mask);
  write_list(f, prefix, "packed_input_ids", ids);
  write_list(f, prefix, "packed_labels", labels);
  write_list(f, prefix, "packed_attention_mask", mask, TokenType::i8);
  return f / prefix;
}

DatasetOptions options(const std::string& path) {
  DatasetOptions o;
  o.train = {{path, 1}};
  o.sequence_length = 12;
  o.vocabulary = 259;
  return o;
}

TEST(InstructionFiles, rows_are_those_of_modellink) {
  Folder f;
  const auto all = chats();
  DatasetOptions o = options(write_set(f, "set", all));
  o.pack = o.shuffle = false;
  const Bytes tokenizer;
  const Datasets d = open_datasets(o, &tokenizer);
  ASSERT_EQ(d.train->sample_count(), 10);
  EXPECT_TRUE(d.train->ragged());
  for (int64_t i = 0; i < 10; ++i) {
    const Chat& c = all[static_cast<size_t>(i)];
    const Sample s = d.train->sample(i);
    const auto n = std::min<size_t>(c.ids.size() - 1, 12);  // input_ids[:-1], labels[1:], each cut
    ASSERT_EQ(s.ids.size(), 12u);
    EXPECT_EQ(Ids(s.ids.begin(), s.ids.begin() + static_cast<ptrdiff_t>(n)),
              Ids(c.ids.begin(), c.ids.begin() + static_cast<ptrdiff_t>(n)));
    EXPECT_EQ(Ids(s.labels.begin(), s.labels.begin() + static_cast<ptrdiff_t>(n)),
              Ids(c.labels.begin() + 1, c.labels.begin() + 1 + static_cast<ptrdiff_t>(n)));
    for (size_t t = n; t < 12; ++t) EXPECT_EQ(s.labels[t], kIgnored);
    EXPECT_EQ(s.segments, (std::vector<TokenSpan>{{0, static_cast<int32_t>(n)}}));
    for (size_t t = 0; t < 12; ++t) EXPECT_EQ(s.positions[t], static_cast<int32_t>(t));
    EXPECT_EQ(d.train->origin(i), fmt::format("{}_packed_input_ids_document sequence {}", f / "set", i));
  }
  ASSERT_EQ(d.notes.size(), 2u);
  EXPECT_EQ(d.end_token, 2);
  EXPECT_EQ(d.notes[1], "answers end with 2 (id 2)");
  EXPECT_NE(d.notes[0].find("10 conversations, 77 tokens"), std::string::npos) << d.notes[0];
  EXPECT_NE(d.notes[0].find("1 cut at data.sequence_length"), std::string::npos) << d.notes[0];
}

TEST(InstructionFiles, packed_side_by_side_and_every_label_once) {
  Folder f;
  const auto all = chats();
  const Datasets d = open_datasets(options(write_set(f, "set", all)), nullptr);
  ASSERT_LT(d.train->sample_count(), 8);
  int64_t columns = 0, labels = 0, wanted_columns = 0, wanted_labels = 0;
  std::vector<int> seen(10);
  for (int64_t i = 0; i < d.train->sample_count(); ++i) {
    const Sample s = d.train->sample(i);
    ASSERT_EQ(s.ids.size(), 12u);
    for (const TokenSpan& seg : s.segments) {
      const auto at = static_cast<size_t>(seg.begin);
      const auto k = static_cast<size_t>(s.ids[at] - 100);
      ASSERT_LT(k, 10u);
      ++seen[k];
      columns += seg.length;
      for (int32_t t = 0; t < seg.length; ++t) {
        EXPECT_EQ(s.positions[at + static_cast<size_t>(t)], t);
        EXPECT_EQ(s.ids[at + static_cast<size_t>(t)], all[k].ids[static_cast<size_t>(t)]);
        EXPECT_EQ(s.labels[at + static_cast<size_t>(t)], all[k].labels[static_cast<size_t>(t) + 1]);
      }
    }
    labels += static_cast<int64_t>(s.labels.size()) - std::count(s.labels.begin(), s.labels.end(), kIgnored);
  }
  EXPECT_EQ(seen, std::vector<int>(10, 1));
  for (const Chat& c : all) {
    const size_t n = std::min<size_t>(c.ids.size(), 13);
    wanted_columns += static_cast<int64_t>(n) - 1;
    wanted_labels +=
        static_cast<int64_t>(n) - 1 - std::count(c.labels.begin() + 1, c.labels.begin() + static_cast<ptrdiff_t>(n), kIgnored);
  }
  EXPECT_EQ(columns, wanted_columns);
  EXPECT_EQ(labels, wanted_labels);
}

TEST(InstructionFiles, every_spelling_names_the_three) {
  Folder f;
  const std::string x = write_set(f, "set", chats());
  write_set(f, "two", chats());
  for (const char* list : {"input_ids", "attention_mask", "labels"})
    for (const char* suffix : {"", ".bin", ".idx"}) {
      const std::string path = fmt::format("{}_packed_{}_document{}", x, list, suffix);
      EXPECT_EQ(source_files(path), std::vector<std::string>{x}) << path;
      EXPECT_EQ(source_kind(path), SourceKind::instructions) << path;
    }
  EXPECT_EQ(source_files(x), std::vector<std::string>{x});
  EXPECT_EQ(source_files(f / "*_packed_*"), (std::vector<std::string>{x, f / "two"}));
  EXPECT_EQ(open_datasets(options(f / "*_packed_*"), nullptr).train->token_count(), 2 * 77);
  EXPECT_USER_ERROR(source_files(f / "none"), "no such data");
  std::filesystem::create_directory(x);  // a folder of that name is meant itself
  f.write("set/a.txt", "text");
  EXPECT_EQ(source_files(x), std::vector<std::string>{x + "/a.txt"});
}

TEST(InstructionFiles, what_is_missing_or_does_not_fit_is_named) {
  const std::string names[] = {"packed_input_ids", "packed_attention_mask", "packed_labels"};
  for (const std::string& name : names)
    for (const char* suffix : {".bin", ".idx"}) {
      Folder f;
      const std::string x = write_set(f, "set", chats()), gone = x + "_" + name + "_document" + suffix;
      std::filesystem::remove(gone);
      EXPECT_USER_ERROR(open_datasets(options(x), nullptr), "instruction files are not complete (" + gone + ")");
    }
  auto rows = [](const std::vector<Chat>& all) {
    std::vector<Ids> labels;
    for (const Chat& c : all) labels.push_back(c.labels);
    return labels;
  };
  {
    Folder f;
    const std::string x = write_set(f, "set", chats());
    auto fewer = rows(chats());
    fewer.pop_back();
    write_list(f, "set", "packed_labels", fewer);
    EXPECT_USER_ERROR(open_datasets(options(x), nullptr),
                      "files do not belong together (" + x + "_packed_labels_document.idx)");
    auto moved = rows(chats());  // as many tokens in all
    moved[0].push_back(moved[1].back());
    moved[1].pop_back();
    write_list(f, "set", "packed_labels", moved);
    EXPECT_USER_ERROR(open_datasets(options(x), nullptr),
                      "_packed_labels_document sequence 0): it has 6 tokens, the ids have 5");
  }
  {
    Folder f;
    auto all = chats();
    all[3].ids[4] = 259;
    EXPECT_USER_ERROR(open_datasets(options(write_set(f, "set", all)), nullptr), "token 259 is beyond the vocabulary");
    all = chats();
    all[3].labels[11] = -7;
    EXPECT_USER_ERROR(open_datasets(options(write_set(f, "set", all)), nullptr), "label -7 is beyond the vocabulary");
    all = chats();
    all[3].mask[4] = 0;
    EXPECT_USER_ERROR(open_datasets(options(write_set(f, "set", all)), nullptr), "wrong attention mask");
    DatasetOptions o = options(write_set(f, "set", chats()));
    o.loss_on = LossOn::last;
    EXPECT_USER_ERROR(open_datasets(o, nullptr), "the labels are in the files already");
  }
}

TEST(InstructionFiles, padding_in_the_files_predicts_nothing) {
  Folder f;
  Chat c{{9, 9, 101, 20, 21, 22, 9}, {kIgnored, 50, 51, 20, 21, 22, kIgnored}, {0, 0, 1, 1, 1, 1, 0}};
  DatasetOptions o = options(write_set(f, "set", {c, chat(1, 4)}));
  o.pack = o.shuffle = false;
  const Sample s = open_datasets(o, nullptr).train->sample(0);
  EXPECT_EQ(s.segments, (std::vector<TokenSpan>{{2, 4}}));
  EXPECT_EQ(Ids(s.labels.begin(), s.labels.begin() + 6), (Ids{kIgnored, kIgnored, 20, 21, 22, kIgnored}));
}

TEST(InstructionFiles, what_cannot_be_learned_is_counted) {
  Folder f;
  auto all = chats();
  std::fill(all[0].labels.begin(), all[0].labels.end(), kIgnored);
  std::fill(all[6].labels.begin(), all[6].labels.begin() + 15, kIgnored);  // of 16: only behind the cut
  DatasetOptions o = options(write_set(f, "set", all));
  const Bytes tokenizer;
  Datasets d = open_datasets(o, &tokenizer);
  EXPECT_NE(d.notes[0].find("2 left out: 1 without an answer to learn, 1 with the answer after"), std::string::npos)
      << d.notes[0];
  o.sequence_length = 10;
  o.too_long = TooLong::drop;
  d = open_datasets(o, &tokenizer);
  EXPECT_NE(d.notes[0].find("3 left out: 2 too long, 1 without an answer to learn"), std::string::npos) << d.notes[0];
  o.sequence_length = 16;
  o.valid_fraction = 0.3;
  d = open_datasets(o, &tokenizer);
  ASSERT_TRUE(d.valid);
  EXPECT_EQ(d.train->token_count() + d.valid->token_count(), 75);  // all but conversation 0
  EXPECT_GT(d.valid->token_count(), 0);
}

// python -c "import numpy as np; r=np.random.RandomState(1234); [(lambda a: (r.shuffle(a),
// print(a.tolist())))(np.arange(3,10)) for _ in range(3)]"
TEST(InstructionOrder, is_numpys_for_one_epoch_after_the_other) {
  const std::vector<int64_t> wanted{5, 4, 9, 3, 7, 8, 6, 8, 3, 6, 7, 5, 9, 4, 4, 9, 6, 3, 8, 5, 7};
  auto first = [&](size_t n) { return std::vector<int64_t>(wanted.begin(), wanted.begin() + static_cast<ptrdiff_t>(n)); };
  EXPECT_EQ(build_instruction_order({3, 10}, -1, 1234), first(7));
  EXPECT_EQ(build_instruction_order({3, 10}, 6, 1234), first(7));
  EXPECT_EQ(build_instruction_order({3, 10}, 7, 1234), first(14));  // more than asked for, never as many
  EXPECT_EQ(build_instruction_order({3, 10}, 14, 1234), first(21));
}

TEST(InstructionOrder, training_in_it) {
  Folder f;
  DatasetOptions o = options(write_set(f, "set", chats()));
  o.seed = 1234;
  o.split = "80,20,0";
  o.train_samples = 20;
  o.valid_samples = 3;
  for (const SampleOrder order : {SampleOrder::megatron, SampleOrder::megatron_2023}) {
    o.order = order;
    const Datasets d = open_datasets(o, nullptr);
    const auto train = build_instruction_order({0, 8}, 20, 1234), valid = build_instruction_order({8, 10}, 3, 1234);
    ASSERT_EQ(d.train->sample_count(), 24);
    for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(d.train->sample(i).ids[0], 100 + train[static_cast<size_t>(i)]);
    EXPECT_EQ(d.train->sample(24).ids, d.train->sample(0).ids);
    ASSERT_EQ(d.valid->sample_count(), 4);
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(d.valid->sample(i).ids[0], 100 + valid[static_cast<size_t>(i)]);
  }
  o.train.push_back(o.train[0]);
  EXPECT_USER_ERROR(open_datasets(o, nullptr), "instruction files are not blended in a Megatron order");
}

}  // namespace test_data_instructions
}  // namespace ravine
