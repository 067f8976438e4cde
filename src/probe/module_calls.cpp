#include "probe/module_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace ravine {
namespace {

class ModuleCalls {
 public:
  ModuleCalls(const ModuleTensors& in, std::vector<DumpRecord>& to) : in_(in), to_(to) {}

  void run() {
    for (micro_ = 1; micro_ <= in_.micros; ++micro_) forward();
    for (micro_ = 1; micro_ <= in_.micros; ++micro_) backward();
  }

 private:
  using Tensor = std::optional<ForeignTensor>;
  using Parts = std::vector<Tensor>;
  enum class Join : uint8_t { columns, rows };

  Tensor value(const std::string& module, const char* side) const {
    return in_.find(fmt::format("forward/{}/{}/{}", micro_, module, side));
  }
  Tensor slope(const std::string& module, const char* side) const {
    return in_.find(fmt::format("backward/{}/{}/{}", micro_, module, side));
  }
  Tensor weight(const std::string& name) const { return in_.find("weights/" + name); }

  // Sets the call of the following tensors.
  void call(Phase phase, const std::string& path, const char* op, int64_t n = 0) {
    at_ = {.step = in_.step, .micro = micro_, .phase = phase, .path = path, .op = op, .n = n};
  }
  void add(const char* tensor, bool output, const Parts& parts, Join join = Join::columns,
           std::vector<std::string> parameters = {}) {
    DumpRecord r = at_;
    r.tensor = tensor, r.output = output, r.parameters = std::move(parameters);
    if (auto made = record_of_parts(std::move(r), parts, join == Join::rows, in_.fetch)) to_.push_back(std::move(*made));
  }
  void read(const char* tensor, const Parts& parts, Join join = Join::columns, std::vector<std::string> parameters = {}) {
    add(tensor, false, parts, join, std::move(parameters));
  }
  void wrote(const char* tensor, const Parts& parts) { add(tensor, true, parts); }

  void norm(const std::string& path, const Tensor& x, const Tensor& branch) {
    call(Phase::forward, path, "rms_norm");
    read("x", {x}), read("branch", {branch}), read("weight", {weight(path + ".weight")}, Join::columns, {path + ".weight"});
    if (branch) wrote("sum", {value(path, "in.0")});
    wrote("out", {value(path, "out.0")});
  }
  void product(const std::string& path, const std::vector<std::string>& modules) {
    Parts weights, out;
    std::vector<std::string> names;
    for (const std::string& m : modules)
      weights.push_back(weight(m + ".weight")), out.push_back(value(m, "out.0")), names.push_back(m + ".weight");
    call(Phase::forward, path, "matmul");
    read("a", {value(modules.front(), "in.0")}), read("b", weights, Join::rows, names), wrote("out", out);
  }
  // dx = dy W. For joined modules dx is the gradient of their common input.
  void product_backward(const std::string& path, const std::vector<std::string>& modules, const Tensor& dx) {
    Parts weights, dy;
    std::vector<std::string> names;
    for (const std::string& m : modules)
      weights.push_back(weight(m + ".weight")), dy.push_back(slope(m, "out.0")), names.push_back(m + ".weight");
    call(Phase::backward, path, "matmul");
    read("a", dy), read("b", weights, Join::rows, names), wrote("out", {dx});
  }
  static std::string layer(int64_t i) { return fmt::format("model.layers.{}", i); }

  void forward() {
    const std::string embedding = "model.embed_tokens";
    call(Phase::forward, embedding, "embedding");
    read("ids", {value(embedding, "in.0")});
    read("weight", {weight(embedding + ".weight")}, Join::columns, {embedding + ".weight"});
    wrote("out", {value(embedding, "out.0")});
    Tensor residual = value(embedding, "out.0"), branch;
    for (int64_t i = 0; i < in_.layers; ++i) {
      const std::string l = layer(i), attention = l + ".self_attn", mlp = l + ".mlp";
      norm(l + ".input_layernorm", residual, branch);
      residual = value(l + ".input_layernorm", "in.0");
      product(attention + ".q_proj+k_proj+v_proj", {attention + ".q_proj", attention + ".k_proj", attention + ".v_proj"});
      const std::string inner = attention + ".attention";
      for (int64_t n = 0; n < 2; ++n) {
        call(Phase::forward, attention, "rope", n);
        read("x", {value(attention + (n ? ".k_proj" : ".q_proj"), "out.0")}),
            read("table", {value("model.rotary_emb", "table")});
        wrote("x", {value(inner, n ? "k" : "q")});
      }
      call(Phase::forward, attention, "attention");
      read("q", {value(inner, "q")}), read("k", {value(inner, "k")}), read("v", {value(inner, "v")});
      wrote("out", {value(attention + ".o_proj", "in.0")});
      product(attention + ".o_proj", {attention + ".o_proj"});
      norm(l + ".post_attention_layernorm", residual, value(attention + ".o_proj", "out.0"));
      residual = value(l + ".post_attention_layernorm", "in.0");
      product(mlp + ".gate_proj+up_proj", {mlp + ".gate_proj", mlp + ".up_proj"});
      call(Phase::forward, mlp, "swiglu");
      read("gate", {value(mlp + ".gate_proj", "out.0")}), read("up", {value(mlp + ".up_proj", "out.0")});
      wrote("out", {value(mlp + ".down_proj", "in.0")});
      product(mlp + ".down_proj", {mlp + ".down_proj"});
      branch = value(mlp, "out.0");
    }
    norm("model.norm", residual, branch);
  }

