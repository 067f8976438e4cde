#include "files/torch_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "files/zip.h"

namespace ravine {
namespace {

constexpr int64_t kMaxPickle = int64_t{256} << 20;
constexpr size_t kMaxKey = 1000;  // bytes of a storage's name: a longer name would be copied at each use
constexpr const char* kFix = "save the file again with torch.save, or convert it to safetensors";

[[noreturn]] void refuse_torch(const std::string& where, const std::string& rule) {
  throw UserError("bad torch file", where, rule, kFix);
}

// Returns the type of a storage class, e.g. f16 for "torch.HalfStorage"; also for torch.cuda.
std::optional<DType> storage_type(std::string_view name) {
  if (!name.starts_with("torch.") || !name.ends_with("Storage")) return {};
  name.remove_suffix(7);
  name.remove_prefix(name.rfind('.') + 1);
  static constexpr std::pair<std::string_view, DType> table[] = {
      {"Float", DType::f32}, {"Half", DType::f16},    {"BFloat16", DType::bf16}, {"Double", DType::f64},
      {"Long", DType::i64},  {"Int", DType::i32},     {"Short", DType::i16},     {"Char", DType::i8},
      {"Byte", DType::u8},   {"Bool", DType::boolean}};
  for (const auto& [key, type] : table)
    if (name == key) return type;
  return {};
}

// Returns the type of e.g. "torch.bfloat16".
std::optional<DType> torch_type(std::string_view name) {
  if (!name.starts_with("torch.")) return {};
  name.remove_prefix(6);
  static constexpr std::pair<std::string_view, DType> table[] = {
      {"float32", DType::f32},   {"float", DType::f32},   {"float16", DType::f16}, {"half", DType::f16},
      {"bfloat16", DType::bf16}, {"float64", DType::f64}, {"int64", DType::i64},   {"int32", DType::i32},
      {"int16", DType::i16},     {"int8", DType::i8},     {"uint8", DType::u8},    {"bool", DType::boolean}};
  for (const auto& [key, type] : table)
    if (name == key) return type;
  return {};
}

// Returns the strides of a contiguous tensor, as torch sets them.
std::vector<int64_t> packed_strides(const Shape& shape) {
  std::vector<int64_t> s(static_cast<size_t>(shape.rank()));
  int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    s[static_cast<size_t>(d)] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
  return s;
}

template <class T>
void negate_integers(std::span<std::byte> elements) {
  for (size_t i = 0; i + sizeof(T) <= elements.size(); i += sizeof(T)) {
    T x;
    std::memcpy(&x, elements.data() + i, sizeof x);
    x = static_cast<T>(T{0} - x);
    std::memcpy(elements.data() + i, &x, sizeof x);
  }
}

// Changes the sign of each element.
void negate(DType type, std::span<std::byte> elements) {
  const auto size = static_cast<size_t>(size_of(type));
  if (is_float(type))
    for (size_t i = size - 1; i < elements.size(); i += size) elements[i] ^= std::byte{0x80};
  else if (size == 1)
    negate_integers<uint8_t>(elements);
  else if (size == 2)
    negate_integers<uint16_t>(elements);
  else if (size == 4)
    negate_integers<uint32_t>(elements);
  else
    negate_integers<uint64_t>(elements);
}

}  // namespace

bool TorchTensor::contiguous() const {
  if (negated) return false;
  const auto packed = packed_strides(shape);
  for (int d = 0; d < shape.rank(); ++d)
    if (shape[d] > 1 && strides[static_cast<size_t>(d)] != packed[static_cast<size_t>(d)]) return shape.count() == 0;
  return true;
}

TorchFile::Opened::Opened(std::string name) : path(std::move(name)) {
  fd = open_to_read(path, &size);
  mapped = MappedFile(path, fd, size, MappedFile::Use::any);
}

TorchFile::TorchFile(std::string path) : TorchFile(std::make_shared<const Opened>(std::move(path))) {}

TorchFile::TorchFile(const std::shared_ptr<const Opened>& file) : TorchFile(file, 0, file->size) {}

TorchFile::TorchFile(std::shared_ptr<const Opened> file, int64_t begin, int64_t size)
    : file_(std::move(file)), begin_(begin), size_(size), map_(file_->mapped.bytes().data()) {
  if (begin < 0 || size < 0 || begin > file_->size || size > file_->size - begin)
    refuse_torch(path(), fmt::format("bytes {} + {} lie in a file of {}", begin, size, file_->size));
  if (looks_like_zip(all()))
    open_zip();
  else
    open_stream();
}

std::span<const std::byte> TorchFile::all() const { return {map_ + begin_, static_cast<size_t>(size_)}; }

TorchFile::~TorchFile() = default;

void TorchFile::open_zip() {
  const std::span<const std::byte> all = this->all();
  const std::vector<ZipMember> members = parse_zip(all, path());
  auto bytes = [&](const ZipMember& m) { return all.subspan(static_cast<size_t>(m.begin), static_cast<size_t>(m.size)); };
  const ZipMember* pickle = nullptr;
  for (const ZipMember& m : members)
    if (m.name.ends_with("/data.pkl") && m.name.find('/') == m.name.size() - 9) pickle = &m;
  if (!pickle) refuse_torch(path(), "the archive must hold a member */data.pkl, as torch.save writes it");
  const std::string top = pickle->name.substr(0, pickle->name.size() - 8);
  for (const ZipMember& m : members) {
    if (m.name == top + "constants.pkl") refuse_torch(path(), "it is a TorchScript program; files of torch.save are read");
    if (m.name.starts_with(top + "data/")) storages_.emplace(m.name.substr(top.size() + 5), Storage{begin_ + m.begin, m.size});
    if (m.name != top + "byteorder") continue;
    const std::string_view order(reinterpret_cast<const char*>(bytes(m).data()), bytes(m).size());
    if (order != "little") refuse_torch(path(), fmt::format("bytes are in little order, the file says '{}'", printable(order)));
  }
  if (pickle->size > kMaxPickle)
    refuse_torch(path(), fmt::format("its pickle has at most {} bytes, it has {}", kMaxPickle, pickle->size));
  pickle_ = std::make_unique<Pickle>(bytes(*pickle), path());
}

// Reads pickles in sequence: magic number, protocol, system, the object, keys of storages. Then for each storage a
// count and its elements.
void TorchFile::open_stream() {
  const std::span<const std::byte> all = this->all();
  size_t at = 0;
  auto next = [&] {
    auto p = std::make_unique<Pickle>(all.subspan(at, std::min(all.size() - at, static_cast<size_t>(kMaxPickle))), path());
    at += p->size();
    return p;
  };
  // The pickle protocol (2 to 5), from 4 on a frame with its size, the magic number, the end.
  static constexpr unsigned char kFrame[] = {0x95, 13, 0, 0, 0, 0, 0, 0, 0},
                                 kMagic[] = {0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};
  auto skip = [&](std::span<const unsigned char> bytes) {
    const bool there = all.size() - at >= bytes.size() && std::memcmp(all.data() + at, bytes.data(), bytes.size()) == 0;
    if (there) at += bytes.size();
    return there;
  };
  if (all.size() >= 2 && all[0] == std::byte{0x80} && all[1] >= std::byte{2} && all[1] <= std::byte{5}) at = 2, skip(kFrame);
  if (!skip(kMagic)) refuse_torch(path(), "it must be an archive or a stream of torch.save; this is neither");
  if (auto p = next(); p->integer(p->root()) != 1001) refuse_torch(path(), "its protocol must be 1001");
  if (auto p = next(); true) {
    const auto little = p->find(p->root(), "little_endian");
    if (!little || p->boolean(*little) != true) refuse_torch(path(), "bytes are in little order, the file does not say so");
  }
  pickle_ = next();
  const auto keys = next();
  if (keys->kind(keys->root()) != Pickle::Kind::list) refuse_torch(path(), "its storages must be listed");
  std::unordered_map<std::string, int64_t> sizes;  // bytes per element: known from the tensors only
  for (Pickle::Ref v = 0;; ++v) {
    if (v >= pickle_->values()) break;
    if (pickle_->kind(v) != Pickle::Kind::persistent) continue;
    const Pickle::Ref id = pickle_->items(v)[0];
    if (pickle_->kind(id) != Pickle::Kind::tuple || pickle_->items(id).size() < 5) continue;
    const auto key = pickle_->text(pickle_->items(id)[2]);
    const auto type = storage_type(pickle_->global(pickle_->items(id)[1]));
    if (key && key->size() <= kMaxKey && type) sizes[std::string(*key)] = size_of(*type);
  }
  for (Pickle::Ref k : keys->items(keys->root())) {
    const auto key = keys->text(k);
    const std::string where = fmt::format("{}: storage '{}'", path(), key ? printable(key->substr(0, kMaxKey)) : "?");
    if (!key || key->size() > kMaxKey || !sizes.contains(std::string(*key)))
      refuse_torch(where, "its type must be one of torch's dense types");
    int64_t count = 0;
    if (all.size() - at < 8) refuse_torch(where, "the file is truncated");
    std::memcpy(&count, all.data() + at, 8);
    at += 8;
    const int64_t left = static_cast<int64_t>(all.size() - at), size = sizes[std::string(*key)];
    if (count < 0 || count > left / size)
      refuse_torch(where, fmt::format("it says {} elements of {} bytes, the file holds {} more bytes", count, size, left));
    if (!storages_.emplace(std::string(*key), Storage{begin_ + static_cast<int64_t>(at), count * size}).second)
      refuse_torch(where, "it occurs twice");
    at += static_cast<size_t>(count * size);
  }
}

// Returns the call that builds a tensor, without its wrappers. A Parameter wraps its data. A tensor with attributes is
// built by a call whose first arguments are the real call. Nothing if the value is no tensor.
std::optional<TorchFile::Call> TorchFile::tensor_call(Pickle::Ref v) const {
  const Pickle& p = *pickle_;
  if (p.kind(v) != Pickle::Kind::object) return {};
  Call c{p.global(p.items(v)[0]), p.items(v)[1]};
  for (int depth = 0; depth < 4 && p.kind(c.arguments) == Pickle::Kind::tuple; ++depth) {
    const std::vector<Pickle::Ref>& a = p.items(c.arguments);
    if (c.name == "torch._tensor._rebuild_from_type_v2" && a.size() >= 3) {
      c = {p.global(a[0]), a[2]};
    } else if (c.name.starts_with("torch._utils._rebuild_parameter") && !a.empty() && p.kind(a[0]) == Pickle::Kind::object) {
      c = {p.global(p.items(a[0])[0]), p.items(a[0])[1]};
    } else {
      const bool tensor = c.name == "torch._utils._rebuild_tensor_v2" || c.name == "torch._utils._rebuild_tensor" ||
                          c.name == "torch._utils._rebuild_tensor_v3";
      return tensor ? std::optional(c) : std::nullopt;
    }
  }
  return {};
}

bool TorchFile::is_tensor(Pickle::Ref v) const { return tensor_call(v).has_value(); }

TorchTensor TorchFile::tensor(Pickle::Ref v, const std::string& name) const {
  const Pickle& p = *pickle_;
  const std::string where = fmt::format("{}: tensor '{}'", path(), printable(name));
  const auto found = tensor_call(v);
  if (!found) throw UserError("not a tensor", where, fmt::format("it is {}, which is not executed", p.describe(v)), kFix);
  const std::string& call = found->name;
  const Pickle::Ref tuple = found->arguments;
  const bool typed = call != "torch._utils._rebuild_tensor_v3";
  if (p.kind(tuple) != Pickle::Kind::tuple || p.items(tuple).size() < (typed ? 4u : 7u))
    refuse_torch(where, "it is described by a storage, an offset, sizes and strides");
  const std::vector<Pickle::Ref>& a = p.items(tuple);
  if (p.kind(a[0]) != Pickle::Kind::persistent || p.kind(p.items(a[0])[0]) != Pickle::Kind::tuple)
    refuse_torch(where, "it must lie in a storage of the file");
  const std::vector<Pickle::Ref>& id = p.items(p.items(a[0])[0]);
  if (id.size() < 5 || p.text(id[0]) != "storage" || !p.text(id[2]) || !p.integer(id[4]))
    refuse_torch(where, "its storage is described by type, name, place and size");
  if (id.size() > 5 && !p.is_none(id[5]))
    refuse_torch(where, "views of storages, as torch before 0.4 wrote them, are not supported");

  TorchTensor t;
  // The bits of torch.Tensor.is_neg and is_conj: an argument after the hooks (and the type).
  if (const size_t at = typed ? 6 : 7; a.size() > at && !p.is_none(a[at])) {
    const std::vector<Pickle::Ref>* fields = p.fields(a[at]);
    for (size_t i = 0; fields && i + 1 < fields->size(); i += 2) {
      const auto key = p.text((*fields)[i]);
      const auto on = p.boolean((*fields)[i + 1]);
      if (!key || !on || (*on && *key != "neg"))
        refuse_torch(where, fmt::format("it is a view of another kind ({}), and a negated one (neg) alone is read; save "
                                        "tensor.resolve_conj()",
                                        p.describe((*fields)[i])));
      if (*key == "neg") t.negated = *on;
    }
    if (!fields) refuse_torch(where, fmt::format("the bits of its view are a dict, not {}", p.describe(a[at])));
  }
  const std::string type_name = p.global(id[1]);
  int64_t element = 1;
  if (type_name == "torch.storage.UntypedStorage" || type_name == "torch.UntypedStorage") {
    const auto type = typed ? std::optional<DType>() : torch_type(p.global(a[6]));
    if (!type)
      refuse_torch(where, fmt::format("its element type '{}' is not known", typed ? type_name : printable(p.global(a[6]))));
    t.dtype = *type;
  } else {
    const auto type = storage_type(type_name);
    if (!type) refuse_torch(where, fmt::format("its element type '{}' is not known", printable(p.describe(id[1]))));
    t.dtype = *type;
    element = size_of(*type);
  }
  const std::string key(p.text(id[2])->substr(0, kMaxKey + 1));
  const int64_t count = *p.integer(id[4]);
  auto storage = storages_.find(key);
  if (storage == storages_.end()) refuse_torch(where, fmt::format("its storage '{}' is not in the file", printable(key)));
  t.storage_begin = storage->second.begin;
  const int64_t have = storage->second.size;
  if (count < 0 || count > have / element)
    refuse_torch(where,
                 fmt::format("its storage says {} elements of {} bytes, the file holds {} bytes of it", count, element, have));

  auto numbers = [&](Pickle::Ref r) {
    if ((p.kind(r) != Pickle::Kind::tuple && p.kind(r) != Pickle::Kind::list) || p.items(r).size() > 5)
      refuse_torch(where, "its sizes and strides are at most 5 numbers each");
    std::vector<int64_t> n;
    for (Pickle::Ref i : p.items(r)) {
      const auto x = p.integer(i);
      if (!x || *x < 0 || *x > int64_t{1} << 48) refuse_torch(where, "its sizes and strides are whole numbers from 0 to 2^48");
      n.push_back(*x);
    }
    return n;
  };
  const std::vector<int64_t> sizes = numbers(a[2]);
  t.strides = numbers(a[3]);
  const auto offset = p.integer(a[1]);
  if (!offset || *offset < 0 || sizes.size() != t.strides.size())
    refuse_torch(where, "its offset is a whole number, and it has as many strides as sizes");
  t.offset = *offset;
  int64_t elements = 1, last = t.offset;
  bool empty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    t.shape.push_back(sizes[d]);
    if (sizes[d] == 0) empty = true;
    int64_t step = 0;
    if (__builtin_mul_overflow(elements, std::max<int64_t>(sizes[d], 1), &elements) || elements > int64_t{1} << 48 ||
        (sizes[d] > 0 &&
         (__builtin_mul_overflow(sizes[d] - 1, t.strides[d], &step) || __builtin_add_overflow(last, step, &last))))
      refuse_torch(where, fmt::format("its shape {} is too large", t.shape.text()));
  }
  const int64_t room = typed || element != 1 ? count : count / size_of(t.dtype);
  if (!empty && last >= room) refuse_torch(where, fmt::format("its last element is number {} of a storage of {}", last, room));
  if (t.offset > room) refuse_torch(where, fmt::format("it begins at element {} of a storage of {}", t.offset, room));
  // A tensor with stride 0 may be much larger than its storage. Weights are bounded by the file size.
  if (!empty && elements > 64 * std::max<int64_t>(room, 1) + 4096)
    refuse_torch(where, fmt::format("it repeats {} stored elements {} times", room, elements / std::max<int64_t>(room, 1)));
  return t;
}

