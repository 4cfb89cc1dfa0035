/* Keeps many connections to a RESP server busy with one kind of request, and measures.

     loader load PORT CONNECTIONS PIPELINE seconds|operations AMOUNT SERVER_PID COMMANDS SEED LENGTH [FIELD...] < templates
     loader replies BYTES < stream

   An operation is COMMANDS commands, each answered by one reply. Each connection sends PIPELINE operations in one write,
   waits for all their replies and sends the next, so at most CONNECTIONS * PIPELINE operations are under way.

   Templates are one or more requests of LENGTH bytes each, ready to send, used in turn; what differs between operations
   is written over them. A FIELD is OFFSET,SOURCE,DIVISOR,MODULUS: at OFFSET come DIGITS digits of
   value / DIVISOR % MODULUS, where the value is a random number of the operation (SOURCE r) or its running number (s).
   The requests of a connection are laid out once; per operation only these digits (and, with several templates, one
   copy) are work, so that the server is the limit and not this program. Whether it was is in `loader_cpu_seconds`.

   The measured time begins when every connection has had an answer to a PING, so that accepting is not part of it, and
   ends with the last reply. The server's CPU time is read from /proc at both moments.

   `replies` is for tests: it feeds a stream to the counter of replies in pieces of BYTES bytes.

   Prints one JSON object. Ends with a message and exit code 1 when the server does, or answers what is not RESP. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "replies.h"

#define DIGITS 8
#define FIELDS_MAX 16
#define READ_BYTES (256 * 1024)
#define SILENCE_MS_MAX 30000

/* Latencies in buckets: 64 for each power of two of nanoseconds, so a bucket is at most 1.6 % wide. */
#define STEP_BITS 6
#define STEPS (1 << STEP_BITS)
#define BUCKETS (STEPS * 64)

struct field {
    size_t offset;
    char source;
    uint64_t divisor, modulus;
};

struct connection {
    int fd;
    char *requests;     /* PIPELINE operations, one after the other */
    size_t length, sent; /* of the batch under way */
    uint64_t operations; /* in the batch under way; 0 when there is none */
    uint64_t finished;  /* of all batches */
    uint64_t goal;      /* replies.done at which the batch is complete */
    uint64_t sent_at_ns;
    bool wants_write;
    struct replies replies;
};

