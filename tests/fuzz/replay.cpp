// fuzz_replay CORPUS [NAME...]: runs each fuzz target on its kept inputs (CORPUS/NAME/*), as libFuzzer does at its
// start. An input that ends the process is printed.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#define REPLAYED(name) extern "C" int replay_##name(const uint8_t* data, size_t size);
#include "fuzz_targets.inc"
#undef REPLAYED

namespace {

struct Target {
  std::string_view name;
  int (*run)(const uint8_t*, size_t);
};
#define REPLAYED(name) {#name, replay_##name},
constexpr Target kTargets[] = {
#include "fuzz_targets.inc"
};

std::string g_input;

void print_input(int signal) {
  const char message[] = "fuzz_replay ended at ";
  if (write(2, message, sizeof message - 1) < 0 || write(2, g_input.c_str(), g_input.size()) < 0 || write(2, "\n", 1) < 0)
    _exit(1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

int64_t replay(const Target& target, const std::filesystem::path& folder) {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    g_input = entry.path().string();
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
    target.run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++count;
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, print_input);
  const std::filesystem::path corpus = argv[1];
  int64_t inputs = 0, targets = 0;
  for (const Target& target : kTargets) {
    bool selected = argc == 2;
    for (int i = 2; i < argc; ++i) selected = selected || target.name == argv[i];
    if (!selected) continue;
    const int64_t count = std::filesystem::is_directory(corpus / target.name) ? replay(target, corpus / target.name) : 0;
    if (count == 0) std::printf("%s has no inputs\n", std::string(target.name).c_str());
    inputs += count, targets += count > 0;
  }
  std::printf("%lld inputs of %lld targets\n", static_cast<long long>(inputs), static_cast<long long>(targets));
  return inputs == 0;
}
