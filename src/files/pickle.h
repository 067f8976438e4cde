// Python's pickle format (protocols 0 to 5) read as a tree of plain values. Nothing is imported, called or executed: what a
// pickle asks to call stays a value of kind `object` that names the callable. Source: Lib/pickletools.py of CPython 3.12. A
// file is untrusted input: whatever is wrong with it is a UserError naming the file and the byte.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace ravine {

// Memory: at most 256 bytes per byte of the pickle, and a GiB in all (kMaxValues). Time: linear, and n log n for looking up
// every key. Values lie in one array and name each other by index: sharing and cycles need no recursion and no copies, and a
// memo that is fetched a million times costs a million indices. Who walks the tree must expect cycles and shared values.
class Pickle {
 public:
  using Ref = uint32_t;
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    big,  // an integer beyond 64 bits, value not kept
    real,
    text,
    bytes,
    list,
    tuple,
    set,         // items
    dict,        // items: key, value, key, value, ...; also OrderedDict and defaultdict
    global,      // text "module.name"
    object,      // items: callable, arguments, state (none without); then what was put into it
    persistent,  // items: the id
  };

  // Parses the pickle that `data` begins with; `data` must outlive this. At most kMaxValues values.
  Pickle(std::span<const std::byte> data, std::string where);

  static constexpr size_t kMaxValues = 4'000'000;  // also of memo entries

  Ref root() const { return root_; }
  size_t size() const { return size_; }                           // bytes that it took
  Ref values() const { return static_cast<Ref>(nodes_.size()); }  // every index below names a value
  const std::string& where() const { return where_; }

  Kind kind(Ref v) const { return nodes_[v].kind; }
  bool is_none(Ref v) const { return kind(v) == Kind::none; }
  const std::vector<Ref>& items(Ref v) const { return nodes_[v].items; }
  std::optional<int64_t> integer(Ref v) const;  // also of a boolean
  std::optional<double> real(Ref v) const;      // also of an integer
  std::optional<bool> boolean(Ref v) const;
  std::optional<std::string_view> text(Ref v) const;
  std::string global(Ref v) const;  // "module.name" of a global; "" for other kinds
  // What a value is, for messages: "a dict", "os.system(...)".
  std::string describe(Ref v) const;

  // The fields of a dict, or of an argparse or types namespace; null for anything else. Key, value, key, value, ...
  const std::vector<Ref>* fields(Ref v) const;
  // The last entry of that name; large dicts are sorted once, when first asked.
  std::optional<Ref> find(Ref dict, std::string_view key) const;

 private:
  struct Node {
    Kind kind = Kind::none;
    union {
      int64_t integer = 0;
      double real;
    };
    std::string_view text, module;  // into the data
    std::vector<Ref> items;
  };
  friend class PickleParser;
  std::string where_;
  std::vector<Node> nodes_;
  Ref root_ = 0;
  size_t size_ = 0;
  using Sorted =
      std::vector<std::pair<std::string_view, Ref>>;  // by key, of equal keys the last first; without keys beyond 4096 bytes
  mutable std::mutex sorting_;
  mutable std::unordered_map<const std::vector<Ref>*, Sorted> sorted_;
};

}  // namespace ravine
