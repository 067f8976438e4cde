#include "probe/producers.h"

namespace ravine {

Producers::Producers(const std::vector<DumpRecord>& records) : records_(records) {
  for (size_t i = 0; i < records.size(); ++i)
    if (records[i].output && records[i].op != kStateOp && records[i].op != kGradientOp)
      written_[records[i].figures.positional].push_back(i);
}

const DumpRecord* Producers::of(const DumpRecord& reader) const {
  const auto found = written_.find(reader.figures.positional);
  if (found == written_.end()) return nullptr;
  const auto at = static_cast<size_t>(&reader - records_.data());
  for (auto i = found->second.rbegin(); i != found->second.rend(); ++i)
    if (*i < at && records_[*i].call() != reader.call()) return &records_[*i];
  return nullptr;
}

}  // namespace ravine
