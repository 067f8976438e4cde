#include "io/adapter_source.h"

#include "files/tensor_set.h"
#include "io/adapter_folder.h"
#include "io/convert/elements_file.h"
#include "io/convert/megatron_adapter.h"
#include "io/convert/megatron_place.h"
#include "io/open_weights.h"

namespace ravine {

AdapterSource open_adapter(const std::string& folder, const Model& base) {
  check_adapter_folder(folder, "adapter");
  AdapterSource out;
  if (is_megatron_folder(folder)) {
    Weights adapter = read_megatron_adapter(folder, base.config(), "the base's config.json");
    out.config = std::move(adapter.config), out.config_file = folder;
    out.files.push_back(std::make_unique<ElementsFile>(folder, std::move(adapter.tensors)));
    return out;
  }
  const auto adapter = find_adapter(folder);
  check_export(folder, false);
  out.config = adapter_config(*adapter), out.config_file = adapter->config_file;
  out.files.push_back(open_tensor_file(adapter->weights_file));
  return out;
}

}  // namespace ravine
