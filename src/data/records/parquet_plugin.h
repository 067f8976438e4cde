// Parquet lives in a library of its own (libravine_parquet.so), loaded when the first such file is read: Apache Arrow is large,
// and neither needed to build nor to start the program. This is all that both sides know of each other.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

inline constexpr int kRavineParquetVersion = 1;

struct RavineParquet {
  int version;
  // A file, or `size` bytes at `data` which stay until close. fields: names with a line end behind each; empty: all columns.
  // null: failed; error has why.
  void* (*open)(const char* path, const void* data, size_t size, const char* fields, char* error, size_t error_size);
  // The next row as a JSON object of `*size` bytes, valid until the next call. 1: a row, 0: the end, -1: failed.
  int (*next)(void* reader, const char** json, size_t* size, char* error, size_t error_size);
  double (*done)(void* reader);  // share of the rows that were read
  void (*close)(void* reader);
};

const RavineParquet* ravine_parquet();  // what the library gives
}
