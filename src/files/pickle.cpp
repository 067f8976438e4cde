#include "files/pickle.h"

#include <algorithm>

#include "files/tensor_file.h"

namespace ravine {

std::optional<int64_t> Pickle::integer(Ref v) const {
  const Node& n = nodes_[v];
  if (n.kind != Kind::integer && n.kind != Kind::boolean) return {};
  return n.integer;
}

std::optional<double> Pickle::real(Ref v) const {
  const Node& n = nodes_[v];
  if (n.kind == Kind::real) return n.real;
  if (n.kind == Kind::integer) return static_cast<double>(n.integer);
  return {};
}

std::optional<bool> Pickle::boolean(Ref v) const {
  if (nodes_[v].kind != Kind::boolean) return {};
  return nodes_[v].integer != 0;
}

std::optional<std::string_view> Pickle::text(Ref v) const {
  if (nodes_[v].kind != Kind::text) return {};
  return nodes_[v].text;
}

std::string Pickle::global(Ref v) const {
  const Node& n = nodes_[v];
  if (n.kind != Kind::global) return "";
  std::string_view module = n.module == "__builtin__" ? "builtins" : n.module;
  // Names in honest files are short; a long name in a hostile file must not make each use expensive.
  return fmt::format("{}.{}", module.substr(0, 200), n.text.substr(0, 200));
}

std::string Pickle::describe(Ref v) const {
  switch (nodes_[v].kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "a boolean";
    case Kind::integer:
    case Kind::big:
      return "an integer";
    case Kind::real:
      return "a float";
    case Kind::text:
      return "a string";
    case Kind::bytes:
      return "bytes";
    case Kind::list:
      return "a list";
    case Kind::tuple:
      return "a tuple";
    case Kind::set:
      return "a set";
    case Kind::dict:
      return "a dict";
    case Kind::global:
      return printable(global(v));
    case Kind::persistent:
      return "a storage";
    case Kind::object:
      break;
  }
  // The callable may itself be the result of a call.
  std::string calls;
  for (int depth = 0; nodes_[v].kind == Kind::object; ++depth) {
    if (depth == 8) return "a call of calls";
    calls += "(...)";
    v = nodes_[v].items[0];
  }
  return (nodes_[v].kind == Kind::global ? printable(global(v)) : "a value") + calls;
}

const std::vector<Pickle::Ref>* Pickle::fields(Ref v) const {
  if (nodes_[v].kind == Kind::dict) return &nodes_[v].items;
  if (nodes_[v].kind != Kind::object) return nullptr;
  const std::string name = global(nodes_[v].items[0]);
  const Ref state = nodes_[v].items[2];
  if ((name == "argparse.Namespace" || name == "types.SimpleNamespace") && nodes_[state].kind == Kind::dict)
    return &nodes_[state].items;
  return nullptr;
}

std::optional<Pickle::Ref> Pickle::find(Ref dict, std::string_view key) const {
  const std::vector<Ref>* items = fields(dict);
  if (!items) return {};
  constexpr size_t kFew = 64, kLongestKey = 4096;  // comparing long keys many times would take n^2 time
  if (items->size() > kFew) {
    std::lock_guard lock(sorting_);
    auto [it, fresh] = sorted_.try_emplace(items);
    Sorted& keys = it->second;
    if (fresh) {
      for (size_t i = items->size(); i >= 2; i -= 2)
        if (const Node& n = nodes_[(*items)[i - 2]]; n.kind == Kind::text && n.text.size() <= kLongestKey)
          keys.emplace_back(nodes_[(*items)[i - 2]].text, (*items)[i - 1]);
      std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    const auto found =
        std::lower_bound(keys.begin(), keys.end(), key, [](const auto& a, std::string_view b) { return a.first < b; });
    return found != keys.end() && found->first == key ? std::optional(found->second) : std::nullopt;
  }
  for (size_t i = items->size(); i >= 2; i -= 2)
    if (nodes_[(*items)[i - 2]].kind == Kind::text && nodes_[(*items)[i - 2]].text == key) return (*items)[i - 1];
  return {};
}

}  // namespace ravine
