// A temporary folder for targets whose parsers read a path. The folder is in memory if /dev/shm exists, and is removed
// at the end.
#pragma once
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

class Scratch {
 public:
  Scratch() {
    const std::string root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    folder_ = root + "/ravine-fuzz-XXXXXX";
    if (!mkdtemp(folder_.data())) std::abort();
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  const std::string& folder() const { return folder_; }
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string path = folder_ + "/" + name;
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fclose(file) != 0) std::abort();
    return path;
  }
  void remove(const std::string& name) const { ::unlink((folder_ + "/" + name).c_str()); }

 private:
  std::string folder_;
};

inline std::string_view text_of(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }
