// The interface of the Parquet library libravine_parquet.so, which is loaded when the first Parquet or Arrow file is
// read. Apache Arrow is large, and the program is built and starts without it. Both sides share this header only.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

inline constexpr int kRavineParquetVersion = 1;

struct RavineParquet {
  int version;
  // Opens a file, or `size` bytes at `data`, which must remain valid until close. fields: names, each followed by a
  // line end; empty: all columns. Returns null on failure, with the message in `error`.
  void* (*open)(const char* path, const void* data, size_t size, const char* fields, char* error, size_t error_size);
  // Reads the next row as a JSON object of `*size` bytes, valid until the next call. Returns 1: a row; 0: the end; -1:
  // failure.
  int (*next)(void* reader, const char** json, size_t* size, char* error, size_t error_size);
  double (*done)(void* reader);  // share of the rows that were read
  void (*close)(void* reader);
};

const RavineParquet* ravine_parquet();  // the entry point of the library
}
