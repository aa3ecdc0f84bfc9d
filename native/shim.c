/* keyferry's shim for the kubelet: ask the node agent, else become the plugin behind it.

   The kubelet executes this program under the name of a credential provider. It sends the request to the agent's Unix
   socket and prints the agent's answer. If there is no usable answer, it executes the plugin behind it with the same
   arguments and environment, and with the same standard input in a memory file. It never forks. docs/bridges.md
   describes the files beside it: NAME.real, NAME.beside and NAME.agent.

   src/keyferry/bridge/shim.py is the same program in Python; one test suite covers both. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_INPUT (1 << 20)
#define MAX_REQUEST (256 << 10)
#define MAX_MESSAGE_HEAD 256
#define MAX_HEAD (64 << 10)
#define MAX_BODY (1 << 20)
#define MAX_SHIM (256 << 10)
#define MAX_DEPTH 64
#define CONNECT_MS 200
#define PROTOCOL "agent.keyferry.dev/v1"
#define ANSWER_MS 20000
#define ROOT_SOCKET "/run/keyferry/agent.sock"
#define MEMORY_FILE "keyferry-shim-"
#define MAX_ROUNDS 3

/* Tells a shim from other programs; the installer and the shim itself look for it. */
static const char MARK[] __attribute__((used)) = "@(#)keyferry-shim";

struct span {
    const char *at;
    size_t size;
};

#define SPAN(text) ((struct span){text, sizeof(text) - 1})

static int equals(struct span one, struct span other) {
    return one.size == other.size && memcmp(one.at, other.at, one.size) == 0;
}

/* ---- JSON: the members of one object, as spans of the text ---- */

struct text {
    const char *at, *end;
};

static void skip_blanks(struct text *text) {
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t' || *text->at == '\r' || *text->at == '\n'))
        text->at++;
}

static int skip_char(struct text *text, char wanted) {
    if (text->at >= text->end || *text->at != wanted)
        return 0;
    text->at++;
    return 1;
}

static int skip_string(struct text *text) {
    if (!skip_char(text, '"'))
        return 0;
    while (text->at < text->end) {
        unsigned char found = (unsigned char)*text->at++;
        if (found == '"')
            return 1;
        if (found < 0x20)
            return 0;
        if (found == '\\' && text->at++ >= text->end)
            return 0;
    }
    return 0;
}

static int is_scalar(char found) {
    return (found >= '0' && found <= '9') || (found >= 'a' && found <= 'z') || (found >= 'A' && found <= 'Z') ||
           found == '-' || found == '+' || found == '.';
}

static int skip_scalar(struct text *text) {
    const char *start = text->at;
    while (text->at < text->end && is_scalar(*text->at))
        text->at++;
    return text->at > start;
}

/* Strings and brackets are checked; what stands between them is the reader's business. */
static int skip_nested(struct text *text) {
    char closing[MAX_DEPTH];
    int depth = 0;
    do {
        if (text->at >= text->end)
            return 0;
        char found = *text->at;
        if (found == '"') {
            if (!skip_string(text))
                return 0;
            continue;
        }
        text->at++;
        if (found == '{' || found == '[') {
            if (depth == MAX_DEPTH)
                return 0;
            closing[depth++] = found == '{' ? '}' : ']';
        } else if (found == '}' || found == ']') {
            if (closing[--depth] != found)
                return 0;
        }
    } while (depth > 0);
    return 1;
}

static int skip_value(struct text *text) {
    if (text->at >= text->end)
        return 0;
    if (*text->at == '"')
        return skip_string(text);
    return *text->at == '{' || *text->at == '[' ? skip_nested(text) : skip_scalar(text);
}

struct member {
    struct span name; /* with its quotes */
    struct span value;
};

static int keep(struct member *members, int count, struct span name, struct span value) {
    for (int each = 0; each < count; each++) {
        if (!equals(members[each].name, name))
            continue;
        if (members[each].value.at != NULL)
            return 0; /* twice */
        members[each].value = value;
    }
    return 1;
}

