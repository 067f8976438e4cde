// Conversations (data/instruct/conversation.h), rendered by the template of --template or the tokenizer's template. All
// answers are learned, with their end tokens. With --append-eod, eos is appended to a conversation that does not end
// with it.
#include "data/handlers/handlers.h"
#include "data/handlers/packed.h"
#include "data/instruct/chat_encoder.h"
#include "data/sample.h"
#include "text/chat/prompt_templates.h"

namespace ravine {

namespace {

class Chat final : public PackedHandler {
 public:
  Chat(const HandlerOptions& o, ChatFormat format)
      : PackedHandler(o),
        format_(format),
        encoder_(*o.tokenizer, choose_template(o.chat_template, "", *o.tokenizer, "--template").chat, LossOn::answers) {}

 private:
  void add_sequences(const Fields& r, HandledRecord& out) const override {
    EncodedChat c = encoder_.encode(read_conversation(r.json, format_, r.where, "--handler"), r.where);
    if (c.ids.empty()) {
      out.dropped.emplace_back("without an answer to learn");
      return;
    }
    if (int32_t eos = options().append_eod ? *options().tokenizer->special().eos : c.ids.back(); eos != c.ids.back()) {
      c.ids.push_back(eos);
      c.learned.push_back(1);
    }
    std::vector<int32_t> labels;
    for (size_t i = 0; i < c.ids.size(); ++i) labels.push_back(c.learned[i] ? c.ids[i] : kIgnored);
    add(c.ids, labels, out);
  }
  ChatFormat format_;
  ChatEncoder encoder_;
};

}  // namespace

std::unique_ptr<RecordHandler> make_alpaca_chat(const HandlerOptions& options) {
  return std::make_unique<Chat>(options, ChatFormat::alpaca);
}
std::unique_ptr<RecordHandler> make_sharegpt_chat(const HandlerOptions& options) {
  return std::make_unique<Chat>(options, ChatFormat::sharegpt);
}
std::unique_ptr<RecordHandler> make_messages_chat(const HandlerOptions& options) {
  return std::make_unique<Chat>(options, ChatFormat::messages);
}

}  // namespace ravine
