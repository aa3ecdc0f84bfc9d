/* The floor of a cold lookup: what the system alone takes to ask a plugin.
 *
 *     floor PLUGIN RUNS < REQUEST
 *
 * Each run is three pipes, posix_spawn, the request written, both outputs polled and read to their end, and
 * waitpid: no parsing, no deadline, no limits. Prints the nanoseconds of each run, one per line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static pid_t start(char *plugin, int in[2], int out[2], int err[2]) {
    posix_spawn_file_actions_t actions;
    char *argv[] = {plugin, NULL};
    pid_t pid;
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) fail("pipe2");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    if (posix_spawn(&pid, plugin, &actions, NULL, argv, environ)) fail("posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    return pid;
}

static void read_to_end(int out, int err) {
    struct pollfd polled[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    char chunk[65536];
    for (int open = 2; open > 0;) {
        if (poll(polled, 2, -1) < 0) fail("poll");
        for (int at = 0; at < 2; at++) {
            if (polled[at].fd < 0 || !polled[at].revents) continue;
            if (read(polled[at].fd, chunk, sizeof chunk) > 0) continue;
            close(polled[at].fd);
            polled[at].fd = -1;
            open--;
        }
    }
}

static void ask(char *plugin, const char *request, size_t length) {
    int in[2], out[2], err[2], status;
    pid_t pid = start(plugin, in, out, err);
    /* A program that does nothing may have ended before it is asked. */
    if (write(in[1], request, length) != (ssize_t)length && errno != EPIPE) fail("write");
    close(in[1]);
    read_to_end(out[0], err[0]);
    if (waitpid(pid, &status, 0) < 0) fail("waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        fputs("the plugin failed\n", stderr);
        exit(1);
    }
}

int main(int argc, char **argv) {
    char request[4096];
    ssize_t length = read(STDIN_FILENO, request, sizeof request);
    long runs = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    if (runs <= 0 || length <= 0) {
        fputs("usage: floor PLUGIN RUNS < REQUEST\n", stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    for (long run = 0; run < runs; run++) {
        long long before = now_ns();
        ask(argv[1], request, (size_t)length);
        printf("%lld\n", now_ns() - before);
    }
    return 0;
}
