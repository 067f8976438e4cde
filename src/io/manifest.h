// The manifest.json of a checkpoint: the contents of each file, with checksums. Untrusted input: any fault is a
// UserError that names the file and the tensor or key.
//
//   {"checksum":"<16 digits>",          XXH3-64 of the file with these digits as zeros; always at this place;
//    "format":"ravine-checkpoint","version":2,"step":200,"program":"ravine 1.2.3","instructions":"avx512",
//    "files":[{"name":"state-00000.safetensors","bytes":N,"header":"<XXH3-64 of all before the data part>"}],
//    "tensors":[{"name":"weights/a","dtype":"F32","shape":[4,8],"slices":[
//        {"file":0,"stored":"weights/a","begin":[0,0],"shape":[4,8],"checksum":"<of the slice's bytes>"}]}],
//    "scalars":{...}}
//
// A checkpoint of version 2 may lack the weights of frozen parameters. These weights are then read from the model
// folder that the run started from (scalars: "frozen" has their names, "weights" the folder's checksum). Version 1 has
// all weights and is read too.
#pragma once
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "io/slices.h"

namespace ravine {

// The contents of a manifest.json.
struct Manifest {
  struct File {
    std::string name;
    int64_t bytes = 0;
    uint64_t header = 0;
  };
  struct Slice {
    size_t file = 0;
    std::string stored;  // name of the tensor in the file
    Box box;
    uint64_t checksum = 0;
  };
  struct Tensor {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;  // shape of the whole tensor over all ranks
    std::vector<Slice> slices;
  };
  int64_t step = 0;
  std::string program, instructions;
  std::vector<File> files;
  std::vector<Tensor> tensors;
  Json scalars = Json::object();
};

inline constexpr int kManifestVersion = 2, kOldestManifest = 1;  // version written; oldest version read
inline constexpr const char* kPadding = "~pad.";                 // names of padding tensors, filled with zeros

std::string write_manifest(const Manifest& manifest);  // returns the text with its checksum
Manifest parse_manifest(const std::string& text, const std::string& where);
std::string seal_manifest(std::string text);  // returns the text with the checksum in its field

// Returns the first tensor whose slices do not cover it exactly once, as "tensor 'x': why"; "" if none.
std::string manifest_fault(const Manifest& manifest);

// Parses the part of a manifest that a rank sends to rank 0: a manifest of the rank's file alone. Coverage is not
// checked.
Manifest parse_part(const std::string& text, const std::string& where);
// Appends to `manifest` the files, tensors and slices of `part`, the manifest of one rank's file. Tensors that differ
// in dtype or shape are an Error.
void merge_part(Manifest& manifest, const Manifest& part);

}  // namespace ravine
