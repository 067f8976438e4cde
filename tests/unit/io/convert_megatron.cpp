// Contents of Megatron files that Ravine's conversions never write: experts, and optimizers in other orders.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "files/torch_save.h"
#include "io/convert/megatron_folder.h"
#include "tests/unit/files_temporary.h"

using namespace ravine;

namespace test_convert_megatron {

using Values = std::function<void(TorchSave&)>;

// A rank's file: arguments, two tensors a [2,3] and b [3], and what `optimizer` writes; the tensors' data counts up.
void write_rank(const std::string& folder, const std::string& name, const Values& arguments,
                const std::vector<Shape>& more = {}, const Values& optimizer = {}) {
  std::filesystem::create_directories(folder + "/mp_rank_00");
  TorchSave out(folder + "/mp_rank_00/model_optim_rng.pt");
  out.begin_dict();
  out.text("args"), out.begin_namespace();
  out.text("tensor_model_parallel_size"), out.integer(1);
  if (arguments) arguments(out);
  out.end();
  out.text("checkpoint_version"), out.real(3.0);
  out.text("iteration"), out.integer(9);
  out.text("model"), out.begin_ordered_dict();
  out.text(name), out.tensor(DType::f16, {2, 3});
  out.text("decoder.final_layernorm.weight"), out.tensor(DType::f16, {3});
  out.end();
  if (optimizer) optimizer(out);
  out.end();
  std::vector<Shape> shapes{{2, 3}, {3}};
  std::vector<uint16_t> zero(9);
  for (const Shape& s : shapes) out.write(std::as_bytes(std::span(zero)).first(static_cast<size_t>(s.count() * 2)));
  float at = 1;
  for (const Shape& s : more) {
    std::vector<float> v(static_cast<size_t>(s.count()));
    for (float& x : v) x = at++;
    out.write(std::as_bytes(std::span(v)));
  }
  out.commit();
}

constexpr const char* kTable = "embedding.word_embeddings.weight";

std::string refusal(const std::string& folder, StateKind kind = StateKind::weights) {
  try {
    open_megatron(folder, kind);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(Megatron, ExpertRanksThatAreNotThere) {
  TemporaryFolder folder;
  write_rank(folder / "good", kTable, {});
  EXPECT_EQ(refusal(folder / "good"), "");
  write_rank(folder / "ranks", kTable, [](TorchSave& out) { out.text("expert_model_parallel_size"), out.integer(2); });
  EXPECT_NE(refusal(folder / "ranks").find("expert_model_parallel_size = 2, the folder holds 1"), std::string::npos);
}

// Moments of parameters numbered 0, 1, ... of these shapes, in groups of these sizes.
Values adam(const std::vector<std::vector<Shape>>& groups) {
  return [groups](TorchSave& out) {
    out.text("optimizer"), out.begin_dict();
    out.text("state"), out.begin_dict();
    int64_t number = 0;
    for (const auto& g : groups)
      for (const Shape& s : g) {
        out.integer(number++), out.begin_dict();
        out.text("step"), out.integer(4);
        out.text("exp_avg"), out.tensor(DType::f32, s);
        out.text("exp_avg_sq"), out.tensor(DType::f32, s);
        out.end();
      }
    out.end();
    out.text("param_groups"), out.begin_list();
    number = 0;
    for (const auto& g : groups) {
      out.begin_dict();
      out.text("params"), out.begin_list();
      for (size_t i = 0; i < g.size(); ++i) out.integer(number++);
      out.end();
      out.end();
    }
    out.end();
    out.end();
  };
}

TEST(Megatron, MomentsByNumberAndShape) {
  const Shape matrix{2, 3}, vector{3};
  const struct {
    const char* name;
    std::vector<std::vector<Shape>> groups;
    float first_of_matrix;  // element 0 of its second moment; 0: refused
  } cases[] = {
      {"apart", {{matrix}, {vector}}, 7},
      {"vectors first", {{vector}, {matrix}}, 13},
      {"together", {{matrix, vector}}, 7},
      {"another order", {{vector, matrix}}, 0},
      {"one is missing", {{matrix}}, 0},
      {"twice", {{matrix}, {matrix}}, 0},
      {"other sizes", {{Shape{3, 2}}, {vector}}, 0},
  };
  for (const auto& c : cases) {
    TemporaryFolder folder;
    std::vector<Shape> data;
    for (const auto& g : c.groups)
      for (const Shape& s : g) data.push_back(s), data.push_back(s);
    write_rank(folder / "x", kTable, {}, data, adam(c.groups));
    if (c.first_of_matrix == 0) {
      EXPECT_NE(refusal(folder / "x", StateKind::second_moment).find("optimizer state cannot be read"), std::string::npos)
          << c.name;
      continue;
    }
    const MegatronFolder f = open_megatron(folder / "x", StateKind::second_moment);
    float value = 0;
    f.ranks[0].chunks[0][0].elements->read(0, std::as_writable_bytes(std::span(&value, 1)));
    EXPECT_EQ(value, c.first_of_matrix) << c.name;
    EXPECT_EQ(optimizer_steps(*f.ranks[0].file), 4);
    EXPECT_EQ(refusal(folder / "x", StateKind::masters), "");  // a run in f32 has no others
  }
  TemporaryFolder folder;
  write_rank(folder / "none", kTable, {});
  EXPECT_NE(refusal(folder / "none", StateKind::first_moment).find("it must hold 'optimizer'"), std::string::npos);
}

}  // namespace test_convert_megatron
