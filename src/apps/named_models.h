// Models that answer prompts: the model alone, and the model with each of its adapters. They share the base's weights; each has its
// own tokenizer, chat template and generation defaults, where its folder has some.
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

struct NamedModel {
  std::string name;     // of the adapter; "": what prompts that ask for none are given to
  std::string adapter;  // its folder; "": none
  TalkPlaces talk;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: none lies there
  std::optional<ChatPrompt> chat;              // with --chat, from its first prompt on
  const LoadedModel* loaded = nullptr;         // from NamedModels::open on
  GenerationDefaults defaults;                 //
};

class NamedModels {
 public:
  struct Chat {
    bool on = false;
    std::string system;
  };
  // `adapters`: one without a name, or several with names. model.tokenizer and `chat_template` ("": not given) count for all
  // of them. Opens tokenizers and templates, no weights.
  NamedModels(const ModelOptions& model, const std::vector<NamedPath>& adapters, const std::string& chat_template,
              const Chat& chat);

  // Reads the adapters beside `base`, which must outlive this and stay where it is, and the defaults of generation. All ranks
  // call it.
  void open(const LoadedModel& base);

  size_t size() const { return named_models_.size(); }
  NamedModel& operator[](size_t i) { return *named_models_[i]; }
  const NamedModel& operator[](size_t i) const { return *named_models_[i]; }
  // The model of this name. None: a UserError that names `where`, and the names there are.
  size_t find(const std::string& name, const std::string& where) const;
  // The model of prompts that cannot name one: the one adapter that there is; of several a UserError asks for --use.
  size_t only() const;

  // The conversation of this model, and the ids of a prompt of it. A text that is no UTF-8, no tokenizer to make ids of it, or
  // no template are UserErrors.
  ChatPrompt& chat(size_t named);
  std::vector<int32_t> encode(size_t named, const std::string& text);

 private:
  std::string folder_;   // of the model
  std::string foreign_;  // what is to be said of a tokenizer that is not the model's
  Chat chat_;
  std::vector<std::unique_ptr<NamedModel>> named_models_;    // first the one without a name
  std::vector<std::unique_ptr<LoadedModel>> loaded_models_;  // beside the base's
};

// The end token of the model's chat template ends its answers too.
void end_with_template(GenerateOptions& options, const NamedModel& named);

// What to do about text that is not UTF-8.
inline constexpr const char* kToUtf8 =
    "type it in a terminal of UTF-8, or convert what is piped in: iconv -f GB18030 -t UTF-8 FILE | ravine generate .. (GB18030 is the Chinese one)";

}  // namespace ravine
