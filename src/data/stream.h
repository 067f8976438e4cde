// The interface of sample streams: the samples of one source in its order. Datasets shuffle and blend streams.
#pragma once
#include <cstdint>
#include <string>

#include "data/sample.h"

namespace ravine {

// The samples of one source. Const members are thread-safe.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  virtual int64_t count() const = 0;                // number of samples
  virtual Sample sample(int64_t i) const = 0;       // i in [0, count())
  virtual std::string origin(int64_t i) const = 0;  // file and place of the sample's data, as text for messages
  virtual int64_t token_count() const = 0;          // number of tokens of the whole source
  virtual bool ragged() const { return false; }     // true if most samples end in padding, of different lengths
  virtual PairSet pairs() const { return {}; }
};

}  // namespace ravine
