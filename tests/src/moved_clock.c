/* A wall clock that a test moves while the program runs: it is wrong by as many milliseconds as the file says that QUEUE_TEST_CLOCK names, a
   64-bit number in the order of this machine's bytes. The monotonic clock stays as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile long long *moved_ms;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("QUEUE_TEST_CLOCK");
    int file = name ? open(name, O_RDONLY) : -1;
    void *seen = file < 0 ? MAP_FAILED : mmap(0, sizeof *moved_ms, PROT_READ, MAP_SHARED, file, 0);
    if (seen == MAP_FAILED) {
        abort();
    }
    moved_ms = seen;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) {
        real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    }
    int failed = real(at, zone);
    if (!failed && moved_ms) {
        at->tv_sec += *moved_ms / 1000;
    }
    return failed;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) {
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int failed = real(clock, at);
    if (!failed && moved_ms && clock == CLOCK_REALTIME) {
        at->tv_sec += *moved_ms / 1000;
    }
    return failed;
}
