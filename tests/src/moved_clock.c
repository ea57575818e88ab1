/* A wall clock that a test moves while the program runs. The file that QUEUE_TEST_CLOCK names has two 64-bit numbers in the order of this
   machine's bytes: by how many milliseconds the clock is wrong, in whole seconds; and the milliseconds since 1970 at which it stands, or 0 if it
   runs. The monotonic clock stays as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile struct {
    long long moved_ms, stands_at_ms;
} *file_says;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("QUEUE_TEST_CLOCK");
    int file = name ? open(name, O_RDONLY) : -1;
    void *seen = file < 0 ? MAP_FAILED : mmap(0, sizeof *file_says, PROT_READ, MAP_SHARED, file, 0);
    if (seen == MAP_FAILED) {
        abort();
    }
    file_says = seen;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) {
        real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    }
    int failed = real(at, zone);
    long long ms = failed || !file_says ? 0 : file_says->stands_at_ms;
    if (ms) {
        at->tv_sec = ms / 1000;
        at->tv_usec = ms % 1000 * 1000;
    } else if (!failed && file_says) {
        at->tv_sec += file_says->moved_ms / 1000;
    }
    return failed;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) {
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int failed = real(clock, at);
    if (failed || !file_says || clock != CLOCK_REALTIME) {
        return failed;
    }
    long long ms = file_says->stands_at_ms;
    if (ms) {
        at->tv_sec = ms / 1000;
        at->tv_nsec = ms % 1000 * 1000000;
    } else {
        at->tv_sec += file_says->moved_ms / 1000;
    }
    return failed;
}