/* Find members of the one object in a text; return 0 if it is not one object, or has one of the members twice. */
static int read_object(struct span source, struct member *members, int count) {
    struct text text = {source.at, source.at + source.size};
    skip_blanks(&text);
    if (!skip_char(&text, '{'))
        return 0;
    skip_blanks(&text);
    int is_first = 1;
    while (!skip_char(&text, '}')) {
        if (!is_first && !skip_char(&text, ','))
            return 0;
        is_first = 0;
        skip_blanks(&text);
        struct span name = {text.at, 0}, value;
        if (!skip_string(&text))
            return 0;
        name.size = (size_t)(text.at - name.at);
        skip_blanks(&text);
        if (!skip_char(&text, ':'))
            return 0;
        skip_blanks(&text);
        value.at = text.at;
        if (!skip_value(&text))
            return 0;
        value.size = (size_t)(text.at - value.at);
        if (!keep(members, count, name, value))
            return 0;
        skip_blanks(&text);
    }
    skip_blanks(&text);
    return text.at == text.end;
}

static int is_string(struct span value) { return value.at != NULL && value.at[0] == '"'; }

/* ---- HTTP: the head of an answer ---- */

struct head {
    int status;
    size_t body_at, body_size;
};

static char lower(char found) { return found >= 'A' && found <= 'Z' ? (char)(found + 32) : found; }

static int is_field(struct span line, struct span name) {
    if (line.size <= name.size || line.at[name.size] != ':')
        return 0;
    for (size_t each = 0; each < name.size; each++)
        if (lower(line.at[each]) != name.at[each])
            return 0;
    return 1;
}

static int read_size(struct span line, size_t from, size_t *size) {
    size_t end = line.size;
    while (from < end && (line.at[from] == ' ' || line.at[from] == '\t'))
        from++;
    while (end > from && (line.at[end - 1] == ' ' || line.at[end - 1] == '\t'))
        end--;
    if (from == end || end - from > 8)
        return 0;
    *size = 0;
    for (; from < end; from++) {
        if (line.at[from] < '0' || line.at[from] > '9')
            return 0;
        *size = *size * 10 + (size_t)(line.at[from] - '0');
    }
    return 1;
}

static int read_status(struct span line) {
    if (line.size < 12 || memcmp(line.at, "HTTP/1.1 ", 9) != 0 || (line.size > 12 && line.at[12] != ' '))
        return 0;
    int status = 0;
    for (int each = 9; each < 12; each++) {
        if (line.at[each] < '0' || line.at[each] > '9')
            return 0;
        status = status * 10 + line.at[each] - '0';
    }
    return status >= 200 ? status : 0;
}

/* What two readers could read differently is refused, as by the client in Python. */
static int has_break(struct span line) {
    return memchr(line.at, '\r', line.size) != NULL || memchr(line.at, '\n', line.size) != NULL ||
           memchr(line.at, '\0', line.size) != NULL;
}

static int is_token(char found) {
    return (found >= '0' && found <= '9') || (lower(found) >= 'a' && lower(found) <= 'z') ||
           (found != '\0' && strchr("!#$%&'*+-.^_`|~", found) != NULL);
}

static int is_header(struct span line) {
    size_t name = 0;
    while (name < line.size && is_token(line.at[name]))
        name++;
    return name > 0 && name < line.size && line.at[name] == ':' && !has_break(line);
}

static struct span take_line(struct text *head) {
    const char *end = memmem(head->at, (size_t)(head->end - head->at), "\r\n", 2);
    struct span line = {head->at, (size_t)(end - head->at)};
    head->at = end + 2;
    return line;
}

/* Return 1 for a whole head, 0 for one that has not ended yet, -1 for one that cannot be used. */
static int read_head(const char *data, size_t size, struct head *head) {
    const char *end = memmem(data, size, "\r\n\r\n", 4);
    if (end == NULL)
        return size > MAX_HEAD ? -1 : 0;
    if (end - data > MAX_HEAD)
        return -1;
    struct text text = {data, end + 2};
    struct span first = take_line(&text);
    head->status = has_break(first) ? 0 : read_status(first);
    head->body_at = (size_t)(end + 4 - data);
    int sizes = 0;
    while (text.at < text.end) {
        struct span line = take_line(&text);
        if (!is_header(line) || is_field(line, SPAN("transfer-encoding")))
            return -1;
        if (!is_field(line, SPAN("content-length")))
            continue;
        if (sizes++ > 0 || !read_size(line, sizeof("content-length"), &head->body_size))
            return -1;
    }
    return head->status > 0 && sizes == 1 && head->body_size <= MAX_BODY ? 1 : -1;
}

