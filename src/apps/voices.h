// Who answers prompts: the model alone, and the model with each of its adapters. They share the base's weights; each has its
// own tokenizer, chat template and generation defaults, where its folder has some.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/named_path.h"
#include "infer/generation_config.h"
#include "infer/speaker.h"
#include "io/adapter_folder.h"
#include "text/chat/chat_prompt.h"

namespace ravine {

struct Voice {
  std::string name;     // of the adapter; "": what prompts that ask for none are given to
  std::string adapter;  // its folder; "": none
  TalkPlaces talk;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: none lies there
  std::optional<ChatPrompt> chat;              // with --chat, from its first prompt on
  const Session* session = nullptr;            // from Voices::open on
  GenerationDefaults defaults;                 //
};

class Voices {
 public:
  struct Chat {
    bool on = false;
    std::string system;
  };
  // `adapters`: one without a name, or several with names. model.tokenizer and `chat_template` ("": not given) count for all
  // voices. Opens tokenizers and templates, no weights.
  Voices(const ModelOptions& model, const std::vector<NamedPath>& adapters, const std::string& chat_template, const Chat& chat);

  // Reads the adapters beside `base`, which must outlive this and stay where it is, and the defaults of generation. All ranks
  // call it.
  void open(const Session& base);

  size_t size() const { return voices_.size(); }
  Voice& operator[](size_t i) { return *voices_[i]; }
  const Voice& operator[](size_t i) const { return *voices_[i]; }
  // The voice of this name. None: a UserError that names `where`, and the names there are.
  size_t find(const std::string& name, const std::string& where) const;
  // The voice of prompts that cannot name one: the one adapter that there is; of several a UserError asks for --use.
  size_t only() const;

  // The conversation of this voice, and the ids of a prompt of it. A text that is no UTF-8, no tokenizer to make ids of it, or
  // no template are UserErrors.
  ChatPrompt& chat(size_t voice);
  std::vector<int32_t> encode(size_t voice, const std::string& text);

 private:
  std::string folder_;   // of the model
  std::string foreign_;  // what is to be said of a tokenizer that is not the model's
  Chat chat_;
  std::vector<std::unique_ptr<Voice>> voices_;      // first the one without a name
  std::vector<std::unique_ptr<Session>> sessions_;  // beside the base's
};

// The end token of the voice's chat template ends its answers too.
void end_with_template(GenerateOptions& options, const Voice& voice);

// What to do about text that is not UTF-8.
inline constexpr const char* kToUtf8 =
    "type it in a terminal of UTF-8, or convert what is piped in: iconv -f GB18030 -t UTF-8 FILE | ravine generate .. (GB18030 is the Chinese one)";

}  // namespace ravine
