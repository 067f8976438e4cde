// Runs commands of the program in child processes made by fork(), which is faster than a start. A child has its folder,
// environment, streams and exit status. tests/e2e/ravine_run.py uses it for scripts with thousands of commands; the
// full tier starts the program itself.
//
// A line of stdin is a JSON object {"args", "cwd", "env", "stdin", "stdout", "stderr"}: env is the whole environment,
// and streams are paths. The answer is the child's process id, then its status: 0 to 255, or minus the number of a
// signal.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/program.h"

namespace {

using Json = nlohmann::json;

// In the child; no return.
[[noreturn]] void become(const Json& job, char* self) {
  const auto stream = [&](const char* key, int flags, int to) {
    const int fd = open(job.at(key).get<std::string>().c_str(), flags | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, to) < 0) _exit(126);
  };
  stream("stdin", O_RDONLY, 0);
  stream("stdout", O_WRONLY | O_CREAT | O_TRUNC, 1);
  stream("stderr", O_WRONLY | O_CREAT | O_TRUNC, 2);
  if (chdir(job.at("cwd").get<std::string>().c_str()) != 0) _exit(126);
  clearenv();
  for (const auto& [name, value] : job.at("env").items()) setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  static std::vector<std::string> words = job.at("args").get<std::vector<std::string>>();
  static std::vector<char*> argv{self};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  program_invocation_name = self;  // messages call the program by it
  exit(ravine::program(static_cast<int>(argv.size()) - 1, argv.data()));
}

}  // namespace

// commands NAME: how the program is called in messages.
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (std::string line; std::getline(std::cin, line);) {
    const Json job = Json::parse(line);
    const pid_t child = fork();
    if (child == 0) become(job, argv[1]);
    if (child < 0) return 1;
    std::cout << child << std::endl;
    int status = 0;
    if (waitpid(child, &status, 0) != child) return 1;
    std::cout << (WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status)) << std::endl;
  }
}
