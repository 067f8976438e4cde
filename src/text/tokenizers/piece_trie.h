// The pieces of a vocabulary as a tree of bytes; finds the pieces with which a text begins.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizers/vocabulary.h"

namespace ravine {

// The largest size in bytes of a piece of Unigram and WordPiece models. It limits the work per byte of text. Published
// vocabularies have pieces of up to 256 bytes.
inline constexpr size_t kLongestPiece = 1024;

// A trie of the pieces of a vocabulary by their bytes; its edges are in one flat hash table. A search from a position
// in a text visits at most as many bytes as the longest piece has.
class PieceTrie {
 public:
  void add(std::string_view text, int32_t value) {
    uint32_t node = 0;
    for (char c : text) {
      uint32_t* child = slot(node, static_cast<unsigned char>(c));
      if (*child == 0) {
        *child = static_cast<uint32_t>(values_.size());
        values_.push_back(-1);
        node = *child;
        if (values_.size() * 2 > edges_.size()) grow();
      } else {
        node = *child;
      }
    }
    values_[node] = value;
  }
  // Returns the child of a node for the byte c; 0 if there is none. The root is node 0.
  uint32_t step(uint32_t node, unsigned char c) const {
    uint64_t key = (uint64_t{node} << 8 | c) + 1;
    for (size_t i = home_slot(key);; i = (i + 1) & (edges_.size() - 1)) {
      if (edges_[i].key == key) return edges_[i].child;
      if (edges_[i].key == 0) return 0;
    }
  }
  int32_t value(uint32_t node) const { return values_[node]; }

 private:
  struct Edge {
    uint64_t key = 0;
    uint32_t child = 0;
  };
  size_t home_slot(uint64_t key) const {
    return hash_mix(key ^ secret_, 0x9E3779B97F4A7C15ull ^ secret_) & (edges_.size() - 1);
  }
  uint32_t* slot(uint32_t node, unsigned char c) {
    uint64_t key = (uint64_t{node} << 8 | c) + 1;
    size_t i = home_slot(key);
    while (edges_[i].key != 0 && edges_[i].key != key) i = (i + 1) & (edges_.size() - 1);
    edges_[i].key = key;
    return &edges_[i].child;
  }
  void grow() {
    std::vector<Edge> old(edges_.size() * 2);
    std::swap(old, edges_);
    for (const Edge& e : old) {
      if (e.key == 0) continue;
      size_t i = home_slot(e.key);
      while (edges_[i].key != 0) i = (i + 1) & (edges_.size() - 1);
      edges_[i] = e;
    }
  }
  uint64_t secret_ = hash_secret();
  std::vector<Edge> edges_ = std::vector<Edge>(1024);
  std::vector<int32_t> values_ = {-1};  // by node
};

}  // namespace ravine
