#include "base/lfs_pointer.h"

#include "base/error.h"

namespace ravine {

void refuse_lfs_pointer(std::string_view bytes, const std::string& path) {
  if (bytes.starts_with("version https://git-lfs.github.com/spec/"))
    throw UserError("a pointer of Git LFS, not the file", path, "it holds the address of the file and none of its data",
                    "run `git lfs install` and `git lfs pull` in its folder, or download the file itself");
}

}  // namespace ravine
