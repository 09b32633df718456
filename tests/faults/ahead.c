/* A clock that is 10 minutes ahead while a file is there. /etc/ld.so.preload puts it before libc's (ld.so(8)). */
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) { return access("/run/faults.ahead", F_OK) == 0 ? 600 : 0; }

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = syscall(SYS_clock_gettime, clock, now);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead();
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int code = syscall(SYS_gettimeofday, now, zone);
    if (code == 0)
        now->tv_sec += ahead();
    return code;
}

time_t time(time_t *place)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place)
        *place = now.tv_sec;
    return now.tv_sec;
}
