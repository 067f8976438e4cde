// 64-bit checksums (XXH3, computed by libxxhash). They detect damage, not manipulation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace ravine {

// The checksum of a stream. The value does not depend on how the stream is split into pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  void update(std::span<const std::byte> bytes);
  uint64_t value() const;  // checksum of all bytes since the start or the last reset()
  void reset();

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

uint64_t checksum_of(std::span<const std::byte> bytes);
uint64_t checksum_of_file(const std::string& path);           // reads the whole file
std::string checksum_text(uint64_t value);                    // 16 hexadecimal digits
bool parse_checksum(std::string_view text, uint64_t* value);  // reads a text of checksum_text; false: any other text

}  // namespace ravine
