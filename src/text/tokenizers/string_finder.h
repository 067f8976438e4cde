// Finds the strings of a set in a text, from left to right and without overlaps: the leftmost first, and among these
// the longest.
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
  // Adds a string to search for, with a value that its matches have. If a string is added again, the lowest value is
  // kept. An empty string is ignored.
  void add(std::string_view text, int32_t value);
  bool empty() const { return texts_.empty(); }

  struct Match {
    size_t begin, end;
    int32_t value;
  };

  // A search in one text, in linear time for all strings. A tree is walked from each position where a string may begin,
  // which is fast for ordinary texts. If that takes more than a few steps per byte, the rest is searched once from its
  // end. An Aho-Corasick automaton of the reversed strings then gives the longest string at each position.
  class Search {
   public:
    Search(const StringFinder& finder, std::string_view text) : finder_(finder), text_(text) {}
    bool next(Match& match);  // false after the last match

   private:
    bool walk(Match& match);
    void look_back();
    const StringFinder& finder_;
    std::string_view text_;
    size_t from_ = 0, steps_ = 0;
    bool all_known_ = false;
    std::vector<Match> known_;  // the longest string at each position that has one, the last position first
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
  // Pairs of bytes with which a string may begin, one bit each.
  std::vector<uint64_t> starts_ = std::vector<uint64_t>(1024);
  bool single_[256] = {};  // bytes that are strings
  bool first_[256] = {};
  struct Late;
  mutable std::shared_ptr<Late> late_;  // built by the first call of reversed()
};

}  // namespace ravine
