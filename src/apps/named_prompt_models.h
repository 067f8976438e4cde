// The models that answer prompts: the model alone, and the model with each of its adapters. They share the weights of
// the base. Each has its own tokenizer, chat template and generation defaults, if its folder has them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/named_path.h"
#include "infer/generation_config.h"
#include "infer/prompt_model.h"
#include "io/adapter_folder.h"
#include "text/chat/chat_prompt.h"

namespace ravine {

// A model that answers prompts: the base model, or the base model with one adapter.
struct NamedPromptModel {
  std::string name;     // name of the adapter; "": the model for prompts that name none
  std::string adapter;  // folder of the adapter; "": none
  ChatPaths paths;
  std::shared_ptr<const Tokenizer> tokenizer;  // null if there is none
  std::optional<ChatPrompt> chat;              // with --chat, set by the first prompt
  const LoadedModel* loaded = nullptr;         // set by NamedPromptModels::open
  GenerationDefaults defaults;                 //
};

class NamedPromptModels {
 public:
  struct Chat {
    bool on = false;
    std::string system;
  };
  // Opens tokenizers and chat templates, no weights. `adapters`: one without a name, or several with names.
  // model.tokenizer and `chat_template` ("": not given) apply to all of them.
  NamedPromptModels(const ModelOptions& model, const std::vector<NamedPath>& adapters, const std::string& chat_template,
                    const Chat& chat);

  // Reads the adapters of `base`, which must outlive this object and stay at its address, and the generation defaults.
  // All ranks call it together.
  void open(const LoadedModel& base);

  size_t size() const { return named_models_.size(); }
  NamedPromptModel& operator[](size_t i) { return *named_models_[i]; }
  const NamedPromptModel& operator[](size_t i) const { return *named_models_[i]; }
  // Returns the index of the model with this name. Without one, a UserError names `where` and the existing names.
  size_t find(const std::string& name, const std::string& where) const;
  // Returns the model for prompts that cannot name one: the only adapter, or the base. Several adapters are a
  // UserError.
  size_t only() const;

  // Returns the conversation of the model with this index. UserErrors: no tokenizer, no chat template.
  ChatPrompt& chat(size_t named);
  // Returns the token ids of a prompt for the model with this index. UserErrors: a text that is not UTF-8, no
  // tokenizer, no chat template.
  std::vector<int32_t> encode(size_t named, const std::string& text);

 private:
  std::string folder_;   // folder of the model
  std::string foreign_;  // warning if the tokenizer is not the model's; "": none
  Chat chat_;
  std::vector<std::unique_ptr<NamedPromptModel>> named_models_;  // the first one has no name
  std::vector<std::unique_ptr<LoadedModel>> loaded_models_;      // models with adapters
};

// Adds the token that ends a turn in the chat template of `named` to the tokens that end an answer.
void end_with_template(GenerateOptions& options, const NamedPromptModel& named);

// The fix in error messages about a text that is not UTF-8.
inline constexpr const char* kToUtf8 =
    "type it in a terminal of UTF-8, or convert what is piped in: iconv -f GB18030 -t UTF-8 FILE | ravine generate .. (GB18030 is the Chinese one)";

}  // namespace ravine
