// 64-bit checksums (XXH3, as libxxhash computes it): they find damage, not malice.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace ravine {

// Of a stream: pieces of any size give the same value as the whole at once.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  void update(std::span<const std::byte> bytes);
  uint64_t value() const;  // of everything since the start or the last reset
  void reset();

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

uint64_t checksum_of(std::span<const std::byte> bytes);
uint64_t checksum_of_file(const std::string& path);           // reads it all
std::string checksum_text(uint64_t value);                    // 16 hexadecimal digits
bool parse_checksum(std::string_view text, uint64_t* value);  // false if it is not what checksum_text writes

}  // namespace ravine
