/* Moves the wall clock of a process by FAULTS_CLOCK_MS milliseconds, its monotonic clock stays; gives it the number FAULTS_PID. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    static long long moved;
    if (!real) {
        const char *ms = getenv("FAULTS_CLOCK_MS");
        moved = ms ? atoll(ms) : 0;
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int failed = real(clock, at);
    if (!failed && clock == CLOCK_REALTIME) {
        at->tv_sec += moved / 1000;
    }
    return failed;
}

pid_t getpid(void) {
    const char *pid = getenv("FAULTS_PID");
    return pid ? (pid_t)atol(pid) : (pid_t)syscall(SYS_getpid);
}
