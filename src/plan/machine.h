// What this machine can do at most, measured until it repeats and kept in the user's cache folder. For figures and plans that people read;
// nothing that changes bits may follow from it (kernels/cpu_id.h).
#pragma once
#include <optional>
#include <string>

#include "base/dtype.h"
#include "comm/ranks.h"
#include "kernels/peaks.h"
#include "model/model.h"
#include "plan/messages.h"

namespace ravine {

// Rates of memory take half a gigabyte to measure, so a run that wants FLOP/s only does not ask for them: they are 0 then if
// not known.
enum class Peaks : uint8_t { arithmetic, all };

// Peaks for the present number of threads; measured if the cache has none for this CPU, program version and thread count. Those
// that are not sure are measured again as soon as nothing else runs; where they are not sure then either, the larger count.
MachinePeaks machine_peaks(Peaks what = Peaks::all, bool measure_again = false);
std::optional<MachinePeaks> known_machine_peaks(
    Peaks what = Peaks::all);  // those of the cache, never measured; nothing if there are none
// FLOP/s of products that all ranks together reach at most, in this type, by what the first measures; ranks of a host that
// share cores have them once. `local`: ranks of this host. All ranks call it and get the same.
double peak_of_ranks(const Ranks& ranks, int local, DType compute);
// Work has reached `reached` FLOP/s of all ranks in this type, more than the peak: it was measured too low. The larger value is
// kept, and is not sure, so the next run measures. For one rank to call.
void raise_peak_of_ranks(const Ranks& ranks, int local, DType compute, double reached);
void raise_peak(DType compute, double reached);  // of this process alone
// True if a step computes all that Model::training_flops_per_token counts: frozen weights below the first that learns have no
// backward pass. Only then may a step raise a peak.
bool counts_every_flop(const Model& model);
// What is reckoned with where nothing was measured: a usual balance of products to memory.
MachinePeaks usual_machine();
// Of messages between so many ranks of this machine, as `bench messages` measured them; nothing if it did not.
std::optional<MessageRates> known_message_rates(int ranks);
std::string keep_message_rates(const MessageRates& rates);  // "", or why they are not kept
// The share of such peaks that steps reach here (step_share.h), as `bench machine` measured it for the present number of
// threads or any other.
std::optional<double> known_step_share();
std::string keep_step_share(double share);  // "", or why it and the peaks are not kept
std::string cpu_name();

}  // namespace ravine
