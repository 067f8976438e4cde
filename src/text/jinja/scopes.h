// What a render remembers: variables in scopes within each other, namespaces and loops. They live as long as it does, so values
// may point to them, and what changed behind a mark can be taken back.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace ravine::jinja {

using Names = std::vector<std::pair<std::string, Value>>;

struct Scope {
  Names names;
  Scope* outer = nullptr;
  size_t number = 0;  // in order of making
  Value* find(std::string_view name);
};

class Scopes {
 public:
  explicit Scopes(Budget& budget) : budget_(budget) {}
  Scope& scope(Scope* outer);
  Namespace& space();
  Namespace& loop(Value over);

  // What is changed otherwise is kept first.
  void set(Scope& s, const std::string& name, Value v);
  void set(Namespace& n, const std::string& name, Value v);
  void keep(Namespace& n);

  void mark();
  void undo();    // all since the mark
  void forget();  // the mark: what changed stays

 private:
  struct Kept {  // as it was at the mark
    Scope* scope = nullptr;
    Namespace* space = nullptr;
    Names names;
    std::optional<Loop> loop;
    std::optional<Cycler> cycler;
  };
  void keep(Scope& s);
  void put(Names& names, const std::string& name, Value v);

  Budget& budget_;
  std::deque<Scope> scopes_;
  std::deque<Namespace> spaces_;
  bool marked_ = false;
  size_t scope_mark_ = 0, space_mark_ = 0, bytes_mark_ = 0;
  std::vector<Kept> kept_;
};

}  // namespace ravine::jinja
