// The JSON of DeepSpeed's configs, read with the lines on which values stand. It is RFC 8259's, and as people write these files:
// a comma behind the last element is read with a notice.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml.h"

namespace ravine {

// Limits against hostile documents: beyond them a UserError.
constexpr int kDeepSpeedDepth = 32;
constexpr int64_t kDeepSpeedValues = 100'000;
constexpr int64_t kDeepSpeedBytes = int64_t{4} << 20;

// Parses one document whose root is an object. `text` of a number is as written; a whole number beyond 64 bits is a real; NaN
// and Infinity, as Python writes them, are reals. A key that stands twice in an object, bytes that are no UTF-8 and errors of
// syntax are UserErrors at "<name>:<line>". A line for people is appended to `notices` where a comma was forgiven.
YamlNode::Ptr parse_deepspeed_json(std::string_view text, const std::string& name, std::vector<std::string>& notices);

// `source` is a file, or the config itself in URL-safe base64, as DeepSpeed takes it too; `name` becomes what errors call it.
YamlNode::Ptr read_deepspeed_json(const std::string& source, std::string& name, std::vector<std::string>& notices);

}  // namespace ravine
