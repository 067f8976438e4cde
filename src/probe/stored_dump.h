// The stored tensors of a dump, by record.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "probe/foreign_tensor.h"

namespace ravine {

class StoredDump {
 public:
  explicit StoredDump(std::string folder) : folder_(std::move(folder)), tensors_(folder_) {}
  // Returns the bytes of a record's tensor, valid until the next call. A file with another type or size than the record
  // is a UserError.
  std::span<const std::byte> bytes(const DumpRecord& r);
  // Asks the system to read the files of a tensor that bytes() will need soon. It never fails: bytes() reports errors.
  void will_read(const DumpRecord& r);

 private:
  void will_read(const std::string& file);
  std::span<const std::byte> part(const StoredPart& p, const DumpRecord& r);

  std::string folder_, opened_;
  StoredTensors tensors_;
  std::vector<std::byte> joined_;
};

}  // namespace ravine
