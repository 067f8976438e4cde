#include "train/check_reference.h"

#include "io/huggingface.h"
#include "io/model_folder.h"
#include "io/stored_model.h"
#include "model/same_model.h"
#include "runs/open.h"

namespace ravine {

void check_reference(const Config& c, const Model& model) {
  const std::string& folder = c.dpo.reference;
  if (folder.empty()) return;
  check_model_folder(folder, "dpo.reference");
  const std::unique_ptr<Model> reference = open_stored_model(folder), own = make_model(model.config(), "config.json");
  if (!same_model(*reference, *own))
    throw UserError(
        "the reference is another model", fmt::format("dpo.reference={}", folder),
        "the reference must have the same shape as the trained model",
        "name a folder whose config.json is like the model's, such as the weights before or after another training");
  check_weights(folder, model);
}

}  // namespace ravine
