#include <gtest/gtest.h>

#include <map>
#include <random>

#include "data/held_out.h"

namespace ravine {
namespace test_data_held_out {

// Bytes that a plan holds out of documents, counted by following its contract.
int64_t held_bytes(const std::map<uint64_t, std::string>& documents, const HeldOut& plan) {
  int64_t held = 0;
  for (const auto& [hash, text] : documents) {
    const auto size = static_cast<int64_t>(text.size());
    if (hash < plan.threshold)
      held += size;
    else if (plan.tail > 0 && hash == plan.cut)
      if (int64_t begin = held_out_begin(text, plan.tail); begin > 0) held += size - begin;
  }
  return held;
}

std::string prose(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < size) {
    text.append(1 + random() % 9, 'a');
    text += random() % 12 ? " " : random() % 4 ? "\n" : "\n\n";
  }
  text.resize(size);
  return text;
}

TEST(HeldOut, one_document_of_any_size_holds_half_to_twice_the_share) {
  for (size_t size : {200, 3000, 60000, 140000})
    for (double share : {0.02, 0.05, 0.3, 0.6}) {
      std::map<uint64_t, std::string> documents = {{12345, prose(size, 1)}};
      const HeldOut plan = hold_out_bytes({{12345, static_cast<int64_t>(size)}}, share);
      const double held = static_cast<double>(held_bytes(documents, plan)) / static_cast<double>(size);
      EXPECT_GE(held, share / 2) << size;
      EXPECT_LE(held, 2 * share) << size;
    }
}

TEST(HeldOut, few_documents_hold_half_to_twice_the_share) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::map<uint64_t, std::string> documents;
    std::vector<DocumentSize> sizes;
    double all = 0;
    for (size_t i = 0, n = 1 + random() % 6; i < n; ++i) {
      const uint64_t hash = random();
      documents[hash] = prose(100 + random() % 5000, static_cast<uint32_t>(random()));
      sizes.push_back({hash, static_cast<int64_t>(documents[hash].size())});
      all += static_cast<double>(documents[hash].size());
    }
    const double share = 0.05 + static_cast<double>(random() % 500) / 1000;
    const double held = static_cast<double>(held_bytes(documents, hold_out_bytes(sizes, share))) / all;
    EXPECT_GE(held, share / 2) << round;
    EXPECT_LE(held, 2 * share) << round;
  }
}

TEST(HeldOut, equal_documents_give_equal_ends) {
  const HeldOut plan = hold_out_bytes({{5, 1000}, {5, 1000}, {9, 1000}}, 0.1);
  EXPECT_EQ(plan.cut, 5u);
  EXPECT_EQ(plan.tail, 150);  // of either
  EXPECT_EQ(plan.threshold, 5u);
}

TEST(HeldOut, whole_documents_go_as_far_as_the_share) {
  const HeldOut plan = hold_out_bytes({{9, 100}, {3, 100}, {5, 100}, {7, 100}}, 0.6);
  EXPECT_EQ(plan.threshold, 7u);  // 3 and 5 whole
  EXPECT_EQ(plan.cut, 7u);
  EXPECT_EQ(plan.tail, 40);
}

TEST(HeldOut, the_cut_lies_behind_the_best_border_near_the_target) {
  EXPECT_EQ(held_out_begin("aaaa bbbb\ncccc dd\n\neeee ffff", 9), 19);  // behind the blank line
  EXPECT_EQ(held_out_begin("aaaa bbbb cccc\ndddd", 4), 15);
  EXPECT_EQ(held_out_begin("aaaabbbbcccc dddd", 4), 13);
  EXPECT_EQ(held_out_begin("\xc3\xa4\xc3\xb6\xc3\xbc", 2), 4);  // never within a character
  EXPECT_EQ(held_out_begin("\xc3\xa4\xc3\xb6\xc3\xbc", 3) % 2, 0);
  EXPECT_EQ(held_out_begin("x", 1), 0);
}

TEST(HeldOut, a_share_of_many_documents_is_left_to_their_hashes) {
  std::mt19937_64 random(3);
  std::vector<DocumentSize> many;
  for (int i = 0; i < 20000; ++i) many.push_back({random(), 100});
  EXPECT_TRUE(holds_share(many, hold_out_documents(0.05), 0.05));
  // Half of it would be held out.
  EXPECT_FALSE(holds_share({{1ull << 63, 70000}, {1, 70000}}, hold_out_documents(0.05), 0.05));
  EXPECT_FALSE(holds_share({{1ull << 63, 70000}}, hold_out_documents(0.05), 0.05));
}

}  // namespace test_data_held_out
}  // namespace ravine
