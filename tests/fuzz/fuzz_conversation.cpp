// A record of an instruction set by every form and handler: a conversation, lists of ids, or a UserError, nothing else.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "data/handlers/handlers.h"
#include "data/instruct/chat_encoder.h"
#include "text/chat/prompt_templates.h"

using namespace ravine;

namespace {

// A token per byte behind bos and eos.
class Bytes final : public Tokenizer {
 public:
  Bytes() { special_.bos = 256, special_.eos = 257; }
  std::string kind() const override { return "bytes"; }
  int64_t size() const override { return 258; }
  uint64_t fingerprint() const override { return 1; }
  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    std::vector<int32_t> ids;
    if (add_special) ids.push_back(256);
    while (!text.empty()) {
      bool eos = text.starts_with("<eos>");
      ids.push_back(eos ? 257 : static_cast<unsigned char>(text[0]));
      text.remove_prefix(eos ? 5 : 1);
    }
    return ids;
  }
  std::unique_ptr<Decoding> start_decoding(bool skip) const override { return std::make_unique<Pieces>(*this, skip); }
  std::string id_to_piece(int32_t id) const override {
    return id == 257 ? "<eos>" : id == 256 ? "<bos>" : std::string(1, static_cast<char>(id));
  }

 private:
  struct Pieces final : Decoding {
    Pieces(const Bytes& t, bool s) : bytes(t), skip(s) {}
    void feed(int32_t id, std::string& out) override {
      if (id < 256 || !skip) out += bytes.id_to_piece(id);
    }
    void finish(std::string&) override {}
    const Bytes& bytes;
    bool skip;
  };
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Bytes bytes;
  static const ChatEncoder chatml(bytes, choose_template("chatml", "", bytes, "data.chat_template").chat, LossOn::answers),
      llama2(bytes, choose_template("llama2", "", bytes, "data.chat_template").chat, LossOn::answers);
  static const auto handlers = [] {  // as preprocess has them: made once, for all records
    HandlerOptions options;
    options.tokenizer = &bytes;
    options.append_eod = true;
    options.chat_template = "default";
    std::vector<std::unique_ptr<RecordHandler>> all;
    for (const HandlerEntry& e : instruct_handlers()) all.push_back(e.make(options));
    return all;
  }();
  Record record;
  record.body.assign(reinterpret_cast<const char*>(data), size);
  for (const auto& handler : handlers) {
    HandledRecord out;
    try {
      out.lists.resize(handler->lists().size());
      handler->handle(record, out);
      for (const TokenDocument& d : out.lists)
        if (d.lengths != out.lists[0].lengths) __builtin_trap();
    } catch (const UserError&) {
    }
  }
  for (ChatFormat f : {ChatFormat::alpaca, ChatFormat::sharegpt, ChatFormat::messages})
    for (const ChatEncoder* encoder : {&chatml, &llama2}) {
      try {
        EncodedChat e = encoder->encode(read_conversation(parse_json(record.body, "fuzz"), f, "fuzz"), "fuzz");
        if (e.ids.size() != e.learned.size() || (!e.learned.empty() && e.learned.back() != 1)) __builtin_trap();
      } catch (const UserError&) {
      }
    }
  return 0;
}
