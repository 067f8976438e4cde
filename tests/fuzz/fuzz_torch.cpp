// Any bytes as a file of torch.save: refused with a UserError, or every tensor can be read.
#include "base/error.h"
#include "files/torch_file.h"
#include "scratch.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch scratch;
  try {
    const TorchStateFile file(scratch.write("x.bin", text_of(data, size)));
    for (const TensorInfo& t : file.tensors()) {
      std::vector<std::byte> all(static_cast<size_t>(t.end));
      file.read(t, 0, all);
      if (file.bytes(t).size() != all.size()) std::abort();
    }
  } catch (const UserError&) {
  }
  return 0;
}
