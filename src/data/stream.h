// Samples of one source in its own order; datasets shuffle and blend streams.
#pragma once
#include <cstdint>
#include <string>

#include "data/sample.h"

namespace ravine {

// Const members may be called by several threads.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  virtual int64_t count() const = 0;
  virtual Sample sample(int64_t i) const = 0;       // i in [0, count())
  virtual std::string origin(int64_t i) const = 0;  // where it comes from, for people
  virtual int64_t token_count() const = 0;          // of the whole source
  virtual bool ragged() const { return false; }     // samples end in padding of different length, as the rule
  virtual PairSet pairs() const { return {}; }
};

}  // namespace ravine