  void norm_backward(const std::string& path, const Tensor& dsum) {
    call(Phase::backward, path, "rms_norm_backward");
    read("dout", {slope(path, "out.0")}), read("x", {value(path, "in.0")});
    read("weight", {weight(path + ".weight")}, Join::columns, {path + ".weight"}), read("dsum", {dsum});
    wrote("dx", {slope(path, "in.0")});
  }

  void backward() {
    call(Phase::backward, "lm_head", "loss_head");
    read("x", {value("model.norm", "out.0")}), read("weight", {weight("lm_head.weight")}, Join::columns, {"lm_head.weight"});
    wrote("dx", {slope("model.norm", "out.0")});
    norm_backward("model.norm", {});
    Tensor dsum = slope("model.norm", "in.0");
    for (int64_t i = in_.layers; i-- > 0;) {
      const std::string l = layer(i), attention = l + ".self_attn", mlp = l + ".mlp", inner = attention + ".attention";
      product_backward(mlp + ".down_proj", {mlp + ".down_proj"}, slope(mlp + ".down_proj", "in.0"));
      call(Phase::backward, mlp, "swiglu_backward");
      read("gate", {value(mlp + ".gate_proj", "out.0")}), read("up", {value(mlp + ".up_proj", "out.0")});
      read("dout", {slope(mlp + ".down_proj", "in.0")});
      wrote("dgate", {slope(mlp + ".gate_proj", "out.0")}), wrote("dup", {slope(mlp + ".up_proj", "out.0")});
      product_backward(mlp + ".gate_proj+up_proj", {mlp + ".gate_proj", mlp + ".up_proj"},
                       slope(l + ".post_attention_layernorm", "out.0"));
      norm_backward(l + ".post_attention_layernorm", dsum);
      dsum = slope(l + ".post_attention_layernorm", "in.0");
      product_backward(attention + ".o_proj", {attention + ".o_proj"}, slope(attention + ".o_proj", "in.0"));
      call(Phase::backward, attention, "attention_backward");
      read("dout", {slope(attention + ".o_proj", "in.0")});
      read("q", {value(inner, "q")}), read("k", {value(inner, "k")}), read("v", {value(inner, "v")});
      read("out", {value(attention + ".o_proj", "in.0")});
      wrote("dq", {slope(inner, "q")}), wrote("dk", {slope(inner, "k")}), wrote("dv", {slope(inner, "v")});
      for (int64_t n = 0; n < 2; ++n) {  // keys first, as in the backward pass
        call(Phase::backward, attention, "rope", n);
        read("x", {slope(inner, n ? "q" : "k")}), wrote("x", {slope(attention + (n ? ".q_proj" : ".k_proj"), "out.0")});
      }
      product_backward(attention + ".q_proj+k_proj+v_proj",
                       {attention + ".q_proj", attention + ".k_proj", attention + ".v_proj"},
                       slope(l + ".input_layernorm", "out.0"));
      norm_backward(l + ".input_layernorm", dsum);
      dsum = slope(l + ".input_layernorm", "in.0");
    }
    call(Phase::backward, "model.embed_tokens", "embedding_backward");
    read("ids", {value("model.embed_tokens", "in.0")}), read("dout", {slope("model.embed_tokens", "out.0")});
  }

  const ModuleTensors& in_;
  std::vector<DumpRecord>& to_;
  DumpRecord at_;
  int64_t micro_ = 1;
};

}  // namespace

void add_module_calls(const ModuleTensors& tensors, std::vector<DumpRecord>& to) { ModuleCalls(tensors, to).run(); }

std::optional<DumpRecord> record_of_parts(DumpRecord r, const std::vector<std::optional<ForeignTensor>>& parts, bool join_rows,
                                          const std::function<std::span<const std::byte>(const StoredPart&)>& fetch) {
  if (parts.empty() || !std::all_of(parts.begin(), parts.end(), [](const auto& p) { return p.has_value(); })) return {};
  const ForeignTensor& first = *parts.front();
  int64_t count = 0, columns = 0;
  bool stored = true;
  std::vector<TensorFigures> figures;
  for (const auto& p : parts) {
    if (p->dtype != first.dtype) return {};
    const int64_t last = p->shape.rank() ? p->shape[-1] : 1;
    count += p->shape.count(), columns = join_rows ? last : columns + last;
    stored &= !p->stored.file.empty();
    figures.push_back(p->figures);
  }
  r.dtype = first.dtype, r.join_rows = join_rows;
  r.shape = parts.size() == 1 && first.shape.rank() <= 1 ? first.shape : Shape{columns ? count / columns : 0, columns};
  if (!stored) {
    r.figures = joined_figures(figures);
    return r;
  }
  for (const auto& p : parts) r.parts.push_back(p->stored);
  const std::vector<std::byte> bytes = joined_parts(r, fetch);
  r.figures = figures_of(view_of(const_cast<std::byte*>(bytes.data()), r.dtype, r.shape), true);
  return r;
}

int64_t layers_in(const std::string& name) {
  const size_t at = name.find("model.layers.");
  return at == std::string::npos ? 0 : std::clamp<int64_t>(std::atoll(name.c_str() + at + 13), 0, 1 << 20) + 1;
}

}  // namespace ravine
