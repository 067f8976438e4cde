// Experts divided over ranks (Lepikhin et al. 2020): of E experts rank r of S has [r E/S, (r+1) E/S). Each row is sent
// to the rank of its expert, and the result is sent back, by all-to-all. The messages have the sizes that routing
// gives.
#pragma once
#include "engine/ops/router.h"

namespace ravine {

// Sends rows between the ranks that divide the experts. The constructor exchanges row counts and sends the rows'
// weights. All expert ranks construct theirs together, each for its own micro batch. A rank may have no rows for
// another rank, or no rows at all. With one rank nothing is sent.
//
// Memory is planned for the largest case (kernels/routing.h): all rows of every rank, or the capacity of the local
// experts. Only the received rows are computed, kept and sent. On the meta device messages are counted at even load.
class ExpertRanks {
 public:
  ExpertRanks(Ctx& c, const Routes& routes, const Routing& routing);

  // Returns the rows that this rank's experts compute after the exchange: the rows from rank 0 by expert, then from
  // rank 1, and so on.
  const Routes& here() const { return here_; }
  Tensor to_owners(Ctx& c, Tensor rows) const;    // sends rows to their experts: [R,C] -> [rows that are here, C]
  Tensor from_owners(Ctx& c, Tensor rows) const;  // sends them back; rows behind the last sent row are zero

 private:
  struct Moves {
    std::vector<int64_t> sent, received;  // rows to and from each rank, as the messages count them
    int64_t rows = 0, rows_here = 0;      // rows of the tensors on both sides
  };
  static Tensor move(Ctx& c, const Tensor& x, const Moves& moves, bool there);
  static Tensor recorded(Ctx& c, Tensor rows, const Moves& moves, bool there);

  bool alone_;
  Moves moves_;
  Routes here_;
};

}  // namespace ravine
