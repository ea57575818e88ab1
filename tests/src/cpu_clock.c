/* Lets a server measure its commands by the CPU time of its main thread. Whoever else is on the machine may set that thread aside in
   the middle of a command, and a clock on the wall would count it. So the wall clock of this thread goes on only while it runs, and is
   right again whenever it has looked for events: what waits for a time waits for the right one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <time.h>

/* To ask for the CPU time takes longer than most commands of a script. Who is set aside is so for longer than this: what is shorter
   counts as it is, in nanoseconds. */
#define SHORT 50000

static __thread int is_main;
/* What the clock says, and when it was asked last. */
static long long told, asked;
/* What it said when the CPU time was asked for last, and that. */
static long long base, cpu;

static long long now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void right(void) {
    told = base = now(CLOCK_REALTIME);
    asked = now(CLOCK_MONOTONIC);
    cpu = now(CLOCK_THREAD_CPUTIME_ID);
}

static void go_on(void) {
    long long at = now(CLOCK_MONOTONIC), passed = at - asked;
    asked = at;
    if (passed < SHORT) {
        told += passed;
        return;
    }
    long long used = now(CLOCK_THREAD_CPUTIME_ID);
    base += used - cpu;
    cpu = used;
    /* The short times may have been longer than what was used. */
    if (base > told) {
        told = base;
    }
    base = told;
}

/* A child that writes a file has the clock on the wall. */
static void in_child(void) {
    is_main = 0;
}

__attribute__((constructor)) static void begin(void) {
    is_main = 1;
    pthread_atfork(0, 0, in_child);
    right();
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) {
        real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    }
    int failed = real(at, zone);
    if (!failed && is_main) {
        go_on();
        at->tv_sec = told / 1000000000;
        at->tv_usec = told / 1000 % 1000000;
    }
    return failed;
}

int epoll_wait(int events, struct epoll_event *found, int most, int ms) {
    static int (*real)(int, struct epoll_event *, int, int);
    if (!real) {
        real = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    }
    int ready = real(events, found, most, ms);
    if (is_main) {
        right();
    }
    return ready;
}
