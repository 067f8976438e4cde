// Limits shared by several sections.
#pragma once

namespace ravine {

// Limits on sizes. A billion steps of one second take thirty years. The plan walks through all pieces of a rank's step.
// Counts of tokens in a micro batch have 32 bits.
inline constexpr double kMostSteps = 1e9, kMostSequences = 1 << 20, kMostMicroBatches = 1 << 16, kMostTokens = 1 << 24,
                        kMostRanks = 1 << 15, kMostLeaves = 1 << 16;
// Limits on factors of an update. In f32, the type of optimizer states, a decay rate above kMostMomentum would be 1.
inline constexpr double kMostRate = 10, kMostMomentum = 0.999999, kMostScale = 3e38;

}  // namespace ravine
