// Experts divided over ranks (Lepikhin et al. 2020): of E experts rank r of S has [r E/S, (r+1) E/S). Rows go to the rank of their
// expert, and what comes of them back, by all-to-all with pieces of the size that routing gave them.
#pragma once
#include "engine/ops/router.h"

namespace ravine {

// Agrees with the other expert ranks on who sends how many rows, and sends the weights of rows along. All of them make theirs
// together, each of a micro batch of its own; one may have no rows for another, or none at all. With one rank nothing moves.
//
// Memory is planned for the most that can come (kernels/routing.h): all rows of every rank, or as many as the capacity of the
// experts that are here; what a step computes, keeps and sends is what came. On meta messages are counted at even load.
class ExpertRanks {
 public:
  ExpertRanks(Ctx& c, const Routes& routes, const Routing& routing);

  // Rows that are here now: those from rank 0, by expert, then those from rank 1, ..
  const Routes& here() const { return here_; }
  Tensor to_owners(Ctx& c, Tensor rows) const;    // [R,C] -> [rows that are here, C]
  Tensor from_owners(Ctx& c, Tensor rows) const;  // and back; zero behind the rows that were sent

 private:
  struct Moves {
    std::vector<int64_t> sent, received;  // rows to and from each rank, as messages count them
    int64_t rows = 0, rows_here = 0;      // of the tensors on both sides
  };
  static Tensor move(Ctx& c, const Tensor& x, const Moves& moves, bool there);
  static Tensor recorded(Ctx& c, Tensor rows, const Moves& moves, bool there);

  bool alone_;
  Moves moves_;
  Routes here_;
};

}  // namespace ravine