void TorchFile::read(const TorchTensor& t, int64_t begin, std::span<std::byte> into) const {
  const int64_t size = size_of(t.dtype), count = static_cast<int64_t>(into.size()) / size;
  require(begin >= 0 && static_cast<int64_t>(into.size()) % size == 0 && begin <= t.shape.count() &&
              count <= t.shape.count() - begin,
          "TorchFile::read: elements {} + {} lie in a tensor of shape {}", begin, count, t.shape.text());
  if (count == 0) return;
  if (t.contiguous()) return read_all_at(*file_->fd, t.storage_begin + (t.offset + begin) * size, into, path());
  const int rank = t.shape.rank();
  std::array<int64_t, 5> at{};
  for (int64_t rest = begin, d = rank - 1; d >= 0; --d) {
    at[static_cast<size_t>(d)] = rest % t.shape[static_cast<int>(d)];
    rest /= t.shape[static_cast<int>(d)];
  }
  const std::byte* base = map_ + t.storage_begin;
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = t.offset;
    for (int d = 0; d < rank; ++d) from += at[static_cast<size_t>(d)] * t.strides[static_cast<size_t>(d)];
    std::memcpy(into.data() + i * size, base + from * size, static_cast<size_t>(size));
    for (int d = rank - 1; d >= 0; --d) {
      if (++at[static_cast<size_t>(d)] < t.shape[d]) break;
      at[static_cast<size_t>(d)] = 0;
    }
  }
  if (t.negated) negate(t.dtype, into);
}

