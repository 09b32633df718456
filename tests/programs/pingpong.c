/* How fast two ranks exchange messages of 1 byte to 4 MB.
 *
 *   pingpong [-p] [-n ROUNDS]
 *
 * Ranks 0 and 1 by default; with -p all pairs (0,1), (2,3) … at once.
 * Rank 0 prints one line per size: SIZE bytes MB/s (of its own pair).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 4 * 1024 * 1024 };

static void play(char *buffer, int bytes, int rounds, int rank) {
    for (int i = 0; i < rounds; i++) {
        if (rank % 2 == 0) {
            MPI_Send(buffer, bytes, MPI_BYTE, rank + 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, rank + 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv) {
    int rank, size, option, pairs = 0, rounds = 20;

    MPI_Init(&argc, &argv);
    while ((option = getopt(argc, argv, "pn:")) != -1) {
        switch (option) {
        case 'p': pairs = 1; break;
        case 'n': rounds = atoi(optarg); break;
        default: MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "pingpong needs two ranks, there is one\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    char *buffer = malloc(LARGEST);
    if (!buffer)
        MPI_Abort(MPI_COMM_WORLD, 4);
    memset(buffer, rank, LARGEST);
    int plays = pairs ? rank < size / 2 * 2 : rank < 2;

    for (int bytes = 1; bytes <= LARGEST; bytes *= 4) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (plays) {
            play(buffer, bytes, 1, rank);
            double begin = MPI_Wtime();
            play(buffer, bytes, rounds, rank);
            double seconds = MPI_Wtime() - begin;
            if (rank == 0) {
                printf("%d bytes %.2f MB/s\n", bytes, 2.0 * rounds * bytes / seconds / 1e6);
                fflush(stdout);
            }
        }
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