static struct field fields[FIELDS_MAX];
static int field_count;
static char *templates;
static size_t template_length, template_count;
static uint64_t pipeline, commands, random_state, sequence;
static uint64_t operations_left, deadline_ns; /* one of them bounds the load: operations_left, or the deadline */
static uint64_t finished, latencies[BUCKETS];
static int poll_fd;
static char incoming[READ_BYTES];

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t next_random(void) /* splitmix64 */
{
    uint64_t x = random_state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* ---- CPU times ---- */

static double own_cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* utime + stime of /proc/PID/stat: all threads of the process, in ticks of 10 ms. */
static double server_cpu_seconds(long pid)
{
    char path[64], text[1024];
    unsigned long user, system;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        fail("the server is gone: no %s", path);
    size_t count = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[count] = 0;
    char *after_name = strrchr(text, ')'); /* a name may hold blanks and brackets */
    if (!after_name ||
        sscanf(after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        fail("%s is not as expected", path);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* ---- latencies ---- */

static size_t bucket_of(uint64_t ns)
{
    if (ns < STEPS)
        return ns;
    int shift = 63 - __builtin_clzll(ns) - STEP_BITS;
    return ((size_t)(shift + 1) << STEP_BITS) + ((ns >> shift) - STEPS);
}

static double bucket_middle_us(size_t bucket)
{
    if (bucket < STEPS)
        return (double)bucket / 1e3;
    int shift = (int)(bucket >> STEP_BITS) - 1;
    uint64_t low = (uint64_t)(STEPS + (bucket & (STEPS - 1))) << shift;
    return ((double)low + (double)((uint64_t)1 << shift) / 2) / 1e3;
}

static double percentile_us(double share)
{
    double rank = share * (double)finished;
    uint64_t below = 0;
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
        below += latencies[bucket];
        if (below > 0 && (double)below >= rank)
            return bucket_middle_us(bucket);
    }
    return 0;
}

/* ---- requests ---- */

static void write_digits(char *at, uint64_t value)
{
    for (int i = DIGITS - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
}

static void lay_out_operation(char *at)
{
    uint64_t number = sequence++, chance = next_random();
    if (template_count > 1)
        memcpy(at, templates + (number % template_count) * template_length, template_length);
    for (int i = 0; i < field_count; i++) {
        const struct field *f = &fields[i];
        uint64_t value = f->source == 's' ? number : chance;
        if (f->divisor != 1)
            value /= f->divisor;
        write_digits(at + f->offset, value % f->modulus);
    }
}

static void write_some(struct connection *c)
{
    while (c->sent < c->length) {
        ssize_t count = write(c->fd, c->requests + c->sent, c->length - c->sent);
        if (count > 0) {
            c->sent += (size_t)count;
        } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            break;
        } else {
            fail("writing to the server: %s", strerror(errno));
        }
    }
    bool wants = c->sent < c->length;
    if (wants != c->wants_write) {
        struct epoll_event event = {.events = wants ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
        epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &event);
        c->wants_write = wants;
    }
}

/* Send the connection's next batch; false when the load has come to its end. */
static bool begin_batch(struct connection *c)
{
    uint64_t count = pipeline;
    if (deadline_ns) {
        if (now_ns() >= deadline_ns)
            return false;
    } else {
        if (count > operations_left)
            count = operations_left;
        if (count == 0)
            return false;
        operations_left -= count;
    }
    for (uint64_t i = 0; i < count; i++)
        lay_out_operation(c->requests + i * template_length);
    c->operations = count;
    c->length = count * template_length;
    c->sent = 0;
    c->goal = c->replies.done + count * commands;
    c->sent_at_ns = now_ns();
    write_some(c);
    return true;
}

/* ---- replies ---- */

/* Read once; true when that completed the batch under way. */
static bool read_some(struct connection *c, uint64_t *bytes)
{
    ssize_t count = read(c->fd, incoming, sizeof incoming);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (count <= 0)
        fail("the server closed a connection%s%s", count ? ": " : "", count ? strerror(errno) : "");
    *bytes += (uint64_t)count;
    feed(&c->replies, incoming, (size_t)count);
    if (c->replies.damaged)
        fail("the server answered what is not RESP");
    if (c->replies.done > c->goal)
        fail("the server sent more replies than there were commands");
    uint64_t operations = c->operations - (c->goal - c->replies.done + commands - 1) / commands;
    uint64_t base = c->finished;
    if (operations > base) {
        latencies[bucket_of(now_ns() - c->sent_at_ns)] += operations - base;
        finished += operations - base;
        c->finished = operations;
    }
    return c->replies.done == c->goal;
}

static uint64_t run(struct connection *connections, int count)
{
    struct epoll_event events[64];
    uint64_t bytes = 0;
    int busy = 0;
    for (int i = 0; i < count; i++)
        busy += begin_batch(&connections[i]);
    while (busy > 0) {
        int ready = epoll_wait(poll_fd, events, 64, SILENCE_MS_MAX);
        if (ready == 0)
            fail("the server said nothing for %d s", SILENCE_MS_MAX / 1000);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->wants_write && (events[i].events & EPOLLOUT))
                write_some(c);
            if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && read_some(c, &bytes)) {
                c->finished = 0;
                if (!begin_batch(c))
                    busy--;
            }
        }
    }
    return bytes;
}

/* ---- setting up ---- */

static void open_connection(struct connection *c, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    uint64_t bytes = 0;
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connecting to port %d: %s", port, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (write(c->fd, "PING\r\n", 6) != 6)
        fail("writing to the server: %s", strerror(errno));
    for (c->goal = 1; c->replies.done < 1;) {
        ssize_t count = read(c->fd, incoming, sizeof incoming);
        if (count <= 0)
            fail("the server closed a connection");
        feed(&c->replies, incoming, (size_t)count);
        bytes += (uint64_t)count;
    }
    if (c->replies.errors)
        fail("PING: %s", c->replies.first_error);
    memset(&c->replies, 0, sizeof c->replies);
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &event);
    c->requests = malloc(pipeline * template_length);
    for (uint64_t i = 0; i < pipeline; i++)
        memcpy(c->requests + i * template_length, templates, template_length);
}

static size_t read_all(char **into)
{
    size_t room = 1 << 20, length = 0, count;
    char *text = malloc(room);
    while ((count = fread(text + length, 1, room - length, stdin)) > 0)
        if ((length += count) == room)
            text = realloc(text, room *= 2);
    *into = text;
    return length;
}

