// Weights read cut: every rank of a mesh gets the right elements of every parameter, and reads no others.
#include "io/load_boxes.h"

#include <gtest/gtest.h>

#include <cstring>

#include "files/safetensors.h"
#include "io/huggingface.h"
#include "parallel/inference_store.h"
#include "parallel/stage.h"
#include "tests/unit/families.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_io_load_boxes {

std::map<std::string, Json> configs() {
  std::map<std::string, Json> tiny = tiny_families(), out;
  for (const char* name : {"gpt2", "bloom", "pythia", "baichuan-7b", "qwen2", "qwen3", "deepseek_v3"}) {
    Json c = tiny.at(name);
    for (const char* key : {"num_attention_heads", "n_head"})
      if (c.contains(key)) c[key] = 4;
    if (c.contains("num_key_value_heads")) c["num_key_value_heads"] = 2;
    for (const char* key : {"hidden_size", "n_embd", "n_embed"})
      if (c.contains(key)) c[key] = 16;
    if (c.contains("kv_lora_rank")) c["intermediate_size"] = 64;  // so that every data rank has something of each stage
    out[name] = c;
  }
  return out;
}

template <class T>
bool equal(double a, T b) {
  return static_cast<float>(static_cast<T>(static_cast<float>(a))) == static_cast<float>(b);
}

// Every element of the box equals the element of the whole; elements beyond the parameter are unchanged.
void expect_box(const ParamBox& box, const TensorView& whole, const std::string& where) {
  const Shape& shape = box.view.shape;
  const int64_t columns = shape.rank() == 2 ? shape[1] : 1, width = whole.shape.rank() == 2 ? whole.shape[1] : 1;
  visit_float(box.view.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t row = box.begin[0] + i, column = (shape.rank() == 2 ? box.begin[1] : 0) + j;
        const double want = row < whole.shape[0] ? whole.as<float>()[row * width + column] : 0;
        ASSERT_TRUE(equal(want, box.view.as<T>()[i * columns + j])) << where << " " << box.param->name << " " << i << " " << j;
      }
  });
}

TEST(LoadBoxes, EveryRankHasItsPart) {
  for (auto& [name, config] : configs()) {
    TinyRun one(config, DType::f32, Recompute::none);
    for (DType stored : {DType::f32, DType::bf16}) {
      TemporaryFolder dir;
      save_model_folder({dir / "m", stored}, *one.model, one.store);
      // Returns the file's values, rounded.
      auto whole_model = make_model(config, "test");
      FlatStore whole(whole_model->params(), Types::of(DType::f32), DeviceKind::cpu);
      load_weights(dir / "m", *whole_model, whole);
      for (Mesh mesh : {Mesh{1, 1, 2}, Mesh{1, 1, 4}, Mesh{2, 1, 1}, Mesh{2, 1, 2}, Mesh{1, 3, 1}, Mesh{2, 2, 2}})
        for (int rank = 0; rank < mesh.ranks(); ++rank) {
          const std::string where = fmt::format("{} {} of {} x {} x {}", name, rank, mesh.pipeline, mesh.data, mesh.tensor);
          auto model = make_model(config, "test");
          const Ranks ranks = Ranks::fake(mesh, rank);
          const std::vector<int> stages = stages_of_units(*model, split_model(*model, mesh.pipeline, {}), mesh.pipeline);
          InferenceStore running(model->params(), Types::of(DType::bf16), DeviceKind::cpu, ranks, stages);
          FlatStore training(model->params(), Types::of(DType::f32), DeviceKind::cpu,
                             {.stages = stages, .zero = 3, .whole_below = 50, .ranks = &ranks});
          for (WeightSource* store : {static_cast<WeightSource*>(&running), static_cast<WeightSource*>(&training)}) {
            load_weights(dir / "m", *model, *store);
            int64_t elements = 0;
            for (const ParamBox& box : store->boxes()) {
              expect_box(box, whole.master(*whole_model->params().find(box.param->name)), where);
              elements += box.view.count();
            }
            EXPECT_GT(elements, 0) << where;
            if (mesh.tensor > 1 || mesh.pipeline > 1 || store == &training) {
              EXPECT_LT(elements, one.model->params().count()) << where;
            }
          }
          for (const Unit& unit : model->params().units())
            for (const Param* p : unit.params)
              if (stages[unit.index] == ranks.at().pipeline) {
                EXPECT_EQ(running.value(*p).shape, local_shape(p->tied ? *p->tied : *p, mesh.tensor))
                    << where << " " << p->name;
              }
        }
    }
  }
}

class Counting : public TensorFile {
 public:
  explicit Counting(const std::string& path) : file_(path) {}
  const std::string& path() const override { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const override { return file_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return file_.find(name); }
  std::span<const std::byte> bytes(const TensorInfo& t) const override { return file_.bytes(t); }
  void read(const TensorInfo& t, int64_t offset, std::span<std::byte> into) const override {
    read_bytes += static_cast<int64_t>(into.size());
    file_.read(t, offset, into);
  }
  mutable int64_t read_bytes = 0;

 private:
  SafetensorsReader file_;
};

TEST(LoadBoxes, NothingElseIsRead) {
  for (const char* name : {"qwen2", "gpt2"}) {
    Json config = tiny_families().at(name);
    for (const char* key : {"hidden_size", "n_embd", "intermediate_size"})
      if (config.contains(key)) config[key] = 1024;  // half a row is not short
    for (const char* key : {"num_attention_heads", "n_head"})
      if (config.contains(key)) config[key] = 2;
    if (config.contains("head_dim")) config["head_dim"] = 512;
    config[config.contains("n_layer") ? "n_layer" : "num_hidden_layers"] = 2;
    auto model = make_model(config, "test");
    FlatStore store(model->params(), Types::of(DType::f32), DeviceKind::cpu);
    TemporaryFolder dir;
    save_model_folder({dir / "m", DType::f32, 0}, *model, store);
    const Counting file(dir / "m/model.safetensors");
    for (Mesh mesh : {Mesh{1, 1, 2}, Mesh{2, 1, 1}, Mesh{2, 1, 2}}) {
      const Ranks ranks = Ranks::fake(mesh, mesh.ranks() - 1);
      const std::vector<int> stages = stages_of_units(*model, split_model(*model, mesh.pipeline, {}), mesh.pipeline);
      InferenceStore part(model->params(), Types::of(DType::f32), DeviceKind::cpu, ranks, stages);
      std::vector<std::vector<ParamBox>> boxes(model->params().params().size());
      int64_t held = 0;
      for (const ParamBox& box : part.boxes()) {
        boxes[box.param->index].push_back(box);
        const int64_t rows = std::min(box.view.shape[0], box.param->shape[0] - box.begin[0]);  // without padding
        held += box.view.bytes() / std::max<int64_t>(1, box.view.shape[0]) * rows;
      }
      std::vector<BoxRead> reads;
      for (const FileTensor& t : model->files().tensors) plan_reads(file, *file.find(t.name), t, boxes, reads);
      file.read_bytes = 0;
      std::vector<std::byte> scratch;
      for (const BoxRead& read : reads) run_read(read, scratch);
      EXPECT_EQ(file.read_bytes, held) << name << " " << mesh.pipeline << " " << mesh.tensor;
    }
  }
}

}  // namespace test_io_load_boxes
}  // namespace ravine
