// What this machine can do at most, measured once and kept in the user's cache folder.
#pragma once
#include <optional>
#include <string>

#include "kernels/kernels.h"

namespace ravine {

// Peaks for the present number of threads; measured if the cache has none for this CPU, program version and thread count.
MachinePeaks machine_peaks(bool measure_again = false);
std::optional<MachinePeaks> known_machine_peaks();  // those of the cache, never measured; nothing if there are none
std::string cpu_name();

}  // namespace ravine
