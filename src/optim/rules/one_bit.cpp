#include "optim/rules/one_bit.h"

#include <cmath>
#include <numeric>

#include "optim/rules/tensor_parts.h"

namespace ravine {
namespace {

// Gathers the scales of all ranks of the group. Host work: one number of each.
std::vector<double> scales_of_all(const Group& group, const CompressionRoom& room, double mine) {
  const TensorView one = room.scale.view(), all = room.scales.view();
  const bool wide = one.dtype == DType::f64;
  if (one.data && wide) one.as<double>()[0] = mine;
  if (one.data && !wide) one.as<float>()[0] = static_cast<float>(mine);
  group.all_gather(one.data, all.data, size_of(one.dtype)).wait();
  std::vector<double> out(static_cast<size_t>(group.size()));
  for (size_t r = 0; one.data && r < out.size(); ++r)
    out[r] = wide ? all.as<double>()[r] : static_cast<double>(all.as<float>()[r]);
  return out;
}

// Packs the signs of x into bits, leaves the error in x, and returns the scale.
double pack(Ctx& c, const TensorView& x, const TensorView& bits) {
  const double scale = root_mean_square(c, x);
  c.call(PackSigns{.x = x, .bits = bits, .scale = scale});
  return scale;
}

}  // namespace

int64_t padded_count(int64_t count, int ranks) {
  const int64_t step = ranks * std::lcm<int64_t>(ranks, 8);
  return ceil_div(count, step) * step;
}

int64_t error_count(int64_t count, int ranks) {
  return ranks == 1 ? 0 : padded_count(count, ranks) + padded_count(count, ranks) / ranks;
}

TensorView stretch(const TensorView& v, int64_t begin, int64_t count) {
  return view_of(v.data ? v.as<std::byte>() + begin * size_of(v.dtype) : nullptr, v.dtype, {count}, v.device);
}

CompressionRoom::CompressionRoom(Ctx& c, int64_t count, int ranks, DType type) {
  if (ranks == 1) return;
  const int64_t all = padded_count(count, ranks);
  bits = c.empty({all / 8}, DType::u8, MemoryKind::workspace), got = c.empty({all / 8}, DType::u8, MemoryKind::workspace);
  mean = c.empty({all}, type, MemoryKind::workspace);
  scale = c.empty({1}, type, MemoryKind::workspace), scales = c.empty({ranks}, type, MemoryKind::workspace);
}

void compressed_mean(Ctx& c, const Group& group, const CompressionRoom& room, const TensorView& x, const TensorView& errors,
                     const TensorView& padding) {
  const int64_t ranks = group.size(), count = x.count();
  if (ranks == 1) return;
  const int64_t all = padded_count(count, group.size()), chunk = all / ranks, bytes = chunk / 8;
  const TensorView worker = stretch(errors, 0, all), server = stretch(errors, all, chunk);
  c.call(WeightedSum{.y = stretch(worker, 0, count), .x = stretch(x, 0, count)});
  if (!padding.absent() && all > count) c.call(WeightedSum{.y = stretch(worker, count, all - count), .x = padding});

  const TensorView bits = room.bits.view(), got = room.got.view(), mean = room.mean.view();
  std::vector<double> scales = scales_of_all(group, room, pack(c, worker, bits));
  group.all_to_all(bits.data, got.data, bytes).wait();
  for (int64_t r = 0; r < ranks; ++r)
    c.call(UnpackSigns{.bits = stretch(got, r * bytes, bytes),
                       .out = stretch(mean, 0, chunk),
                       .scale = scales[static_cast<size_t>(r)] / static_cast<double>(ranks),
                       .accumulate = r > 0});
  c.call(WeightedSum{.y = server, .x = stretch(mean, 0, chunk)});

  const TensorView mine = stretch(bits, 0, bytes);
  scales = scales_of_all(group, room, pack(c, server, mine));
  group.all_gather(mine.data, got.data, bytes).wait();
  for (int64_t r = 0; r < ranks; ++r)
    c.call(UnpackSigns{.bits = stretch(got, r * bytes, bytes),
                       .out = stretch(mean, r * chunk, chunk),
                       .scale = scales[static_cast<size_t>(r)]});
  c.call(Cast{stretch(mean, 0, count), stretch(x, 0, count)});
  if (!padding.absent() && all > count) c.call(Cast{stretch(mean, count, all - count), padding});
}

}  // namespace ravine
