#include "text/tokenizers/string_finder.h"

#include <algorithm>

namespace ravine {

// Aho-Corasick over the reversed strings.
struct StringFinder::Reversed {
  struct State {
    Node node;
    int32_t fail = 0;
    int32_t longest = -1;  // state of the longest string that ends here, in this state or along its failures
    uint32_t depth = 0;
  };
  std::vector<State> states = std::vector<State>(1);

  explicit Reversed(const std::vector<std::pair<std::string, int32_t>>& texts) {
    for (const auto& [text, value] : texts) {
      int32_t at = 0;
      for (size_t i = text.size(); i-- > 0;) {
        const auto c = static_cast<unsigned char>(text[i]);
        int32_t to = child(states[static_cast<size_t>(at)].node, c);
        if (to < 0) {
          to = static_cast<int32_t>(states.size());
          auto& children = states[static_cast<size_t>(at)].node.children;
          children.insert(std::lower_bound(children.begin(), children.end(), std::pair{c, INT32_MIN}), {c, to});
          const uint32_t depth = states[static_cast<size_t>(at)].depth + 1;
          states.emplace_back().depth = depth;
        }
        at = to;
      }
      int32_t& known = states[static_cast<size_t>(at)].node.value;
      if (known < 0 || value < known) known = value;
    }
    std::vector<int32_t> queue{0};
    for (size_t k = 0; k < queue.size(); ++k) {
      const int32_t at = queue[k];
      State& s = states[static_cast<size_t>(at)];
      s.longest = s.node.value >= 0 ? at : at == 0 ? -1 : states[static_cast<size_t>(s.fail)].longest;
      for (auto [c, to] : s.node.children) {
        states[static_cast<size_t>(to)].fail = at == 0 ? 0 : step(s.fail, c);
        queue.push_back(to);
      }
    }
  }
  int32_t step(int32_t at, unsigned char c) const {
    for (;; at = states[static_cast<size_t>(at)].fail) {
      if (const int32_t to = child(states[static_cast<size_t>(at)].node, c); to >= 0) return to;
      if (at == 0) return 0;
    }
  }
};

struct StringFinder::Late {
  std::once_flag once;
  std::unique_ptr<Reversed> made;
};

StringFinder::StringFinder() : late_(std::make_shared<Late>()) {}

int32_t StringFinder::child(const Node& node, unsigned char c) {
  auto it = std::lower_bound(node.children.begin(), node.children.end(), std::pair{c, INT32_MIN});
  return it == node.children.end() || it->first != c ? -1 : it->second;
}

const StringFinder::Reversed& StringFinder::reversed() const {
  std::call_once(late_->once, [&] { late_->made = std::make_unique<Reversed>(texts_); });
  return *late_->made;
}

void StringFinder::add(std::string_view text, int32_t value) {
  if (text.empty()) return;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  late_ = std::make_shared<Late>();
  texts_.emplace_back(text, value);
  first_[byte(0)] = true;
  if (text.size() == 1)
    single_[byte(0)] = true;
  else
    starts_[(size_t{byte(0)} << 8 | byte(1)) / 64] |= uint64_t{1} << (byte(1) % 64);
  size_t node = 0;
  for (char ch : text) {
    auto c = static_cast<unsigned char>(ch);
    auto& children = nodes_[node].children;
    auto it = std::lower_bound(children.begin(), children.end(), std::pair{c, INT32_MIN});
    if (it != children.end() && it->first == c) {
      node = static_cast<size_t>(it->second);
    } else {
      auto fresh = static_cast<int32_t>(nodes_.size());
      children.insert(it, {c, fresh});
      nodes_.emplace_back();
      node = static_cast<size_t>(fresh);
    }
  }
  if (nodes_[node].value < 0 || value < nodes_[node].value) nodes_[node].value = value;
}

bool StringFinder::Search::next(Match& match) {
  if (!all_known_) return walk(match);
  while (!known_.empty() && known_.back().begin < from_) known_.pop_back();
  if (known_.empty()) return false;
  match = known_.back();
  from_ = match.end;
  return true;
}

bool StringFinder::Search::walk(Match& match) {
  const size_t most = 8 * text_.size() + 1024;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text_[i]); };
  for (size_t i = from_; i < text_.size(); ++i) {
    if (!finder_.first_[byte(i)]) [[likely]]
      continue;
    if (!finder_.single_[byte(i)]) {
      if (i + 1 >= text_.size()) break;
      if (!(finder_.starts_[(size_t{byte(i)} << 8 | byte(i + 1)) / 64] >> (byte(i + 1) % 64) & 1)) continue;
    }
    if (steps_ > most) {
      from_ = i;
      look_back();
      return next(match);
    }
    size_t node = 0;
    bool found = false;
    for (size_t k = i; k < text_.size(); ++k, ++steps_) {
      const int32_t to = child(finder_.nodes_[node], byte(k));
      if (to < 0 || steps_ > most) break;
      node = static_cast<size_t>(to);
      if (finder_.nodes_[node].value >= 0) {
        found = true;
        match = {i, k + 1, finder_.nodes_[node].value};
      }
    }
    if (steps_ > most) {  // perhaps cut off before its end
      --i;
      continue;
    }
    if (found) {
      from_ = match.end;
      return true;
    }
  }
  from_ = text_.size();
  return false;
}

void StringFinder::Search::look_back() {
  const Reversed& r = finder_.reversed();
  int32_t at = 0;
  for (size_t i = text_.size(); i-- > from_;) {
    at = r.step(at, static_cast<unsigned char>(text_[i]));
    if (const int32_t longest = r.states[static_cast<size_t>(at)].longest; longest >= 0) {
      const auto& s = r.states[static_cast<size_t>(longest)];
      known_.push_back({i, i + s.depth, s.node.value});
    }
  }
  all_known_ = true;
}

}  // namespace ravine
