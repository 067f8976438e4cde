#include "io/convert/torch_random.h"

#include <array>
#include <cstring>

namespace ravine {
namespace {

constexpr size_t kWords = 624;

// Matsumoto and Nishimura's init_genrand, as in torch's mt19937.
std::array<uint32_t, kWords> seeded(uint32_t seed) {
  std::array<uint32_t, kWords> out{};
  out[0] = seed;
  for (uint32_t i = 1; i < kWords; ++i) out[i] = 1812433253U * (out[i - 1] ^ (out[i - 1] >> 30)) + i;
  return out;
}

// Source: ATen/CPUGeneratorImpl.cpp, CPUGeneratorImplState.
struct TorchState {
  uint64_t seed = 0;
  int32_t left = 1, seeded = 1;
  uint64_t next = 0;
  uint64_t state[kWords] = {};
  double normal_x = 0, normal_y = 0, normal_rho = 0;
  int32_t normal_is_valid = 0, padding = 0;
  float next_float_normal = 0;
  int32_t next_float_normal_is_valid = 0;
};
static_assert(sizeof(TorchState) == 5056);

}  // namespace

void put_random_states(TorchFields& w, uint32_t seed) {
  const auto words = seeded(seed);
  w.out.begin_dict();
  w.key("python"), w.out.begin_tuple();
  w.out.integer(3), w.out.begin_tuple();
  for (uint32_t x : words) w.out.integer(x);
  w.out.integer(kWords), w.out.end();
  w.out.none(), w.out.end();
  w.key("numpy"), w.out.begin_tuple();
  w.out.text("MT19937"), w.out.begin_list();
  for (uint32_t x : words) w.out.integer(x);
  w.out.end();
  w.out.integer(kWords), w.out.integer(0), w.out.real(0), w.out.end();
  TorchState state{.seed = seed};
  for (size_t i = 0; i < kWords; ++i) state.state[i] = words[i];
  std::vector<std::byte> bytes(sizeof(state));
  std::memcpy(bytes.data(), &state, sizeof(state));
  const Shape shape{static_cast<int64_t>(bytes.size())};
  w.key("cpu"), w.tensor(in_memory(DType::u8, shape, std::move(bytes)), DType::u8);
  w.out.end();
}

}  // namespace ravine
