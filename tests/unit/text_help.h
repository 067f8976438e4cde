// Helpers for tests of the text room and of higher rooms: a temporary folder, a tokenizer of bytes, and the text of a
// UserError.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "text/tokenizer.h"

namespace ravine::test {

struct Folder {
  std::filesystem::path path;
  Folder() : path(std::filesystem::path(testing::TempDir()) / ("ravine_data_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

// Token = byte + 3; bos 1 in front, eos 2, unk 0.
class Bytes : public Tokenizer {
 public:
  explicit Bytes(bool bos = false, bool eos = true) : bos_(bos) {
    special_.bos = 1;
    if (eos) special_.eos = 2;
  }
  std::string kind() const override { return "bytes"; }
  int64_t size() const override { return 259; }
  uint64_t fingerprint() const override { return 1; }
  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    std::vector<int32_t> ids;
    if (bos_ && add_special) ids.push_back(1);
    for (unsigned char c : text) ids.push_back(c + 3);
    return ids;
  }
  std::unique_ptr<Decoding> start_decoding(bool skip_special) const override {
    struct Plain : Decoding {
      explicit Plain(bool skip) : skip(skip) {}
      void feed(int32_t id, std::string& out) override {
        if (id >= 3)
          out += static_cast<char>(id - 3);
        else if (!skip)
          out += "<" + std::to_string(id) + ">";
      }
      void finish(std::string&) override {}
      bool skip;
    };
    return std::make_unique<Plain>(skip_special);
  }
  std::string id_to_piece(int32_t id) const override { return std::to_string(id); }

 private:
  bool bos_;
};

inline std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("not a UserError: ") + e.what();
  }
  return "no error";
}

#define EXPECT_USER_ERROR(expression, part)                                                       \
  do {                                                                                            \
    std::string text_ = ::ravine::test::message([&] { (void)(expression); });                     \
    EXPECT_NE(text_.find(part), std::string::npos) << "got: " << text_ << "\nwanted: " << (part); \
  } while (0)

}  // namespace ravine::test
