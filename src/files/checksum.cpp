#include "files/checksum.h"

#include <xxhash.h>

#include <charconv>
#include <vector>

#include "files/fd.h"

namespace ravine {

void Checksum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Checksum::Checksum() : state_(XXH3_createState()) {
  require(state_ != nullptr, "checksum: out of memory");
  reset();
}
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}
uint64_t Checksum::value() const { return XXH3_64bits_digest(state_.get()); }
void Checksum::reset() { XXH3_64bits_reset(state_.get()); }

uint64_t checksum_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

uint64_t checksum_of_file(const std::string& path) {
  int64_t size;
  Fd fd = open_to_read(path, &size);
  std::vector<std::byte> buffer(size_t{1} << 20);
  Checksum sum;
  while (size_t n = read_some(*fd, buffer, path)) sum.update(std::span(buffer).first(n));
  return sum.value();
}

std::string checksum_text(uint64_t value) { return fmt::format("{:016x}", value); }

bool parse_checksum(std::string_view text, uint64_t* value) {
  if (text.size() != 16) return false;
  auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), *value, 16);
  return code == std::errc{} && stop == text.data() + text.size();
}

}  // namespace ravine
