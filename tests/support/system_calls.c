/* Writes down what a program asks the system to make durable, rename and remove, before it is done.
   Loaded into it with LD_PRELOAD; the file is named in STEPS_FILE, one line for each call, tabs between the parts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void note(const char *what, const char *one, const char *other) {
    const char *path = getenv("STEPS_FILE");
    char line[3 * PATH_MAX];
    int fd, length = snprintf(line, sizeof line, "%s\t%s%s%s\n", what, one, other ? "\t" : "", other ? other : "");
    if (path == NULL || (fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0) return;
    if (write(fd, line, length) != length) abort();
    close(fd);
}

static const char *file_of(int fd, char *found) {
    char link[64];
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, found, PATH_MAX - 1);
    found[length < 0 ? 0 : length] = '\0';
    return found;
}

static const char *path_at(int folder, const char *name, char *found) {
    char above[PATH_MAX];
    if (name[0] == '/' || folder == AT_FDCWD) snprintf(found, PATH_MAX, "%s", name);
    else snprintf(found, 2 * PATH_MAX, "%s/%s", file_of(folder, above), name);
    return found;
}

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

int fsync(int fd) {
    char path[PATH_MAX];
    REAL(fsync);
    note("sync", file_of(fd, path), NULL);
    return real(fd);
}

int fdatasync(int fd) {
    char path[PATH_MAX];
    REAL(fdatasync);
    note("sync", file_of(fd, path), NULL);
    return real(fd);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    note("rename", from, to);
    return real(from, to);
}

int renameat(int here, const char *from, int there, const char *to) {
    char one[2 * PATH_MAX], other[2 * PATH_MAX];
    REAL(renameat);
    note("rename", path_at(here, from, one), path_at(there, to, other));
    return real(here, from, there, to);
}

int unlink(const char *path) {
    REAL(unlink);
    note("unlink", path, NULL);
    return real(path);
}

int unlinkat(int folder, const char *name, int flags) {
    char path[2 * PATH_MAX];
    REAL(unlinkat);
    note("unlink", path_at(folder, name, path), NULL);
    return real(folder, name, flags);
}
