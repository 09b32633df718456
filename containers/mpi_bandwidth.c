/* Bandwidth between pairs of ranks, all pairs at once: best, average and worst for messages of 100 kB to 1 MB.
 *
 * Rank 0 is paired with the first rank of the second half, and so on: where ranks fill node after node, each pair is
 * on two nodes. A message goes there and back. The figures are for one way.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SMALLEST = 100000, LARGEST = 1000000, STEP = 100000, WARM = 2, ROUNDS = 20 };

static double exchange(char *buffer, int bytes, int peer, int first) { /* the MB/s of one message and its answer */
    double begin = MPI_Wtime();
    for (int turn = 0; turn < 2; turn++)
        if ((turn == 0) == first)
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 2.0 * bytes / (MPI_Wtime() - begin) / 1e6;
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *buffer = calloc(LARGEST, 1);
    if (size < 2 || size % 2 || !buffer) {
        if (rank == 0)
            fprintf(stderr, "mpi_bandwidth needs an even number of ranks, and has %d\n", size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int half = size / 2, first = rank < half, peer = first ? rank + half : rank - half;
    for (int bytes = SMALLEST; bytes <= LARGEST; bytes += STEP) {
        double mine = 0, best, worst, sum;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int round = 0; round < WARM + ROUNDS; round++) {
            double speed = exchange(buffer, bytes, peer, first);
            if (round >= WARM)
                mine += speed / ROUNDS;
        }
        MPI_Reduce(&mine, &best, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        MPI_Reduce(&mine, &worst, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
        MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
            printf("%7d bytes: best %.1f, average %.1f, worst %.1f MB/s\n", bytes, best, sum / size, worst);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
