// The state of a rendering: variables in nested scopes, namespaces and loops. They exist until the rendering ends, so
// values may point to them. Changes after a mark can be undone.
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
  size_t number = 0;  // in order of creation
  Value* find(std::string_view name);
};

class Scopes {
 public:
  explicit Scopes(Budget& budget) : budget_(budget) {}
  Scope& scope(Scope* outer);
  Namespace& space();
  Namespace& loop(Value over);

  // Set a variable in a scope or a namespace; undo() restores the old value.
  void set(Scope& s, const std::string& name, Value v);
  void set(Namespace& n, const std::string& name, Value v);
  // Stores the state of a namespace for undo(). Must be called before any change of it except by set().
  void keep(Namespace& n);

  void mark();    // sets the mark to which undo() returns
  void undo();    // undoes all changes since the mark
  void forget();  // removes the mark and keeps the changes

 private:
  struct Kept {  // the state at the mark
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