std::span<const std::byte> TorchFile::in_place(const TorchTensor& t) const {
  return {map_ + t.storage_begin + t.offset * size_of(t.dtype), static_cast<size_t>(t.bytes())};
}

TorchStateFile::TorchStateFile(const std::string& path) : file_(std::make_shared<TorchFile>(path)) {
  const Pickle& p = file_->pickle();
  Pickle::Ref dict = p.root();
  for (const char* key : {"state_dict", "module", "model"})
    if (auto inner = p.find(dict, key); inner && p.fields(*inner)) {
      dict = *inner;
      break;
    }
  collect(dict, "");
}

TorchStateFile::TorchStateFile(std::shared_ptr<const TorchFile> file, Pickle::Ref dict, const std::string& prefix)
    : file_(std::move(file)) {
  collect(dict, prefix);
}

void TorchStateFile::count(int64_t bytes, const std::string& name) {
  constexpr int64_t kSlack = int64_t{64} << 10;
  const auto pickle = static_cast<int64_t>(file_->pickle().size());
  name_bytes_ += static_cast<int64_t>(name.size());
  tensor_bytes_ += bytes;
  const std::string where = fmt::format("{}: tensor '{}'", path(), printable(name));
  if (name_bytes_ > 16 * pickle + kSlack || static_cast<int64_t>(infos_.size()) > pickle / 8 + kSlack / 64)
    refuse_torch(where, fmt::format("its dicts say {} names for a pickle of {} bytes: one dict stands in many places",
                                    infos_.size(), pickle));
  if (tensor_bytes_ / 64 > file_->file_size() + kSlack)
    refuse_torch(where, fmt::format("its tensors come to {} bytes, the file has {}: they repeat what is stored too often",
                                    tensor_bytes_, file_->file_size()));
}

