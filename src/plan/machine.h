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

// Selects the peaks to return. arithmetic: FLOP/s of products only; memory rates are returned if they are cached, else
// 0. all: memory rates too, whose measurement needs half a gigabyte.
enum class Peaks : uint8_t { arithmetic, all };

// Returns the peak rates of this machine for the current number of threads. Measures them if the cache has none for
// this CPU, program version and thread count, or if `measure_again`. Peaks that are not sure are measured again when
// nothing else runs; if they are still not sure, the larger value is used.
MachinePeaks machine_peaks(Peaks what = Peaks::all, bool measure_again = false);
// Returns the peak rates of this machine from the cache, without measuring; empty if the cache has none.
std::optional<MachinePeaks> known_machine_peaks(Peaks what = Peaks::all);
// Returns the peak FLOP/s of products of all ranks together in this type, from a measurement of the first rank. Ranks
// of a host that share cores count the cores once. `local`: ranks of this host. All ranks call it together and get the
// same.
double peak_of_ranks(const Ranks& ranks, int local, DType compute);
// Raises the cached peak FLOP/s of this machine for a type, because a step of all ranks has reached `reached` FLOP/s,
// more than the measured peak. The new value is kept as not sure, so the next run measures again. `local`: ranks of
// this host. Called by one rank.
void raise_peak_of_ranks(const Ranks& ranks, int local, DType compute, double reached);
void raise_peak(DType compute, double reached);  // for this process alone
// True if every parameter of the model is trained. A step then computes all FLOPs of Model::training_flops_per_token;
// frozen weights below the first trained one have no backward pass. Only such a step may raise a peak.
bool counts_every_flop(const Model& model);
// Returns typical rates of products and memory, used if nothing was measured.
MachinePeaks usual_machine();
// Returns the cached times of messages between `ranks` ranks of this machine, measured by `bench messages`; empty: not
// measured.
std::optional<MessageRates> known_message_rates(int ranks);
std::string keep_message_rates(const MessageRates& rates);  // returns "", or the reason why the rates are not kept
// Returns the share of the peaks that steps reach (step_share.h), measured by `bench machine` for the current number of
// threads, or else for another number; empty: not measured.
std::optional<double> known_step_share();
std::string keep_step_share(double share);  // returns "", or the reason why share and peaks are not kept
std::string cpu_name();

}  // namespace ravine
