/* How fast a program of two ranks runs, once it runs.
 *
 *   speed [-v]
 *
 * Rank 0 prints a line for each figure: NAME QUICK MEDIAN, in microseconds, of many short batches. One batch of twenty
 * is quicker than QUICK. Neighbours on the machine disturb many batches, so QUICK is what two runs are compared by. The
 * quickest one of all is less steady: a virtual machine's clock of CPU time sometimes leaves time out.
 * -v  Open MPI says how the ranks of a node copy messages, and there are no more batches than that takes
 *
 * Each rank has a CPU of its own, by its number in the whole job: the nodes of a rehearsal cluster share the CPUs.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MEGABYTE = 1000000, LARGEST = 4 * MEGABYTE, PASSES = 20, MOST = 500 };
static const double SECONDS = 0.15; /* for each figure */

static int rank, passes = PASSES;
static char *buffer;

static void fail(const char *problem) {
    fprintf(stderr, "speed: %s\n", problem);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Stay on the CPU of this rank's number, of those that the process may use. */
static int pin(void) {
    cpu_set_t allowed, mine;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        fail("the CPUs of this process are not known");
    int wanted = rank % CPU_COUNT(&allowed), cpu = -1;
    while (wanted >= 0)
        wanted -= CPU_ISSET(++cpu, &allowed) != 0;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    if (sched_setaffinity(0, sizeof mine, &mine) != 0)
        fail("this process cannot be bound to a CPU");
    return cpu;
}

/* Microseconds of one message: half of a round trip. */
static double message(int bytes, int rounds) {
    double begin = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - begin) / rounds / 2 * 1e6;
}

static double small(void) { return message(8, 50); }
static double megabyte(void) { return message(MEGABYTE, 4); }
static double largest(void) { return message(LARGEST, 2); }

static double allreduce(void) {
    const int rounds = 50;
    double one = 1, sum = 0, begin = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double end = MPI_Wtime();
    if (sum != 2)
        fail("the sum is wrong");
    return (end - begin) / rounds * 1e6;
}

/* Microseconds of CPU that a loop takes. All of it is user time, since the loop makes no system call. getrusage knows
   user time only to a tick of the kernel, which is longer than this. */
static double loop(void) {
    static volatile unsigned long last = 88172645463325252UL;
    unsigned long x = last;
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (int i = 0; i < 200000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    last = x;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return (end.tv_sec - begin.tv_sec) * 1e6 + (end.tv_nsec - begin.tv_nsec) / 1e3;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

struct figure {
    const char *name;
    double (*batch)(void); /* microseconds of one operation */
    int count;             /* batches in a pass */
    double times[PASSES * MOST];
};

static struct figure figures[] = {
    {"small", small}, {"megabyte", megabyte}, {"largest", largest}, {"allreduce", allreduce}, {"loop", loop},
};
enum { FIGURES = sizeof figures / sizeof *figures };

/* Warm up, and find how many batches fit into the time of a pass. */
static void prepare(struct figure *figure) {
    figure->batch();
    double begin = MPI_Wtime();
    figure->batch();
    int count = (int)(SECONDS / PASSES / (MPI_Wtime() - begin));
    figure->count = count < 1 || passes == 1 ? 1 : count > MOST ? MOST : count;
    MPI_Bcast(&figure->count, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

static void pass(struct figure *figure, int number) {
    for (int i = 0; i < figure->count; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        figure->times[number * figure->count + i] = figure->batch();
    }
}

static void print(struct figure *figure) {
    int count = passes * figure->count;
    qsort(figure->times, count, sizeof *figure->times, ascending);
    printf("%s %.4f %.4f\n", figure->name, figure->times[count / 20], figure->times[count / 2]);
}

int main(int argc, char **argv) {
    int size, option;
    char host[256] = "";

    while ((option = getopt(argc, argv, "v")) != -1) {
        if (option != 'v')
            return 2;
        setenv("OMPI_MCA_smsc_base_verbose", "100", 1);
        passes = 1;
    }
    setenv("OMPI_MCA_mpi_yield_when_idle", "0", 1); /* nobody else wants these CPUs, whatever the site's files say */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        fail("it needs two ranks");
    gethostname(host, sizeof host - 1);
    printf("rank %d of %d on %s CPU %d\n", rank, size, host, pin());
    buffer = malloc(LARGEST);
    if (!buffer)
        fail("there is no memory for a message");
    memset(buffer, rank, LARGEST);

    for (int i = 0; i < FIGURES; i++)
        prepare(&figures[i]);
    for (int number = 0; number < passes; number++) /* in turns, since a machine is quicker at one moment than at another */
        for (int i = 0; i < FIGURES; i++)
            pass(&figures[i], number);
    for (int i = 0; rank == 0 && i < FIGURES; i++)
        print(&figures[i]);
    MPI_Finalize();
    return 0;
}
