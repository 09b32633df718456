/* The least an MPI job can prove: who I am, where, and that all of us can talk.
 *
 *   hello [-e NAME] [-s SECONDS] [-x CODE] [-k SIGNAL] [-g]
 *
 * Each rank prints one line: rank R of N on HOST sum S VAR=<value> [gpus=<list>]
 * -e  the variable to show        -s  sleep before the end
 * -x  exit code of the last rank  -k  the last rank kills itself with this signal, and the others wait for their end
 * -g  show CUDA_VISIBLE_DEVICES
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *name = NULL;
    int seconds = 0, code = 0, sig = 0, gpus = 0, option;
    int rank, size, one, sum = 0;
    char host[256] = "";

    MPI_Init(&argc, &argv);
    while ((option = getopt(argc, argv, "e:s:x:k:g")) != -1) {
        switch (option) {
        case 'e': name = optarg; break;
        case 's': seconds = atoi(optarg); break;
        case 'x': code = atoi(optarg); break;
        case 'k': sig = atoi(optarg); break;
        case 'g': gpus = 1; break;
        default: MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host - 1);

    one = rank + 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size + 1) / 2) {
        fprintf(stderr, "rank %d: the sum is %d, not %d\n", rank, sum, size * (size + 1) / 2);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }

    /* One write per line, so that lines of different ranks do not mix. */
    char line[65536];
    const char *value = name ? getenv(name) : NULL;
    const char *cuda = getenv("CUDA_VISIBLE_DEVICES");
    int length = snprintf(line, sizeof line, "rank %d of %d on %s sum %d VAR=%s%s%s\n", rank, size,
                          host, sum, value ? value : "", gpus ? " gpus=" : "",
                          gpus && cuda ? cuda : "");
    if (length >= (int)sizeof line)
        length = sizeof line - 1;
    fwrite(line, 1, length, stdout);
    fflush(stdout);

    if (seconds)
        sleep(seconds);
    if (sig) {
        /* By then the others use no MPI, which might fail before anybody knows of the last rank: MPI_Ssend ends when
           its message has begun to be received, and one integer is all there at once. Who is still about to leave
           MPI_Recv sees no connection end, since a child keeps them open for a while. */
        if (rank == size - 1) {
            for (int other = 0; other < size - 1; other++)
                MPI_Ssend(&one, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
            if (fork() == 0) {
                for (int stream = 0; stream < 3; stream++)
                    close(stream);
                sleep(5);
                _exit(0);
            }
            raise(sig);
        } else
            MPI_Recv(&one, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pause();
    }
    MPI_Finalize();
    return rank == size - 1 ? code : 0;
}
