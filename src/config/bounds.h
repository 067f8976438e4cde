// Bounds that options of several structs share.
#pragma once

namespace ravine {

// A billion steps of one second each take thirty years; what a step of a rank holds is planned piece by piece, and counts of
// tokens in a micro batch have 32 bits.
inline constexpr double kMostSteps = 1e9, kMostSequences = 1 << 20, kMostMicroBatches = 1 << 16, kMostTokens = 1 << 24,
                        kMostRanks = 1 << 15, kMostLeaves = 1 << 16;
// Factors of what the update does to a weight. Decay rates nearer to 1 are 1 in the f32 that moments are kept in.
inline constexpr double kMostRate = 10, kMostMomentum = 0.999999, kMostScale = 3e38;

}  // namespace ravine
