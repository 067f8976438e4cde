// Tensors of a dump's files, by its records.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "probe/foreign_tensor.h"

namespace ravine {

class StoredDump {
 public:
  explicit StoredDump(std::string folder) : folder_(std::move(folder)), tensors_(folder_) {}
  // Valid until the next call. A file that is not as the log says is a UserError.
  std::span<const std::byte> bytes(const DumpRecord& r);
  // The system begins to read the files of a tensor that is soon asked for. A hint: what cannot be opened is said by bytes().
  void will_read(const DumpRecord& r);

 private:
  void will_read(const std::string& file);
  std::span<const std::byte> part(const StoredPart& p, const DumpRecord& r);

  std::string folder_, asked_;
  StoredTensors tensors_;
  std::vector<std::byte> joined_;
};

}  // namespace ravine
