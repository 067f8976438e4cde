#include "optim/rules/one_bit.h"

#include <cmath>
#include <numeric>

#include "optim/rules/tensor_parts.h"

namespace ravine {
namespace {

// A scale of each rank of the group, in the type in which it is sent. Host work: one number of each.
std::vector<double> scales_of_all(Ctx& c, const Group& group, double mine, DType type) {
  const Tensor one = c.empty({1}, type, MemoryKind::workspace), all = c.empty({group.size()}, type, MemoryKind::workspace);
  const bool real = one.view().data != nullptr;
  if (real && type == DType::f64) one.view().as<double>()[0] = mine;
  if (real && type == DType::f32) one.view().as<float>()[0] = static_cast<float>(mine);
  group.all_gather(one.view().data, all.view().data, size_of(type)).wait();
  std::vector<double> out(static_cast<size_t>(group.size()));
  for (size_t r = 0; real && r < out.size(); ++r)
    out[r] = type == DType::f64 ? all.view().as<double>()[r] : static_cast<double>(all.view().as<float>()[r]);
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

void compressed_mean(Ctx& c, const Group& group, const TensorView& x, const TensorView& errors, const TensorView& padding) {
  const int64_t ranks = group.size(), count = x.count();
  if (ranks == 1) return;
  const int64_t all = padded_count(count, group.size()), chunk = all / ranks, bytes = chunk / 8;
  const TensorView worker = stretch(errors, 0, all), server = stretch(errors, all, chunk);
  c.call(Blend{.y = stretch(worker, 0, count), .x = stretch(x, 0, count)});
  if (!padding.absent() && all > count) c.call(Blend{.y = stretch(worker, count, all - count), .x = padding});

  const Tensor bits = c.empty({ranks * bytes}, DType::u8, MemoryKind::workspace), got = like(c, bits.view());
  std::vector<double> scales = scales_of_all(c, group, pack(c, worker, bits.view()), x.dtype);
  group.all_to_all(bits.view().data, got.view().data, bytes).wait();
  const Tensor mean = c.empty({all}, x.dtype, MemoryKind::workspace);
  for (int64_t r = 0; r < ranks; ++r)
    c.call(UnpackSigns{.bits = stretch(got.view(), r * bytes, bytes),
                       .out = stretch(mean.view(), 0, chunk),
                       .scale = scales[static_cast<size_t>(r)] / static_cast<double>(ranks),
                       .accumulate = r > 0});
  c.call(Blend{.y = server, .x = stretch(mean.view(), 0, chunk)});

  const TensorView mine = stretch(bits.view(), 0, bytes);
  scales = scales_of_all(c, group, pack(c, server, mine), x.dtype);
  group.all_gather(mine.data, got.view().data, bytes).wait();
  for (int64_t r = 0; r < ranks; ++r)
    c.call(UnpackSigns{.bits = stretch(got.view(), r * bytes, bytes),
                       .out = stretch(mean.view(), r * chunk, chunk),
                       .scale = scales[static_cast<size_t>(r)]});
  c.call(Cast{stretch(mean.view(), 0, count), stretch(x, 0, count)});
  if (!padding.absent() && all > count) c.call(Cast{stretch(mean.view(), count, all - count), padding});
}

}  // namespace ravine
