/* A node agent that takes no time of its own: it answers every request with the same bytes.
 *
 *     agent SOCKET < ANSWER
 *
 * The answer is a whole HTTP answer. It prints a line when it listens, and ends when it is killed.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static char answer[65536], request[65536];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ssize_t length = read(STDIN_FILENO, answer, sizeof answer);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (argc != 2 || length <= 0 || strlen(argv[1]) >= sizeof address.sun_path) return 2;
    strcpy(address.sun_path, argv[1]);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64)) {
        perror("agent");
        return 1;
    }
    puts("listening");
    fflush(stdout);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        size_t held = 0;
        ssize_t done;
        /* The shims' requests are one object without nested ones. */
        while ((done = read(client, request + held, sizeof request - held)) > 0) {
            held += (size_t)done;
            if (request[held - 1] == '}') break;
        }
        if (write(client, answer, (size_t)length) != length) perror("write");
        close(client);
    }
}
