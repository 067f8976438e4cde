#include "text/jinja/scopes.h"

#include <algorithm>

namespace ravine::jinja {
namespace {

constexpr size_t kNameBytes = 2 * sizeof(std::pair<std::string, Value>);  // bytes of a variable in a growing scope

}  // namespace

Value* Scope::find(std::string_view name) {
  for (auto& [k, v] : names)
    if (k == name) return &v;
  return nullptr;
}

Scope& Scopes::scope(Scope* outer) {
  budget_.work(int64_t{16});
  budget_.bytes(256);
  Scope& s = scopes_.emplace_back();
  s.outer = outer;
  s.number = scopes_.size() - 1;
  return s;
}

Namespace& Scopes::space() {
  budget_.work(int64_t{16});
  budget_.bytes(sizeof(Namespace));
  Namespace& n = spaces_.emplace_back();
  n.number = spaces_.size() - 1;
  return n;
}

Namespace& Scopes::loop(Value over) {
  Namespace& n = space();
  n.loop = Loop{std::move(over)};
  return n;
}

void Scopes::set(Scope& s, const std::string& name, Value v) {
  keep(s);
  put(s.names, name, std::move(v));
}

void Scopes::set(Namespace& n, const std::string& name, Value v) {
  keep(n);
  put(n.fields, name, std::move(v));
}

void Scopes::put(Names& names, const std::string& name, Value v) {
  budget_.work(2 + names.size() / 2);
  auto known = std::find_if(names.begin(), names.end(), [&](const auto& e) { return e.first == name; });
  if (known != names.end()) {
    known->second = std::move(v);
    return;
  }
  budget_.bytes(kNameBytes + name.size());
  names.emplace_back(name, std::move(v));
}

void Scopes::mark() {
  marked_ = true;
  scope_mark_ = scopes_.size(), space_mark_ = spaces_.size(), bytes_mark_ = budget_.bytes_left();
}

void Scopes::undo() {
  for (Kept& k : kept_) {
    (k.scope ? k.scope->names : k.space->fields) = std::move(k.names);
    if (k.space) k.space->loop = std::move(k.loop), k.space->cycler = std::move(k.cycler);
  }
  kept_.clear();
  while (scopes_.size() > scope_mark_) scopes_.pop_back();
  while (spaces_.size() > space_mark_) spaces_.pop_back();
  budget_.bytes_left(bytes_mark_);
  marked_ = false;
}

void Scopes::forget() {
  marked_ = false;
  kept_.clear();
}

void Scopes::keep(Scope& s) {
  if (!marked_ || s.number >= scope_mark_) return;
  budget_.work(kept_.size());
  if (std::any_of(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.scope == &s; })) return;
  budget_.list(3 * s.names.size());
  kept_.push_back({&s, nullptr, s.names, {}, {}});
}

void Scopes::keep(Namespace& n) {
  if (!marked_ || n.number >= space_mark_) return;
  budget_.work(kept_.size());
  if (std::any_of(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.space == &n; })) return;
  budget_.list(3 * n.fields.size());
  kept_.push_back({nullptr, &n, n.fields, n.loop, n.cycler});
}

}  // namespace ravine::jinja