static void take_fields(int count, char **arguments)
{
    if (count > FIELDS_MAX)
        fail("at most %d fields", FIELDS_MAX);
    for (field_count = 0; field_count < count; field_count++) {
        struct field *f = &fields[field_count];
        if (sscanf(arguments[field_count], "%zu,%c,%lu,%lu", &f->offset, &f->source, &f->divisor, &f->modulus) != 4 ||
            f->offset + DIGITS > template_length || f->divisor == 0 || f->modulus == 0)
            fail("not a field: %s", arguments[field_count]);
    }
}

static void print_text(const char *text) /* as a JSON string; control characters and quotes become blanks */
{
    putchar('"');
    for (; *text; text++)
        putchar(*text < 32 || *text == '"' || *text == '\\' || *text == 127 ? ' ' : *text);
    putchar('"');
}

static int load(int count, char **arguments)
{
    if (count < 9)
        fail("load PORT CONNECTIONS PIPELINE seconds|operations AMOUNT SERVER_PID COMMANDS SEED LENGTH [FIELD...]");
    int port = atoi(arguments[0]), connection_count = atoi(arguments[1]);
    pipeline = strtoull(arguments[2], NULL, 10);
    bool timed = strcmp(arguments[3], "seconds") == 0;
    double amount = atof(arguments[4]);
    long pid = atol(arguments[5]);
    commands = strtoull(arguments[6], NULL, 10);
    random_state = strtoull(arguments[7], NULL, 10);
    template_length = strtoull(arguments[8], NULL, 10);
    size_t length = read_all(&templates);
    if (connection_count < 1 || pipeline < 1 || commands < 1 || template_length < 1 || length % template_length || !length)
        fail("the templates have to be whole, and every number at least 1");
    template_count = length / template_length;
    take_fields(count - 9, arguments + 9);

    poll_fd = epoll_create1(0);
    struct connection *connections = calloc((size_t)connection_count, sizeof *connections);
    for (int i = 0; i < connection_count; i++)
        open_connection(&connections[i], port);

    double server_cpu = server_cpu_seconds(pid), own_cpu = own_cpu_seconds();
    uint64_t began_ns = now_ns();
    if (timed)
        deadline_ns = began_ns + (uint64_t)(amount * 1e9);
    else
        operations_left = (uint64_t)amount;
    uint64_t bytes = run(connections, connection_count);
    double seconds = (double)(now_ns() - began_ns) / 1e9;
    own_cpu = own_cpu_seconds() - own_cpu;
    server_cpu = server_cpu_seconds(pid) - server_cpu;

    uint64_t errors = 0, nils = 0, empty = 0;
    const char *first_error = "";
    for (int i = 0; i < connection_count; i++) {
        const struct replies *r = &connections[i].replies;
        errors += r->errors;
        nils += r->nils;
        empty += r->empty;
        if (!*first_error)
            first_error = r->first_error;
    }
    printf("{\"operations\": %lu, \"seconds\": %.6f, \"server_cpu_seconds\": %.2f, \"loader_cpu_seconds\": %.6f, ",
           finished, seconds, server_cpu, own_cpu);
    printf("\"reply_bytes\": %lu, \"errors\": %lu, \"nils\": %lu, \"empty\": %lu, ", bytes, errors, nils, empty);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"first_error\": ", percentile_us(0.5),
           percentile_us(0.99), percentile_us(0.999));
    print_text(first_error);
    puts("}");
    return 0;
}

static int count_replies(size_t piece)
{
    struct replies r = {0};
    char *stream;
    size_t length = read_all(&stream);
    for (size_t at = 0; at < length; at += piece)
        feed(&r, stream + at, piece < length - at ? piece : length - at);
    printf("{\"replies\": %lu, \"errors\": %lu, \"nils\": %lu, \"empty\": %lu, \"missing\": %ld, \"damaged\": %s, ",
           r.done, r.errors, r.nils, r.empty, r.missing, r.damaged ? "true" : "false");
    printf("\"first_error\": ");
    print_text(r.first_error);
    puts("}");
    return 0;
}

int main(int count, char **arguments)
{
    if (count >= 2 && strcmp(arguments[1], "load") == 0)
        return load(count - 2, arguments + 2);
    if (count == 3 && strcmp(arguments[1], "replies") == 0 && atol(arguments[2]) > 0)
        return count_replies((size_t)atol(arguments[2]));
    fail("loader load ... | loader replies BYTES");
}
