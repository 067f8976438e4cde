// Recorded results of Megatron's data code: tests/golden/megatron.json, made by tools/golden/copy_megatron.py.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "files/md5.h"
#include "tests/unit/data_help.h"

namespace ravine::test {

inline const Json& megatron() {
  static const Json j = read_json(RAVINE_SOURCE_DIR "/tests/golden/megatron.json");
  return j;
}

inline std::string unbase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    if ((have += 6) >= 8) out += static_cast<char>(bits >> (have -= 8));
  }
  return out;
}

// Writes both files of an entry; returns the prefix.
inline std::string write_pair(const Folder& f, const std::string& name, const Json& entry) {
  f.write(name + ".bin", unbase64(entry["bin"]));
  f.write(name + ".idx", unbase64(entry["idx"]));
  return f / name;
}

template <class T>
std::string md5_of(std::span<const T> values) {
  return md5_hex({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

inline std::string whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace ravine::test
