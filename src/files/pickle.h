// Python's pickle format (protocols 0 to 5), parsed to a tree of plain values. Nothing is imported, called or executed:
// a call in the pickle becomes a value of kind `object` that names the callable. Source: Lib/pickletools.py of CPython
// 3.12. A file is untrusted input: each error in it is a UserError that names the file and the byte.
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

// A parsed pickle. Its values are in one array and refer to each other by index. Shared values and cycles therefore
// need no recursion and no copies; code that walks the tree must expect both. Memory: at most 256 bytes per byte of the
// pickle, and 1 GiB in all (kMaxValues). Time: O(n) to parse, O(n log n) to look up every key.
class Pickle {
 public:
  using Ref = uint32_t;
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    big,  // an integer beyond 64 bits; its value is not stored
    real,
    text,
    bytes,
    list,
    tuple,
    set,         // items
    dict,        // items: key, value, key, value, ...; also OrderedDict and defaultdict
    global,      // text: "module.name"
    object,      // items: callable, arguments, state (none if there is no state), then the values put into it
    persistent,  // items: the id
  };

  // Parses the pickle at the beginning of `data`, which must outlive this object. More than kMaxValues values is a
  // UserError.
  Pickle(std::span<const std::byte> data, std::string where);

  static constexpr size_t kMaxValues = 4'000'000;  // applies to the memo entries too

  Ref root() const { return root_; }
  size_t size() const { return size_; }                           // size of the pickle in bytes
  Ref values() const { return static_cast<Ref>(nodes_.size()); }  // number of values; all smaller indices are valid
  const std::string& where() const { return where_; }

  Kind kind(Ref v) const { return nodes_[v].kind; }
  bool is_none(Ref v) const { return kind(v) == Kind::none; }
  const std::vector<Ref>& items(Ref v) const { return nodes_[v].items; }
  std::optional<int64_t> integer(Ref v) const;  // also for a boolean
  std::optional<double> real(Ref v) const;      // also for an integer
  std::optional<bool> boolean(Ref v) const;
  std::optional<std::string_view> text(Ref v) const;
  std::string global(Ref v) const;  // "module.name" of a global; "" for other kinds
  // Describes a value for a message: "a dict", "os.system(...)".
  std::string describe(Ref v) const;

  // Returns the fields of a dict, or of a namespace (argparse, types), as key, value, key, value, ...; null for values
  // of other kinds.
  const std::vector<Ref>* fields(Ref v) const;
  // Returns the value of the text `key` in a dict (or namespace); the last one if the key is repeated; nothing if it is
  // missing or `dict` has no fields. A large dict is sorted at its first lookup.
  std::optional<Ref> find(Ref dict, std::string_view key) const;

 private:
  struct Node {
    Kind kind = Kind::none;
    union {
      int64_t integer = 0;
      double real;
    };
    std::string_view text, module;  // slices of the data
    std::vector<Ref> items;
  };
  friend class PickleParser;
  std::string where_;
  std::vector<Node> nodes_;
  Ref root_ = 0;
  size_t size_ = 0;
  // Sorted by key, of equal keys the last first; without keys above 4096 bytes.
  using Sorted = std::vector<std::pair<std::string_view, Ref>>;
  mutable std::mutex sorting_;
  mutable std::unordered_map<const std::vector<Ref>*, Sorted> sorted_;
};

}  // namespace ravine
