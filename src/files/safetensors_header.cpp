#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "files/safetensors.h"

namespace ravine {
namespace {

constexpr const char* kReplace = "download or export the file again";

[[noreturn]] void refuse_header(const std::string& what, const std::string& where, const std::string& rule) {
  throw UserError(what, where, rule, kReplace);
}

// Receives the header's JSON as parser events. Only the expected fields are stored: size and depth of a hostile header
// do not matter.
class Events : public nlohmann::json_sax<nlohmann::json> {
 public:
  Events(SafetensorsHeader& header, const std::string& where) : header_(header), where_(where) {}

  bool null() override {  // the reference library accepts null as metadata
    return passed_over() || (state_ == State::top && key_ == "__metadata__") || unexpected("null");
  }
  bool boolean(bool) override { return passed_over() || unexpected("a boolean"); }
  bool number_integer(number_integer_t v) override { return number(v); }
  bool number_unsigned(number_unsigned_t v) override {
    if (passed_over()) return true;
    if (v > static_cast<uint64_t>(INT64_MAX)) wrong(fmt::format("sizes and offsets fit 63 bits, got {}", v));
    return number(static_cast<int64_t>(v));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return passed_over() || unexpected("the number " + text.substr(0, 40));
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool string(string_t& text) override {
    if (passed_over()) return true;
    if (state_ == State::metadata) {
      header_.metadata[key_] = text;
    } else if (state_ == State::tensor && key_ == "dtype") {
      dtype_ = parse_dtype(text);
      if (!dtype_ || file_name(*dtype_) != text)
        wrong(fmt::format("dtype is one of F64 F32 BF16 F16 I64 I32 I16 I8 U8 BOOL, got '{}'", printable(text)));
    } else {
      return unexpected("a string");
    }
    return true;
  }

  bool start_object(size_t) override {
    if (passed_over()) return ++depth_, true;
    if (state_ == State::start) {
      state_ = State::top;
    } else if (state_ == State::top && key_ == "__metadata__") {
      state_ = State::metadata;
    } else if (state_ == State::top) {
      state_ = State::tensor;
      tensor_ = {};
      tensor_.name = key_;
      dtype_.reset();
      has_shape_ = false;
      offsets_.reset();
      keys_.clear();
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(string_t& text) override {
    if (depth_ > 0) return true;
    if (state_ == State::top) {
      if (!names_.insert(text).second) refuse_header("bad safetensors header", name_of(text), "the name occurs twice");
    } else if (state_ == State::tensor) {
      if (is_field(text) && std::find(keys_.begin(), keys_.end(), text) != keys_.end())
        wrong(fmt::format("field '{}' occurs twice", text));
      if (is_field(text)) keys_.push_back(text);
    }
    key_ = std::move(text);
    return true;
  }

  bool end_object() override {
    if (depth_ > 0) return --depth_, true;
    if (state_ == State::tensor) {
      finish_tensor();
      state_ = State::top;
    } else if (state_ == State::metadata) {
      state_ = State::top;
    } else {
      state_ = State::done;
    }
    return true;
  }

  bool start_array(size_t) override {
    if (passed_over()) return ++depth_, true;
    if (state_ != State::tensor || key_ == "dtype") return unexpected("a list");
    state_ = key_ == "shape" ? State::shape : State::offsets;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    if (depth_ > 0) return --depth_, true;
    if (state_ == State::shape) {
      for (int64_t size : numbers_) tensor_.shape.push_back(size);
      has_shape_ = true;
    } else {
      if (numbers_.size() != 2) wrong("data_offsets is a list of two numbers");
      offsets_ = {numbers_[0], numbers_[1]};
    }
    state_ = State::tensor;
    return true;
  }

  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    std::string why = e.what();
    if (size_t cut = why.find("] "); cut != std::string::npos) why = why.substr(cut + 2);
    refuse_header("safetensors header is not JSON", where_, fmt::format("at byte {}: {}", at, printable(why)));
  }

 private:
  enum class State { start, top, metadata, tensor, shape, offsets, done };

  std::string name_of(const std::string& name) const { return fmt::format("{}: tensor '{}'", where_, printable(name)); }
  [[noreturn]] void wrong(const std::string& rule) const {
    refuse_header("bad safetensors header", state_ >= State::tensor ? name_of(tensor_.name) : where_, rule);
  }

  bool unexpected(const std::string& got) {
    switch (state_) {
      case State::start:
        refuse_header("bad safetensors header", where_, "it must be a JSON object, got " + got);
      case State::top:
        refuse_header("bad safetensors header", name_of(key_), "it must be described by an object, got " + got);
      case State::metadata:
        wrong(fmt::format("metadata '{}' must be a string, got {}", printable(key_), got));
      case State::shape:
        wrong("shape holds integers, got " + got);
      case State::offsets:
        wrong("data_offsets holds integers, got " + got);
      default:
        wrong(fmt::format("field '{}' may not be {}", printable(key_), got));
    }
  }

  static bool is_field(const std::string& key) { return key == "dtype" || key == "shape" || key == "data_offsets"; }
  // True inside any other field of a tensor: such fields are skipped, as in the reference library.
  bool passed_over() const { return depth_ > 0 || (state_ == State::tensor && !is_field(key_)); }

  bool number(int64_t v) {
    if (passed_over()) return true;
    if (state_ != State::shape && state_ != State::offsets) return unexpected("the number " + std::to_string(v));
    if (v < 0) wrong(fmt::format("{} holds no negative numbers, got {}", state_ == State::shape ? "shape" : "data_offsets", v));
    if (state_ == State::shape && numbers_.size() == 5) wrong("at most 5 dims are supported");
    if (state_ == State::offsets && numbers_.size() == 2) wrong("data_offsets is a list of two numbers");
    numbers_.push_back(v);
    return true;
  }

  void finish_tensor() {
    if (!dtype_) wrong("dtype is missing");
    if (!has_shape_) wrong("shape is missing");
    if (!offsets_) wrong("data_offsets is missing");
    tensor_.dtype = *dtype_;
    tensor_.begin = offsets_->first;
    tensor_.end = offsets_->second;
    if (tensor_.end < tensor_.begin) wrong(fmt::format("data_offsets must not fall, got [{}, {}]", tensor_.begin, tensor_.end));
    // A size of 0 makes the product 0, but the other sizes must still multiply without overflow, as in the reference
    // library.
    int64_t bytes = size_of(tensor_.dtype);
    for (int64_t size : tensor_.shape)
      if (__builtin_mul_overflow(bytes, size, &bytes)) wrong(fmt::format("shape {} is too large", tensor_.shape.text()));
    if (bytes != tensor_.end - tensor_.begin)
      wrong(fmt::format("shape {} of {} takes {} bytes, data_offsets span {}", tensor_.shape.text(), file_name(tensor_.dtype),
                        bytes, tensor_.end - tensor_.begin));
    header_.tensors.push_back(std::move(tensor_));
  }

  SafetensorsHeader& header_;
  const std::string& where_;
  State state_ = State::start;
  size_t depth_ = 0;  // open lists and objects in a skipped field
  std::string key_;
  std::unordered_set<std::string> names_;
  TensorInfo tensor_;
  std::optional<DType> dtype_;
  bool has_shape_ = false;
  std::optional<std::pair<int64_t, int64_t>> offsets_;
  std::vector<std::string> keys_;
  std::vector<int64_t> numbers_;
};

void check_cover(const SafetensorsHeader& header, int64_t data_size, const std::string& where) {
  int64_t at = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo& t : header.tensors) {
    const std::string here = fmt::format("{}: tensor '{}'", where, printable(t.name));
    if (t.begin < at)
      refuse_header(
          "overlapping tensors", here,
          fmt::format("it starts at byte {} of the data, inside '{}', which ends at {}", t.begin, printable(before->name), at));
    if (t.begin > at)
      refuse_header("gap between tensors", here,
                    fmt::format("it starts at byte {} of the data; the one before ends at {}", t.begin, at));
    if (t.end > data_size)
      refuse_header("truncated safetensors file", here,
                    fmt::format("it ends at byte {} of the data, the file holds {}", t.end, data_size));
    at = t.end;
    before = &t;
  }
  if (at != data_size)
    refuse_header("bad safetensors file", where,
                  fmt::format("the tensors cover {} bytes of data, the file holds {}", at, data_size));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, int64_t file_size, const std::string& where) {
  if (file.size() < 8)
    refuse_header("truncated safetensors file", where,
                  fmt::format("it begins with 8 bytes of header length, the file holds {}", file.size()));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = (length << 8) | std::to_integer<uint64_t>(file[i]);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader))
    refuse_header("not a safetensors file", where,
                  fmt::format("the header has at most {} bytes, its length says {}", kMaxSafetensorsHeader, length));
  if (static_cast<int64_t>(length) > file_size - 8)
    refuse_header("truncated safetensors file", where,
                  fmt::format("the header has {} bytes, the file holds {} after its length", length, file_size - 8));
  require(file.size() - 8 >= length, "parse_safetensors_header: the header of {} bytes must be in memory, got {}", length,
          file.size() - 8);

  SafetensorsHeader header;
  header.data_begin = 8 + static_cast<int64_t>(length);
  const char* text = reinterpret_cast<const char*>(file.data()) + 8;
  Events events(header, where);
  nlohmann::json::sax_parse(text, text + length, &events);
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_cover(header, file_size - header.data_begin, where);
  return header;
}

}  // namespace ravine
