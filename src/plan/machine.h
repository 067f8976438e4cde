// The peak rates of this machine. Each peak is measured until the results repeat, and kept in the user's cache folder.
// For reports and plans only: no result that changes bits may depend on them (kernels/cpu_id.h).
#pragma once
#include <optional>
#include <string>

#include "base/dtype.h"
#include "comm/ranks.h"
#include "kernels/peaks.h"
#include "model/model.h"
#include "plan/messages.h"

namespace ravine {

// The peaks to return. Memory rates need half a gigabyte to measure: with `arithmetic` they are 0 if they are not
// cached.
enum class Peaks : uint8_t { arithmetic, all };

// Returns the peaks for the current number of threads. Measures them if the cache has none for this CPU, program
// version and thread count. Peaks that are not sure are measured again when nothing else runs; if they are still not
// sure, the larger value is used.
MachinePeaks machine_peaks(Peaks what = Peaks::all, bool measure_again = false);
// Returns the peaks of the cache, without measuring; empty: none.
std::optional<MachinePeaks> known_machine_peaks(Peaks what = Peaks::all);
// Returns the peak FLOP/s of products of all ranks together in this type, from a measurement of the first rank. Ranks
// of a host that share cores count the cores once. `local`: ranks of this host. All ranks call it together and get the
// same.
double peak_of_ranks(const Ranks& ranks, int local, DType compute);
// Raises the peak, because all ranks have reached `reached` FLOP/s in this type, so the peak was measured too low. The
// new value is kept as not sure, so the next run measures again. Called by one rank.
void raise_peak_of_ranks(const Ranks& ranks, int local, DType compute, double reached);
void raise_peak(DType compute, double reached);  // for this process alone
// True if a step computes all FLOPs of Model::training_flops_per_token: frozen weights below the first trained one have
// no backward pass. Only such a step may raise a peak.
bool counts_every_flop(const Model& model);
// Returns typical rates of products and memory, used if nothing was measured.
MachinePeaks usual_machine();
// Returns the message rates between `ranks` ranks of this machine, measured by `bench messages`; empty: not measured.
std::optional<MessageRates> known_message_rates(int ranks);
std::string keep_message_rates(const MessageRates& rates);  // returns "", or the reason why the rates are not kept
// Returns the share of the peaks that steps reach (step_share.h), measured by `bench machine` for the current number of
// threads, or for another one; empty: not measured.
std::optional<double> known_step_share();
std::string keep_step_share(double share);  // returns "", or the reason why share and peaks are not kept
std::string cpu_name();

}  // namespace ravine
