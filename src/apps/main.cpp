#include "apps/program.h"

int main(int argc, char** argv) { return ravine::program(argc, argv); }
