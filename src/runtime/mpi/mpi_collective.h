// The processes that mpirun started. In a library of its own, lathe_mpi, where the build finds MPI.
#pragma once
#include "runtime/collective.h"

#include <memory>

namespace lathe {

// Starts MPI, once in a process, and ends it with the object. `argc` and `argv` are those of main.
std::unique_ptr<Collective> make_mpi_collective(int* argc, char*** argv);

}  // namespace lathe
