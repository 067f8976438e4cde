// Writes a torch file as a tree of named values. The bytes of its tensors follow, in the order in which they were
// named.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "files/torch_save.h"
#include "io/convert/stream.h"

namespace ravine {

class TorchFields {
 public:
  // `straight` is as in TorchSave. `progress` is called with the bytes written and must outlive this object.
  TorchFields(const std::string& path, const std::function<void(int64_t)>& progress, bool straight = false)
      : out(path, straight), progress_(progress) {}
  void key(std::string_view k) { out.text(k); }
  void number(std::string_view k, int64_t v) { key(k), out.integer(v); }
  void real(std::string_view k, double v) { key(k), out.real(v); }
  void truth(std::string_view k, bool v) { key(k), out.boolean(v); }
  void none(std::string_view k) { key(k), out.none(); }
  void text(std::string_view k, std::string_view v) { key(k), out.text(v); }
  // Adds a tensor of type `dtype` and returns the number of its storage. commit() writes the elements, converted to
  // that type.
  size_t tensor(const ElementsPtr& e, DType dtype) {
    waiting_.emplace_back(e, dtype);
    return out.tensor(dtype, e->shape());
  }
  void json(const Json& j) {
    if (j.is_object()) {
      out.begin_dict();
      for (const auto& [k, v] : j.items()) key(k), json(v);
      out.end();
    } else if (j.is_array()) {
      out.begin_list();
      for (const Json& v : j) json(v);
      out.end();
    } else if (j.is_boolean()) {
      out.boolean(j.get<bool>());
    } else if (j.is_number_integer()) {
      out.integer(j.get<int64_t>());
    } else if (j.is_number()) {
      out.real(j.get<double>());
    } else if (j.is_string()) {
      out.text(j.get<std::string>());
    } else {
      out.none();
    }
  }
  void commit() {
    for (const auto& [e, dtype] : waiting_)
      stream(*e, dtype, [&](std::span<const std::byte> bytes) {
        out.write(bytes);
        progress_(static_cast<int64_t>(bytes.size()));
      });
    out.commit();
  }
  TorchSave out;

 private:
  const std::function<void(int64_t)>& progress_;
  std::vector<std::pair<ElementsPtr, DType>> waiting_;
};

}  // namespace ravine