/* ---- the agent's answer ---- */

enum outcome { UNUSABLE, ANSWERED, NO_MATCH, FAILED };

struct answer {
    struct span outcome, response, exit_code, stderr_text, message;
};

static enum outcome read_answer(const struct head *head, struct span body, struct span api_version,
                                struct answer *answer) {
    struct member members[] = {{SPAN("\"outcome\""), {0}},
                               {SPAN("\"response\""), {0}},
                               {SPAN("\"exitCode\""), {0}},
                               {SPAN("\"stderr\""), {0}},
                               {SPAN("\"message\""), {0}},
                               {SPAN("\"apiVersion\""), {0}}};
    if (head->status != 200 || !read_object(body, members, 6))
        return UNUSABLE;
    if (members[5].value.at != NULL && !equals(members[5].value, SPAN("\"" PROTOCOL "\"")))
        return UNUSABLE;
    *answer = (struct answer){members[0].value, members[1].value, members[2].value, members[3].value,
                              members[4].value};
    if (answer->outcome.at == NULL)
        return UNUSABLE;
    if (equals(answer->outcome, SPAN("\"noMatch\"")))
        return NO_MATCH;
    if (equals(answer->outcome, SPAN("\"failed\"")))
        return FAILED;
    if (!equals(answer->outcome, SPAN("\"answered\"")) || answer->response.at == NULL)
        return UNUSABLE;
    struct member fields[] = {{SPAN("\"apiVersion\""), {0}}, {SPAN("\"kind\""), {0}}};
    if (!read_object(answer->response, fields, 2) || fields[0].value.at == NULL || fields[1].value.at == NULL)
        return UNUSABLE;
    /* A version that the kubelet did not ask for would be refused by it. */
    if (!equals(fields[0].value, api_version) || !equals(fields[1].value, SPAN("\"CredentialProviderResponse\"")))
        return UNUSABLE;
    return ANSWERED;
}

/* ---- texts in and out ---- */

static int write_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return 0;
        data += done;
        size -= (size_t)done;
    }
    return 1;
}

static int hex_digit(char found) {
    if (found >= '0' && found <= '9')
        return found - '0';
    found = lower(found);
    return found >= 'a' && found <= 'f' ? found - 'a' + 10 : -1;
}

static int read_unit(const char *at, const char *end, unsigned *unit) {
    if (end - at < 4)
        return 0;
    *unit = 0;
    for (int each = 0; each < 4; each++) {
        int digit = hex_digit(at[each]);
        if (digit < 0)
            return 0;
        *unit = *unit * 16 + (unsigned)digit;
    }
    return 1;
}