// Walks nested dicts without recursion. Limits on names and visits stop a dict that contains itself or is shared too
// often.
void TorchStateFile::collect(Pickle::Ref root, const std::string& root_prefix) {
  constexpr size_t kMaxName = 1000;
  const Pickle& p = file_->pickle();
  struct Level {
    const std::vector<Pickle::Ref>* items;
    size_t next;
    size_t prefix;  // length of the name's prefix in bytes
  };
  const std::vector<Pickle::Ref>* top = p.fields(root);
  if (!top)
    throw UserError("no weights", path(), fmt::format("the file must hold a dict of tensors, it holds {}", p.describe(root)),
                    kFix);
  std::vector<Level> levels{{top, 0, root_prefix.size()}};
  std::string name = root_prefix;
  size_t seen = 0;
  while (!levels.empty()) {
    Level& l = levels.back();
    name.resize(l.prefix);
    if (l.next >= l.items->size()) {
      levels.pop_back();
      continue;
    }
    const Pickle::Ref key = (*l.items)[l.next], value = (*l.items)[l.next + 1];
    l.next += 2;
    const auto text = p.text(key);
    if (!text)
      refuse_torch(path(), fmt::format("tensors are named by strings, one under '{}' by {}", printable(name), p.describe(key)));
    name += text->substr(0, kMaxName + 1);
    if (name.size() > kMaxName || ++seen > p.size() + 64)
      refuse_torch(fmt::format("{}: tensor '{}'", path(), printable(name)),
                   "its dicts are nested too deeply, or one stands in many places");
    if (file_->is_tensor(value)) {
      TorchTensor t = file_->tensor(value, name);
      if (!by_name_.emplace(name, infos_.size()).second)
        refuse_torch(fmt::format("{}: tensor '{}'", path(), printable(name)), "the name occurs twice");
      infos_.push_back({name, t.dtype, t.shape, 0, t.bytes()});
      tensors_.push_back(std::move(t));
      count(infos_.back().end, name);
    } else if (p.fields(value)) {
      name += '.';
      levels.push_back({p.fields(value), 0, name.size()});
    } else if (!p.is_none(value) && p.kind(value) != Pickle::Kind::bytes && !name.ends_with("_extra_state")) {
      throw UserError("not a tensor", fmt::format("{}: tensor '{}'", path(), printable(name)),
                      fmt::format("it is {}, which is not executed", p.describe(value)), kFix);
    }
  }
}

const TorchTensor& TorchStateFile::of(const TensorInfo& t) const { return tensors_[static_cast<size_t>(&t - infos_.data())]; }

const TensorInfo* TorchStateFile::find(std::string_view name) const {
  auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : &infos_[it->second];
}

void TorchStateFile::read(const TensorInfo& t, int64_t offset, std::span<std::byte> into) const {
  require(offset % size_of(t.dtype) == 0, "TorchStateFile::read: whole elements, got offset {}", offset);
  file_->read(of(t), offset / size_of(t.dtype), into);
}

std::span<const std::byte> TorchStateFile::bytes(const TensorInfo& info) const {
  const TorchTensor& t = of(info);
  if (t.contiguous()) return file_->in_place(t);
  std::lock_guard lock(copying_);
  std::vector<std::byte>& copy = copies_[static_cast<size_t>(&info - infos_.data())];
  if (copy.empty() && t.bytes() > 0) {
    copy.resize(static_cast<size_t>(t.bytes()));
    file_->read(t, 0, copy);
  }
  return copy;
}

}  // namespace ravine
