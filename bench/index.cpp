// Measures the speed of Megatron's indices: of building a sample index, and of opening a large .idx file.
// bench/index.py compares with megatron/core/datasets/helpers.cpp. Build: cmake --build --preset release --target
// bench_index
//
//   bench_index sample LENGTHS DOCUMENTS SAMPLES SEQUENCE_LENGTH   raw int32 files; prints seconds and the checksum;
//   bench_index checksum FILE                                      prints the checksum of another program's index;
//   bench_index open PREFIX                                        prints seconds and resident megabytes.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "data/indexed/indexed_file.h"
#include "data/megatron/indices.h"
#include "files/checksum.h"

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double resident_mb() {
  long pages = 0, all = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return static_cast<double>(pages) * 4096 / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ravine;
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "sample" && argc == 6) {
    const MappedFile lengths(argv[2], MappedFile::Use::sequential), documents(argv[3], MappedFile::Use::sequential);
    // Reads both files into memory before the time is measured, as the helper of Megatron has them.
    const std::vector<std::byte> sizes(lengths.bytes().begin(), lengths.bytes().end());
    std::vector<int32_t> index(documents.bytes().size() / 4);
    std::memcpy(index.data(), documents.bytes().data(), documents.bytes().size());
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<int32_t> samples = build_sample_index(sizes, index, std::stoll(argv[4]), std::stoll(argv[5]), 1);
    const double seconds = seconds_since(begin);
    std::printf("{\"seconds\": %.4f, \"checksum\": \"%s\"}\n", seconds,
                checksum_text(checksum_of(std::as_bytes(std::span(samples)))).c_str());
  } else if (what == "checksum" && argc == 3) {
    std::printf("{\"checksum\": \"%s\"}\n", checksum_text(checksum_of_file(argv[2])).c_str());
  } else if (what == "open" && argc == 3) {
    const double before = resident_mb();
    const auto begin = std::chrono::steady_clock::now();
    const IndexedFile file{argv[2]};
    const double seconds = seconds_since(begin);
    std::printf("{\"seconds\": %.6f, \"documents\": %lld, \"resident_mb\": %.2f}\n", seconds,
                static_cast<long long>(file.documents()), resident_mb() - before);
  } else {
    std::fprintf(stderr, "bench_index sample LENGTHS DOCUMENTS SAMPLES SEQUENCE_LENGTH | checksum FILE | open PREFIX\n");
    return 2;
  }
}
