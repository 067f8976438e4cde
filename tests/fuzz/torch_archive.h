// Writes pickles as files of torch.save, with storages 0 to 7 of 512 zeros each. So a fuzzer changes the pickle, not
// the archive around it. An input has two pickles: the size of the first as a u16 (little endian), then both.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "files/zip.h"

inline std::pair<std::string_view, std::string_view> two_pickles(std::string_view input) {
  if (input.size() < 2) return {};
  const size_t first = static_cast<uint8_t>(input[0]) | static_cast<size_t>(static_cast<uint8_t>(input[1])) << 8;
  input.remove_prefix(2);
  return {input.substr(0, first), input.substr(std::min(first, input.size()))};
}

inline void write_torch_archive(const std::string& path, std::string_view pickle) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  ravine::ZipWriter zip(path);
  zip.add("archive/data.pkl", pickle);
  for (int i = 0; i < 8; ++i) zip.add("archive/data/" + std::to_string(i), std::string(512, '\0'));
  zip.commit();
}

// Every element, as whoever copies tensors reads them.
template <class ElementsPtr>
void read_elements(const ElementsPtr& e) {
  std::string all(static_cast<size_t>(e->count() * size_of(e->dtype())), '\0');
  e->read(0, std::as_writable_bytes(std::span(all)));
}
