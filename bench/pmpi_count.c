/* Counts the bytes that a rank hands to MPI for others, from outside the program: mpicc -shared -fPIC -o count.so pmpi_count.c, then
 * mpirun -x LD_PRELOAD=./count.so ... Each rank prints its total when it ends. A gather sends what is mine to every other rank, an exchange one
 * piece to every other rank. */
#include <mpi.h>
#include <stdio.h>

static double gathered, exchanged, sent;

static double bytes(int count, MPI_Datatype type) {
  int size;
  PMPI_Type_size(type, &size);
  return (double)count * size;
}

static int others(MPI_Comm comm) {
  int n;
  PMPI_Comm_size(comm, &n);
  return n - 1;
}

int MPI_Iallgather(const void* s, int sc, MPI_Datatype st, void* r, int rc, MPI_Datatype rt, MPI_Comm comm, MPI_Request* q) {
  gathered += others(comm) * bytes(rc, rt); /* in place the sending type is not looked at */
  return PMPI_Iallgather(s, sc, st, r, rc, rt, comm, q);
}

int MPI_Ialltoall(const void* s, int sc, MPI_Datatype st, void* r, int rc, MPI_Datatype rt, MPI_Comm comm, MPI_Request* q) {
  exchanged += others(comm) * bytes(sc, st);
  return PMPI_Ialltoall(s, sc, st, r, rc, rt, comm, q);
}

int MPI_Isend(const void* s, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request* q) {
  sent += bytes(n, t);
  return PMPI_Isend(s, n, t, to, tag, comm, q);
}

int MPI_Finalize(void) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "pmpi rank %d gathered %.0f exchanged %.0f sent %.0f total %.0f\n", rank, gathered, exchanged, sent, gathered + exchanged + sent);
  return PMPI_Finalize();
}
