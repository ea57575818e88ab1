/* Writes down in FAULTS_DISK what a process does to the database and the histories beside that file: each change after it was
   made, each wait for the disk before and after it. All processes append to one file, so that it has the order of things. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct head {
    uint32_t kind, thread;
    uint64_t at;
    uint32_t name, bytes;
};

static int disk = -1;
static char folder[1024];

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_DISK");
    const char *name = path ? strrchr(path, '/') : 0;
    if (!name || (size_t)(name - path) >= sizeof folder - 1) {
        return;
    }
    memcpy(folder, path, name - path + 1);
    disk = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static int ends(const char *name, const char *with) {
    size_t length = strlen(name), end = strlen(with);
    return length >= end && !strcmp(name + length - end, with);
}

/* The name of an open file, if it is written about. */
static const char *watched(int file, char *path, size_t size) {
    char link[32];
    if (disk < 0) {
        return 0;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, size - 1);
    if (length <= 0) {
        return 0;
    }
    path[length] = 0;
    size_t before = strlen(folder);
    if (strncmp(path, folder, before)) {
        return 0;
    }
    const char *name = path + before;
    return ends(name, ".db") || ends(name, ".db-wal") || ends(name, ".jsonl") ? name : 0;
}

static void note(char kind, const char *name, uint64_t at, const void *bytes, size_t length) {
    struct head head = {kind, (uint32_t)syscall(SYS_gettid), at, (uint32_t)strlen(name), (uint32_t)length};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)name, head.name}, {(void *)bytes, length}};
    ssize_t whole = sizeof head + head.name + length;
    if (writev(disk, parts, 3) != whole) {
        abort();
    }
}

#define REAL(result, function, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #function)

static ssize_t written(int file, const void *bytes, ssize_t length, off_t at) {
    char path[1024];
    const char *name = length > 0 ? watched(file, path, sizeof path) : 0;
    if (name) {
        note('W', name, at < 0 ? lseek(file, 0, SEEK_CUR) - length : at, bytes, length);
    }
    return length;
}

ssize_t write(int file, const void *bytes, size_t length) {
    REAL(ssize_t, write, int, const void *, size_t);
    return written(file, bytes, real(file, bytes, length), -1);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    return written(file, bytes, real(file, bytes, length, at), at);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off_t at) {
    return pwrite(file, bytes, length, at);
}

int ftruncate(int file, off_t length) {
    REAL(int, ftruncate, int, off_t);
    char path[1024];
    int failed = real(file, length);
    const char *name = failed ? 0 : watched(file, path, sizeof path);
    if (name) {
        note('T', name, length, "", 0);
    }
    return failed;
}

int ftruncate64(int file, off_t length) {
    return ftruncate(file, length);
}

static int waited(int file, int (*real)(int)) {
    char path[1024];
    const char *name = watched(file, path, sizeof path);
    if (name) {
        note('B', name, 0, "", 0);
    }
    int failed = real(file);
    if (name && !failed) {
        note('E', name, 0, "", 0);
    }
    return failed;
}

int fsync(int file) {
    REAL(int, fsync, int);
    return waited(file, real);
}

int fdatasync(int file) {
    REAL(int, fdatasync, int);
    return waited(file, real);
}
