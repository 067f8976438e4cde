// Finds the strings of a set in a text, from left to right, none inside another: the leftmost first, of those the longest.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ravine {

class StringFinder {
 public:
  StringFinder();
  void add(std::string_view text, int32_t value);  // of equal strings the lowest value counts; an empty one is left out
  bool empty() const { return texts_.empty(); }

  struct Match {
    size_t begin, end;
    int32_t value;
  };

  // One walk over a text. Time is linear in the text, whatever the strings are: a tree is walked from each place where a string
  // may begin, which is fast for texts as people write them; where that takes more than a few steps per byte, the rest is
  // looked through once from its end by an Aho-Corasick automaton of the reversed strings, which knows the longest string that
  // begins at each place.
  class Search {
   public:
    Search(const StringFinder& finder, std::string_view text) : finder_(finder), text_(text) {}
    bool next(Match& match);  // false behind the last one

   private:
    bool walk(Match& match);
    void look_back();
    const StringFinder& finder_;
    std::string_view text_;
    size_t from_ = 0, steps_ = 0;
    bool all_known_ = false;
    std::vector<Match> known_;  // the longest string at each place that has one, the last place first
  };

 private:
  struct Node {
    std::vector<std::pair<unsigned char, int32_t>> children;
    int32_t value = -1;
  };
  struct Reversed;
  static int32_t child(const Node& node, unsigned char c);  // -1: none
  const Reversed& reversed() const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<std::pair<std::string, int32_t>> texts_;
  std::vector<uint64_t> starts_ = std::vector<uint64_t>(1024);  // pairs of bytes that a string may begin with, one bit each
  bool single_[256] = {};                                       // bytes that are strings
  bool first_[256] = {};
  struct Late;
  mutable std::shared_ptr<Late> late_;  // what reversed() makes when first asked
};

}  // namespace ravine
