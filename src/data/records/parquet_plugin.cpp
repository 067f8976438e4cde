// The library libravine_parquet.so: returns rows of a Parquet or Arrow file as JSON objects, by Apache Arrow. The
// library does not depend on the program.
#include "data/records/parquet_plugin.h"

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <parquet/arrow/reader.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (char ch : text) {
    const auto c = static_cast<unsigned char>(ch);
    if (c == '"' || c == '\\') {
      out += '\\', out += ch;
    } else if (c >= 0x20) {
      out += ch;
    } else {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    }
  }
  out += '"';
}

template <class T>
void append_number(std::string& out, T value) {
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) {
      out += "null";
      return;
    }
  char text[40];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

// Rows of a table have the members of all rows; members that a row does not have are null. In tools and their calls,
// whose members differ from row to row, null members are left out. A default, const or enum of Arrow's type null stays:
// no row has a value there, so the null was written. Elements of lists, entries of maps and JSON in texts remain
// unchanged.
enum class Nulls { kept, left_out };

void append_value(std::string& out, const arrow::Array& array, int64_t i, Nulls nulls);

void append_elements(std::string& out, const arrow::Array& values, int64_t begin, int64_t end, Nulls nulls) {
  out += '[';
  for (int64_t k = begin; k < end; ++k) {
    if (k > begin) out += ',';
    append_value(out, values, k, nulls);
  }
  out += ']';
}

template <class A>
const A& as(const arrow::Array& array) {
  return static_cast<const A&>(array);
}

Nulls nulls_of(std::string_view member, Nulls around) {
  return member == "tools" || member == "tool_calls" || member == "function_call" ? Nulls::left_out : around;
}

bool may_be_null(std::string_view member) {  // in the JSON Schema of a tool
  return member == "default" || member == "const" || member == "enum";
}

void append_value(std::string& out, const arrow::Array& array, int64_t i, Nulls nulls) {
  using T = arrow::Type;
  if (array.IsNull(i)) {
    out += "null";
    return;
  }
  switch (array.type_id()) {
    case T::BOOL:
      out += as<arrow::BooleanArray>(array).Value(i) ? "true" : "false";
      return;
    case T::INT8:
      return append_number(out, static_cast<int>(as<arrow::Int8Array>(array).Value(i)));
    case T::INT16:
      return append_number(out, as<arrow::Int16Array>(array).Value(i));
    case T::INT32:
      return append_number(out, as<arrow::Int32Array>(array).Value(i));
    case T::INT64:
      return append_number(out, as<arrow::Int64Array>(array).Value(i));
    case T::UINT8:
      return append_number(out, static_cast<int>(as<arrow::UInt8Array>(array).Value(i)));
    case T::UINT16:
      return append_number(out, as<arrow::UInt16Array>(array).Value(i));
    case T::UINT32:
      return append_number(out, as<arrow::UInt32Array>(array).Value(i));
    case T::UINT64:
      return append_number(out, as<arrow::UInt64Array>(array).Value(i));
    case T::FLOAT:
      return append_number(out, as<arrow::FloatArray>(array).Value(i));
    case T::DOUBLE:
      return append_number(out, as<arrow::DoubleArray>(array).Value(i));
    case T::STRING:
    case T::BINARY:
      return append_string(out, as<arrow::BinaryArray>(array).GetView(i));
    case T::LARGE_STRING:
    case T::LARGE_BINARY:
      return append_string(out, as<arrow::LargeBinaryArray>(array).GetView(i));
    case T::STRING_VIEW:
    case T::BINARY_VIEW:
      return append_string(out, as<arrow::BinaryViewArray>(array).GetView(i));
    case T::MAP: {
      const auto& map = as<arrow::MapArray>(array);
      const auto key = map.keys()->type_id();
      if (key != T::STRING && key != T::LARGE_STRING)
        return append_elements(out, *map.values(), map.value_offset(i), map.value_offset(i + 1), nulls);
      out += '{';
      for (int64_t k = map.value_offset(i); k < map.value_offset(i + 1); ++k) {
        if (k > map.value_offset(i)) out += ',';
        append_value(out, *map.keys(), k, nulls);
        out += ':';
        append_value(out, *map.items(), k, nulls);
      }
      out += '}';
      return;
    }
    case T::LIST: {
      const auto& list = as<arrow::ListArray>(array);
      return append_elements(out, *list.values(), list.value_offset(i), list.value_offset(i + 1), nulls);
    }
    case T::LARGE_LIST: {
      const auto& list = as<arrow::LargeListArray>(array);
      return append_elements(out, *list.values(), list.value_offset(i), list.value_offset(i + 1), nulls);
    }
    case T::FIXED_SIZE_LIST: {
      const auto& list = as<arrow::FixedSizeListArray>(array);
      return append_elements(out, *list.values(), list.value_offset(i), list.value_offset(i) + list.value_length(i), nulls);
    }
    case T::STRUCT: {
      const auto& s = as<arrow::StructArray>(array);
      out += '{';
      bool first = true;
      for (int f = 0; f < s.num_fields(); ++f) {
        const std::string& name = s.type()->field(f)->name();
        const std::shared_ptr<arrow::Array> member = s.field(f);
        if (nulls == Nulls::left_out && member->IsNull(i) && !(member->type_id() == T::NA && may_be_null(name))) continue;
        if (!first) out += ',';
        first = false;
        append_string(out, name);
        out += ':';
        append_value(out, *member, i, nulls_of(name, nulls));
      }
      out += '}';
      return;
    }
    case T::DICTIONARY: {
      const auto& d = as<arrow::DictionaryArray>(array);
      return append_value(out, *d.dictionary(), d.GetValueIndex(i), nulls);
    }
    case T::EXTENSION: {
      const auto& of = as<arrow::ExtensionArray>(array);
      if (of.extension_type()->extension_name() != "arrow.json") return append_value(out, *of.storage(), i, nulls);
      auto scalar = of.storage()->GetScalar(i);
      out += scalar.ok() ? (*scalar)->ToString() : "null";
      return;
    }
    default: {  // dates, times, decimals: as text
      auto scalar = array.GetScalar(i);
      append_string(out, scalar.ok() ? (*scalar)->ToString() : "");
    }
  }
}

