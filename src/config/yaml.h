// YAML documents, read with libyaml and resolved by the rules of YAML 1.1 as PyYAML's safe loader applies them: on/off/yes/no
// are booleans, 010 is 8, 0x1f, 0b11, 1_000, 1:30 is 90, ~ and nothing are null, `<<` merges.
// A key that stands twice in a map is refused in files; on the command line the last one wins, as in PyYAML. There a value that
// begins with * is text (a glob): nothing stands before it that an alias could name. Beyond PyYAML, floats need no dot and no
// sign of the exponent (1e-5, 1.5e5, -.5). Dates stay text.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ravine {

struct YamlNode {
  enum class Kind { null, boolean, integer, real, text, list, map };
  using Ptr = std::shared_ptr<const YamlNode>;  // an alias shares the node of its anchor

  Kind kind = Kind::null;
  std::string text;  // of a scalar: the characters as written (without quotes)
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;  // also set for integers; an integer beyond 64 bits is a real
  std::vector<Ptr> items;
  std::vector<std::pair<std::string, Ptr>> fields;  // in order of first appearance, keys distinct
  int line = 0;                                     // from 1; 0 where lines mean nothing (command line)
  int64_t size = 1;                                 // nodes below and including this one, aliases expanded

  bool scalar() const { return kind != Kind::list && kind != Kind::map; }
  const YamlNode* find(std::string_view key) const;  // null if absent or no map
};

// Limits against hostile documents: beyond them a UserError.
constexpr int kYamlDepth = 64;
constexpr int64_t kYamlNodes = 100'000;  // aliases expanded
constexpr int64_t kYamlBytes = int64_t{4} << 20;

// Parses one document; an empty one is null. Syntax errors, a second document, a key twice (with `lines`), unknown tags,
// undefined or recursive aliases and broken limits are UserErrors at "<name>:<line>", or at "<name>" when `lines` is false.
YamlNode::Ptr load_yaml(std::string_view text, const std::string& name, bool lines = true);
YamlNode::Ptr read_yaml(const std::string& path);

// A plain scalar by the rules above; never fails.
YamlNode resolve_scalar(std::string_view text);

// Scalars that read back exactly, here and with PyYAML.
std::string yaml_text(std::string_view text);  // plain if it can be, else in double quotes; invalid UTF-8 is a UserError
std::string yaml_real(double x);

}  // namespace ravine
