#include "parallel/replicas.h"

#include <algorithm>

namespace ravine {
namespace {

struct ReplicatedRun {
  int64_t begin = 0, end = 0;  // elements of the bucket
  int replicas = 1;
};

// Returns the replicated runs of the bucket within `range`. Contiguous spans are one message.
std::vector<ReplicatedRun> replicated_runs(const Bucket& bucket, Range range, int ranks) {
  std::vector<ReplicatedRun> out;
  for (const Bucket::Span& s : bucket.spans) {
    const int replicas = replicas_of(*s.param, ranks);
    ReplicatedRun p{std::max(s.begin, range.begin), std::min(s.begin + s.shape.count(), range.begin + range.count), replicas};
    if (replicas == 1 || p.begin >= p.end) continue;
    if (!out.empty() && out.back().end == p.begin && out.back().replicas == replicas)
      out.back().end = p.end;
    else
      out.push_back(p);
  }
  return out;
}

}  // namespace

void sum_replicas(Ctx& c, const Group& tensor, const Bucket& bucket, Range range, const TensorView& grad) {
  if (tensor.size() == 1 || !bucket.cut || grad.absent()) return;
  auto piece = [](const TensorView& v, int64_t begin, int64_t count) {
    return view_of(v.data ? v.as<std::byte>() + begin * size_of(v.dtype) : nullptr, v.dtype, {count}, v.device);
  };
  for (const ReplicatedRun& p : replicated_runs(bucket, range, tensor.size())) {
    const int64_t count = p.end - p.begin, bytes = count * size_of(grad.dtype);
    const int first = tensor.rank() / p.replicas * p.replicas;
    const TensorView local = piece(grad, p.begin - range.begin, count);
    Tensor all = c.empty({p.replicas * count}, grad.dtype, MemoryKind::workspace);
    {
      std::vector<Pending> moves;
      for (int i = 0; i < p.replicas; ++i) {
        const TensorView slot = piece(all.view(), i * count, count);
        if (first + i == tensor.rank()) {
          c.call(Cast{local, slot});
          continue;
        }
        moves.push_back(tensor.receive(slot.data, bytes, first + i));
        moves.push_back(tensor.send(local.data, bytes, first + i));
      }
    }  // ~Pending waits
    for (int stride = 1; stride < p.replicas; stride *= 2)
      for (int i = 0; i + stride < p.replicas; i += 2 * stride) {
        const TensorView a = piece(all.view(), i * count, count);
        c.call(Add{a, piece(all.view(), (i + stride) * count, count), a});
      }
    c.call(Cast{piece(all.view(), 0, count), local});
  }
}

}  // namespace ravine