// Reads the batches of an Arrow file in order; Arrow has no such reader.
class FileBatches final : public arrow::RecordBatchReader {
 public:
  explicit FileBatches(std::shared_ptr<arrow::ipc::RecordBatchFileReader> file) : file_(std::move(file)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return file_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    if (at_ == file_->num_record_batches()) return *batch = nullptr, arrow::Status::OK();
    return file_->ReadRecordBatch(at_++).Value(batch);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  int at_ = 0;
};

struct Reader {
  std::shared_ptr<arrow::io::RandomAccessFile> input;
  int64_t bytes = 0;  // of an Arrow file; 0: Parquet, whose rows are counted
  std::unique_ptr<parquet::arrow::FileReader> file;
  std::shared_ptr<arrow::RecordBatchReader> batches;
  std::shared_ptr<arrow::RecordBatch> batch;
  std::vector<std::string> names;  // with quotes and colon
  int64_t row = 0, done = 0, rows = 0;
  std::string json;

  int next() {
    while (!batch || row == batch->num_rows()) {
      auto result = batches->Next();
      if (!result.ok()) throw std::runtime_error(result.status().message());
      batch = *result;
      row = 0;
      if (!batch) return 0;
      // Offsets and indices of a damaged file point outside of its buffers.
      if (auto valid = batch->ValidateFull(); !valid.ok()) throw std::runtime_error(valid.message());
      names.clear();
      for (const auto& field : batch->schema()->fields()) {
        names.emplace_back();
        append_string(names.back(), field->name());
        names.back() += ':';
      }
    }
    json = "{";
    for (int c = 0; c < batch->num_columns(); ++c) {
      if (c > 0) json += ',';
      json += names[static_cast<size_t>(c)];
      append_value(json, *batch->column(c), row, nulls_of(batch->schema()->field(c)->name(), Nulls::kept));
    }
    json += '}';
    ++row, ++done;
    return 1;
  }
};

template <class T>
T checked(arrow::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(*result);
}

std::set<std::string, std::less<>> names_in(std::string_view fields) {
  std::set<std::string, std::less<>> wanted;
  for (size_t at = 0; at < fields.size();) {
    const size_t end = fields.find('\n', at);
    wanted.emplace(fields.substr(at, end - at));
    at = end + 1;
  }
  return wanted;
}

void demand(const std::set<std::string, std::less<>>& wanted, const std::vector<std::string>& there) {
  for (const std::string& name : wanted) {
    if (std::find(there.begin(), there.end(), name) != there.end()) continue;
    std::string all;
    for (const std::string& have : there) all += (all.empty() ? "" : ", ") + have;
    throw std::runtime_error("it has no column '" + name + "', only " + all);
  }
}

bool is_parquet(arrow::io::RandomAccessFile& input, std::string* magic) {
  const auto head = checked(input.ReadAt(0, 6));
  *magic = head->ToString();
  return magic->starts_with("PAR1");
}

// Opens an Arrow file, which begins with ARROW1, or an Arrow stream, as save_to_disk and the caches of `datasets` write
// them.
std::unique_ptr<Reader> make_arrow_reader(std::shared_ptr<arrow::io::RandomAccessFile> input, bool is_file,
                                          std::string_view fields) {
  auto reader = std::make_unique<Reader>();
  reader->bytes = checked(input->GetSize());
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  const auto open = [&]() -> std::shared_ptr<arrow::RecordBatchReader> {
    if (is_file) return std::make_shared<FileBatches>(checked(arrow::ipc::RecordBatchFileReader::Open(input, options)));
    if (auto status = input->Seek(0); !status.ok()) throw std::runtime_error(status.message());
    return checked(arrow::ipc::RecordBatchStreamReader::Open(input, options));
  };
  reader->batches = open();
  const auto wanted = names_in(fields);
  const auto schema = reader->batches->schema();
  demand(wanted, schema->field_names());
  if (!wanted.empty()) {
    for (int i = 0; i < schema->num_fields(); ++i)
      if (wanted.count(schema->field(i)->name())) options.included_fields.push_back(i);
    reader->batches = open();
  }
  reader->input = std::move(input);
  return reader;
}

std::unique_ptr<Reader> make_reader(const char* path, const void* data, size_t size, std::string_view fields) {
  std::shared_ptr<arrow::io::RandomAccessFile> input;
  if (data)
    input = std::make_shared<arrow::io::BufferReader>(
        std::make_shared<arrow::Buffer>(static_cast<const uint8_t*>(data), static_cast<int64_t>(size)));
  else
    input = checked(arrow::io::ReadableFile::Open(path));
  std::string magic;
  if (!is_parquet(*input, &magic)) {
    const bool stream = magic.size() >= 4 && magic.substr(0, 4) == "\xff\xff\xff\xff";
    if (magic == "ARROW1" || stream) return make_arrow_reader(std::move(input), !stream, fields);
  }
  parquet::arrow::FileReaderBuilder builder;
  if (auto status = builder.Open(input); !status.ok()) throw std::runtime_error(status.message());
  parquet::ArrowReaderProperties properties;
  properties.set_batch_size(1024);
  properties.set_use_threads(false);
  properties.set_pre_buffer(false);
  auto reader = std::make_unique<Reader>();
  if (auto status = builder.properties(properties)->Build(&reader->file); !status.ok())
    throw std::runtime_error(status.message());
  const auto wanted = names_in(fields);
  const auto metadata = reader->file->parquet_reader()->metadata();
  reader->rows = metadata->num_rows();
  std::vector<int> groups(static_cast<size_t>(metadata->num_row_groups())), columns;
  for (size_t g = 0; g < groups.size(); ++g) groups[g] = static_cast<int>(g);
  for (int c = 0; c < metadata->num_columns(); ++c)
    if (wanted.empty() || wanted.count(metadata->schema()->GetColumnRoot(c)->name())) columns.push_back(c);
  std::vector<std::string> there;
  for (int c = 0; c < metadata->schema()->group_node()->field_count(); ++c)
    there.push_back(metadata->schema()->group_node()->field(c)->name());
  demand(wanted, there);
  reader->batches = checked(reader->file->GetRecordBatchReader(groups, columns));
  return reader;
}

void copy_message(const std::exception& e, char* error, size_t size) { std::snprintf(error, size, "%s", e.what()); }

const RavineParquet kLibrary{
    kRavineParquetVersion,
    [](const char* path, const void* data, size_t size, const char* fields, char* error, size_t error_size) -> void* {
      try {
        return make_reader(path, data, size, fields).release();
      } catch (const std::exception& e) {
        copy_message(e, error, error_size);
        return nullptr;
      }
    },
    [](void* reader, const char** json, size_t* size, char* error, size_t error_size) -> int {
      auto* r = static_cast<Reader*>(reader);
      try {
        const int result = r->next();
        *json = r->json.data();
        *size = r->json.size();
        return result;
      } catch (const std::exception& e) {
        copy_message(e, error, error_size);
        return -1;
      }
    },
    [](void* reader) -> double {
      auto* r = static_cast<Reader*>(reader);
      if (r->bytes > 0)
        return std::clamp(static_cast<double>(r->input->Tell().ValueOr(0)) / static_cast<double>(r->bytes), 0.0, 1.0);
      return r->rows > 0 ? static_cast<double>(r->done) / static_cast<double>(r->rows) : 1.0;
    },
    [](void* reader) { delete static_cast<Reader*>(reader); },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const RavineParquet* ravine_parquet() { return &kLibrary; }