static size_t put_utf8(char *to, unsigned point) {
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (char)(0xc0 | point >> 6);
        to[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        to[0] = (char)(0xe0 | point >> 12);
        to[1] = (char)(0x80 | (point >> 6 & 0x3f));
        to[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | point >> 18);
    to[1] = (char)(0x80 | (point >> 12 & 0x3f));
    to[2] = (char)(0x80 | (point >> 6 & 0x3f));
    to[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

/* Decode \uXXXX, at the digits; a surrogate without its other half becomes U+FFFD, and what is no escape "u". */
static size_t put_unit(char *to, const char **at, const char *end) {
    unsigned unit, other;
    if (!read_unit(*at, end, &unit))
        return put_utf8(to, 'u');
    *at += 4;
    if (unit < 0xd800 || unit > 0xdfff)
        return put_utf8(to, unit);
    if (unit > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u' || !read_unit(*at + 2, end, &other) ||
        other < 0xdc00 || other > 0xdfff)
        return put_utf8(to, 0xfffd);
    *at += 6;
    return put_utf8(to, 0x10000 + ((unit - 0xd800) << 10) + (other - 0xdc00));
}

static char plain_escape(char found) {
    switch (found) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    default:
        return found;
    }
}

/* Decode a string into a buffer that is at least as large as the string, which is never shorter than its text. */
static size_t unquote(struct span string, char *to) {
    const char *at = string.at + 1, *end = string.at + string.size - 1;
    size_t size = 0;
    while (at < end) {
        if (*at != '\\') {
            to[size++] = *at++;
            continue;
        }
        char kind = at[1];
        at += 2;
        if (kind == 'u')
            size += put_unit(to + size, &at, end);
        else
            to[size++] = plain_escape(kind);
    }
    return size;
}

#ifndef SHIM_READER

static int read_exit_code(struct span value) {
    int code = 0;
    for (size_t each = 0; each < value.size; each++) {
        if (value.at[each] < '0' || value.at[each] > '9' || each > 2)
            return 1;
        code = code * 10 + value.at[each] - '0';
    }
    return code >= 1 && code <= 255 ? code : 1;
}

/* The request's head is put before its body once its size is known, so that both are sent at once. */
static char input[MAX_INPUT], message[MAX_MESSAGE_HEAD + MAX_REQUEST], reply[MAX_HEAD + MAX_BODY + 4], scratch[MAX_BODY];

static void complain(struct span name, const char *reason) {
    (void)!write(2, "keyferry-shim: ", 15);
    (void)!write(2, name.at, name.size);
    (void)!write(2, ": ", 2);
    (void)!write(2, reason, strlen(reason));
    (void)!write(2, "\n", 1);
}

/* ---- the socket ---- */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whom this shim's installer trusts besides root and this user: the owner of the link to the socket. */
static uid_t agent_user = 0;

static int is_trusted(const struct stat *found) {
    return found->st_uid == 0 || found->st_uid == geteuid() || found->st_uid == agent_user;
}

/* Open the socket's folder if only those who are trusted can change what is in it; return -1 otherwise. */
static int open_folder(const char *path, const char *slash) {
    char folder[4096];
    size_t size = slash == path ? 1 : (size_t)(slash - path);
    if (size >= sizeof(folder))
        return -1;
    memcpy(folder, path, size);
    folder[size] = 0;
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat found;
    if (fd < 0)
        return -1;
    if (fstat(fd, &found) == 0 && is_trusted(&found) && (found.st_mode & 022) == 0)
        return fd;
    close(fd);
    return -1;
}

/* The address goes through the open folder, so that it is the folder that was checked, and of any length. */
static int fill_address(struct sockaddr_un *address, int folder, const char *name) {
    char digits[12];
    int count = 0;
    do
        digits[count++] = (char)('0' + folder % 10);
    while ((folder /= 10) > 0);
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    char *to = stpcpy(address->sun_path, "/proc/self/fd/");
    while (count > 0)
        *to++ = digits[--count];
    *to++ = '/';
    if (strlen(name) >= (size_t)(address->sun_path + sizeof(address->sun_path) - to))
        return 0;
    strcpy(to, name);
    return 1;
}

static int connect_within(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {CONNECT_MS / 1000, CONNECT_MS % 1000 * 1000};
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
        connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static int open_socket(const char *path) {
    const char *slash = strrchr(path, '/');
    if (path[0] != '/' || slash[1] == 0)
        return -1;
    int folder = open_folder(path, slash);
    if (folder < 0)
        return -1;
    struct stat found;
    struct sockaddr_un address;
    int fd = -1;
    if (fstatat(folder, slash + 1, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(found.st_mode) &&
        is_trusted(&found) && fill_address(&address, folder, slash + 1))
        fd = connect_within(&address);
    close(folder);
    return fd;
}

static int wait_for(int fd, short events, int64_t until) {
    for (;;) {
        int64_t left = until - now_ms();
        struct pollfd poller = {fd, events, 0};
        int ready = left > 0 ? poll(&poller, 1, (int)left) : 0;
        if (ready >= 0 || errno != EINTR)
            return ready > 0;
    }
}

static int send_all(int fd, const char *data, size_t size, int64_t until) {
    while (size > 0) {
        ssize_t done = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        } else if ((errno != EINTR && errno != EAGAIN) || !wait_for(fd, POLLOUT, until)) {
            return 0;
        }
    }
    return 1;
}

/* Read one answer, of exactly the size that it states; return 0 if it is late, too large or cannot be used. */
static int receive(int fd, struct head *head, int64_t until) {
    size_t size = 0;
    int state = 0;
    for (;;) {
        if (state == 0 && (state = read_head(reply, size, head)) < 0)
            return 0;
        if (state == 1 && size >= head->body_at + head->body_size)
            return size == head->body_at + head->body_size;
        if (!wait_for(fd, POLLIN, until) || size == sizeof(reply))
            return 0;
        ssize_t done = recv(fd, reply + size, sizeof(reply) - size, MSG_DONTWAIT);
        if (done == 0 || (done < 0 && errno != EINTR && errno != EAGAIN))
            return 0;
        if (done > 0)
            size += (size_t)done;
    }
}

static int exchange(int fd, struct span message, struct head *head) {
    int64_t until = now_ms() + ANSWER_MS;
    return send_all(fd, message.at, message.size, until) && receive(fd, head, until);
}

/* ---- the request ---- */

static int put(size_t *size, struct span text) {
    if (text.size > MAX_REQUEST - *size)
        return 0;
    memcpy(message + MAX_MESSAGE_HEAD + *size, text.at, text.size);
    *size += text.size;
    return 1;
}

static int put_member(size_t *size, struct span start, struct span value) {
    return value.at == NULL || (put(size, start) && put(size, value));
}

static int is_plain(struct span name) {
    for (size_t each = 0; each < name.size; each++) {
        unsigned char found = (unsigned char)name.at[each];
        if (found < 0x20 || found > 0x7e || found == '"' || found == '\\')
            return 0;
    }
    return name.size > 0;
}

enum field { API_VERSION, KIND, IMAGE, TOKEN, ANNOTATIONS, FIELDS };

static size_t make_request(struct span name, struct member *fields) {
    size_t size = 0;
    int fits = put(&size, SPAN("{\"apiVersion\":\"" PROTOCOL "\",\"kind\":\"LookupRequest\",\"provider\":\"")) &&
               put(&size, name) && put(&size, SPAN("\"")) &&
               put_member(&size, SPAN(",\"image\":"), fields[IMAGE].value) &&
               put_member(&size, SPAN(",\"serviceAccountToken\":"), fields[TOKEN].value) &&
               put_member(&size, SPAN(",\"serviceAccountAnnotations\":"), fields[ANNOTATIONS].value) &&
               put(&size, SPAN("}"));
    return fits ? size : 0;
}

/* Put the head before a body of this size; return both. */
static struct span put_head(size_t body_size) {
    char head[MAX_MESSAGE_HEAD], digits[20];
    size_t left = body_size;
    char *end = stpcpy(head, "POST /v1/lookup HTTP/1.1\r\nHost: keyferry-agent\r\nConnection: close\r\n"
                                       "Content-Type: application/json\r\nContent-Length: ");
    int count = 0;
    do
        digits[count++] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    while (count > 0)
        *end++ = digits[--count];
    size_t size = (size_t)(stpcpy(end, "\r\n\r\n") - head);
    char *start = message + MAX_MESSAGE_HEAD - size;
    memcpy(start, head, size);
    return (struct span){start, size + body_size};
}

/* ---- the shim ---- */

struct shim {
    const char *path;
    struct span name;
    char **argv, **environ;
    size_t input_size;
    int is_whole; /* whether all of standard input is in the buffer */
};

static const char *variable(char **environ, const char *name) {
    size_t size = strlen(name);
    for (; *environ != NULL; environ++)
        if (strncmp(*environ, name, size) == 0 && (*environ)[size] == '=')
            return *environ + size + 1;
    return "";
}

static int join(char *to, size_t most, const char *path, const char *suffix) {
    if (strlen(path) + strlen(suffix) >= most)
        return 0;
    strcpy(stpcpy(to, path), suffix);
    return 1;
}

/* The agent's socket: KEYFERRY_AGENT, then the target of the link NAME.agent, then the usual place; empty for none. */
static const char *find_socket(const struct shim *shim) {
    static char link[4096], target[4096];
    const char *given = variable(shim->environ, "KEYFERRY_AGENT");
    if (strcmp(given, "off") == 0)
        return "";
    if (given[0] != 0 && strcmp(given, "auto") != 0)
        return given;
    ssize_t size = join(link, sizeof(link), shim->path, ".agent") ? readlink(link, target, sizeof(target) - 1) : -1;
    struct stat found;
    if (size > 0 && lstat(link, &found) == 0)
        agent_user = found.st_uid;
    if (size > 0) {
        target[size] = 0;
        if (strcmp(target, "auto") != 0)
            return target;
    }
    if (geteuid() == 0)
        return ROOT_SOCKET;
    const char *runtime = variable(shim->environ, "XDG_RUNTIME_DIR");
    return runtime[0] == '/' && join(target, sizeof(target), runtime, "/keyferry/agent.sock") ? target : "";
}

static void read_input(struct shim *shim) {
    while (shim->input_size < sizeof(input)) {
        ssize_t done = read(0, input + shim->input_size, sizeof(input) - shim->input_size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            shim->is_whole = 1;
            return;
        }
        shim->input_size += (size_t)done;
    }
}

static enum outcome ask(const struct shim *shim, struct member *fields, struct answer *answer) {
    if (!shim->is_whole || !is_plain(shim->name) || !read_object((struct span){input, shim->input_size}, fields, FIELDS) ||
        !is_string(fields[API_VERSION].value) || !is_string(fields[IMAGE].value) ||
        fields[KIND].value.at == NULL || !equals(fields[KIND].value, SPAN("\"CredentialProviderRequest\"")))
        return UNUSABLE;
    size_t size = make_request(shim->name, fields);
    const char *path = find_socket(shim);
    int fd = size > 0 && path[0] == '/' ? open_socket(path) : -1;
    if (fd < 0)
        return UNUSABLE;
    struct head head;
    int is_there = exchange(fd, put_head(size), &head);
    close(fd);
    if (!is_there)
        return UNUSABLE;
    return read_answer(&head, (struct span){reply + head.body_at, head.body_size}, fields[API_VERSION].value, answer);
}

static int has_mark(int fd, off_t size) {
    if (size > MAX_SHIM)
        return 0;
    size_t held = 0;
    ssize_t done;
    while (held < sizeof(scratch) && (done = read(fd, scratch + held, sizeof(scratch) - held)) > 0)
        held += (size_t)done;
    return memmem(scratch, held, MARK, sizeof(MARK) - 1) != NULL;
}

/* Return whether a program is there that is not a shim: not this file under any name, nor a copy of one. */
static int is_plugin(const char *path) {
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 1; /* may be executable without being readable */
    int is_shim = has_mark(fd, found.st_size);
    close(fd);
    return !is_shim;
}

/* Put the input that was read, and what is left of it, into a memory file that becomes standard input. */
static int restore_input(const struct shim *shim, int round) {
    char name[] = MEMORY_FILE "0";
    name[sizeof(name) - 2] = (char)('0' + round);
    int fd = memfd_create(name, MFD_CLOEXEC);
    int is_written = fd >= 0 && write_all(fd, input, shim->input_size);
    while (is_written && !shim->is_whole) {
        ssize_t done = read(0, scratch, sizeof(scratch));
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break;
        is_written = write_all(fd, scratch, (size_t)done);
    }
    /* Where standard input was closed, the file may have its place already. */
    return is_written && lseek(fd, 0, SEEK_SET) == 0 && dup2(fd, 0) == 0 && fcntl(0, F_SETFD, 0) == 0;
}

/* Return how many shims in a row executed one another up to this one: the name of the input's memory file tells. */
static int count_rounds(void) {
    char target[64];
    ssize_t size = readlink("/proc/self/fd/0", target, sizeof(target));
    struct span start = SPAN("/memfd:" MEMORY_FILE);
    if (size <= (ssize_t)start.size || memcmp(target, start.at, start.size) != 0)
        return 0;
    return target[start.size] - '0';
}

/* Become the plugin behind this shim; return only if that is impossible. If the shim has been uninstalled since it was
   started, the plugin has its place again. */
static int fall_back(struct shim *shim, int has_read) {
    static char path[4096];
    static const char *const suffixes[] = {".real", ".beside", ""};
    int round = count_rounds() + 1;
    if (round > MAX_ROUNDS) {
        complain(shim->name, "shims execute one another; the plugin behind a shim must not run it again");
        return 1;
    }
    if (has_read && !restore_input(shim, round)) {
        complain(shim->name, "the request cannot be passed to the plugin behind this shim");
        return 1;
    }
    /* Once more, since an installation may go on meanwhile. */
    for (int each = 0; each < 6; each++) {
        if (join(path, sizeof(path), shim->path, suffixes[each % 3]) && is_plugin(path)) {
            execve(path, shim->argv, shim->environ);
            if (errno != ENOENT) {
                complain(shim->name, "the plugin behind this shim cannot be executed");
                return 1;
            }
        }
    }
    complain(shim->name, "the agent has no answer, and there is no plugin behind this shim");
    return 1;
}

static int is_in_front(const struct shim *shim) {
    static char path[4096];
    struct stat found;
    return join(path, sizeof(path), shim->path, ".real") && lstat(path, &found) == 0;
}

static int print_answer(struct span response) {
    return write_all(1, response.at, response.size) && write_all(1, "\n", 1) ? 0 : 1;
}

static int print_nothing(struct span api_version) {
    static const struct span start = SPAN("{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":");
    static const struct span end = SPAN(",\"cacheKeyType\":\"Image\",\"cacheDuration\":\"0s\",\"auth\":{}}\n");
    return write_all(1, start.at, start.size) && write_all(1, api_version.at, api_version.size) &&
                   write_all(1, end.at, end.size)
               ? 0
               : 1;
}

static int print_failure(const struct answer *answer) {
    size_t size = is_string(answer->stderr_text) ? unquote(answer->stderr_text, scratch) : 0;
    if (size == 0 && is_string(answer->message)) {
        size = unquote(answer->message, scratch);
        scratch[size++] = '\n';
    }
    write_all(2, scratch, size);
    return read_exit_code(answer->exit_code);
}

int main(int argc, char **argv, char **environ) {
    const char *path = (const char *)getauxval(AT_EXECFN);
    if (path == NULL)
        path = argc > 0 ? argv[0] : "";
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    struct shim shim = {path, {name, strlen(name)}, argv, environ, 0, 0};
    if (isatty(0))
        return fall_back(&shim, 0);
    read_input(&shim);
    struct member fields[FIELDS] = {{SPAN("\"apiVersion\""), {0}},
                                    {SPAN("\"kind\""), {0}},
                                    {SPAN("\"image\""), {0}},
                                    {SPAN("\"serviceAccountToken\""), {0}},
                                    {SPAN("\"serviceAccountAnnotations\""), {0}}};
    struct answer answer;
    switch (ask(&shim, fields, &answer)) {
    case ANSWERED:
        return print_answer(answer.response);
    case FAILED:
        return print_failure(&answer);
    case NO_MATCH:
        return is_in_front(&shim) ? fall_back(&shim, 1) : print_nothing(fields[API_VERSION].value);
    default:
        return fall_back(&shim, 1);
    }
}

#else

/* For the tests: read answers, each after its size in four bytes, and print what the shim makes of each. */

static char data[MAX_HEAD + MAX_BODY + 4], text[sizeof(data)];

static int read_exactly(void *to, size_t size) {
    for (size_t held = 0; held < size;) {
        ssize_t done = read(0, (char *)to + held, size - held);
        if (done <= 0)
            return 0;
        held += (size_t)done;
    }
    return 1;
}

static void show(struct span value) {
    if (is_string(value))
        write_all(1, text, unquote(value, text));
    else
        write_all(1, value.at, value.size);
}

static void judge(const char *bytes, size_t size) {
    static const char *const words[] = {"unusable", "answered ", "noMatch", "failed "};
    struct head head = {0};
    struct answer answer;
    enum outcome outcome = UNUSABLE;
    if (read_head(bytes, size, &head) == 1 && head.body_at + head.body_size == size)
        outcome = read_answer(&head, (struct span){bytes + head.body_at, head.body_size},
                              SPAN("\"credentialprovider.kubelet.k8s.io/v1\""), &answer);
    write_all(1, words[outcome], strlen(words[outcome]));
    if (outcome == ANSWERED)
        write_all(1, answer.response.at, answer.response.size);
    if (outcome == FAILED && answer.stderr_text.at != NULL)
        show(answer.stderr_text);
    write_all(1, "\0", 1);
}

int main(void) {
    unsigned char size[4];
    while (read_exactly(size, 4)) {
        size_t wanted = (size_t)size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16 | (size_t)size[3] << 24;
        /* An allocation of its own size lets the sanitizer see every byte that is read beyond the end. */
        char exact[wanted + 1];
        if (wanted > sizeof(data) || !read_exactly(exact, wanted))
            return 1;
        judge(exact, wanted);
    }
    return 0;
}

#endif
