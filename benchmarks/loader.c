/* Keeps many connections to a RESP server busy with one kind of request, and measures.

     loader load PORT CONNECTIONS PIPELINE seconds|operations AMOUNT SERVER_PID COMMANDS SEED LENGTH [FIELD...] < templates
     loader replies BYTES < stream

   An operation is COMMANDS commands, each answered by one reply. Each connection sends PIPELINE operations in one write,
   waits for all their replies and sends the next, so at most CONNECTIONS * PIPELINE operations are under way.

   Templates and fields are described in `requests.h`. The requests of a connection are laid out once; per operation
   only its digits (and, with several templates, one copy) are work, so that the server is the limit and not this
   program. Whether it was is in `loader_cpu_seconds`. A load at a fixed rate is `pacer.c`.

   The measured time begins when every connection has had an answer to a PING, so that accepting is not part of it, and
   ends with the last reply. The server's CPU time is read from /proc at both moments.

   `replies` is for tests: it feeds a stream to the counter of replies in pieces of BYTES bytes.

   Prints one JSON object. Ends with a message and exit code 1 when the server does, or answers what is not RESP. */

#define _GNU_SOURCE
#include <sys/epoll.h>

#include "requests.h"

#define SILENCE_MS_MAX 30000

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

static uint64_t pipeline, commands;
static uint64_t operations_left, deadline_ns; /* one of them bounds the load: operations_left, or the deadline */
static struct latencies latencies;
static int poll_fd;

/* ---- requests ---- */

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
        keep_latency(&latencies, now_ns() - c->sent_at_ns, operations - base);
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
    c->fd = connected(port);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &event);
    c->requests = malloc(pipeline * template_length);
    for (uint64_t i = 0; i < pipeline; i++)
        memcpy(c->requests + i * template_length, templates, template_length);
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
    if (connection_count < 1 || pipeline < 1 || commands < 1)
        fail("every number has to be at least 1");
    take_templates(strtoull(arguments[8], NULL, 10), count - 9, arguments + 9);

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
           latencies.count, seconds, server_cpu, own_cpu);
    printf("\"reply_bytes\": %lu, \"errors\": %lu, \"nils\": %lu, \"empty\": %lu, ", bytes, errors, nils, empty);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"first_error\": ", percentile_us(&latencies, 0.5),
           percentile_us(&latencies, 0.99), percentile_us(&latencies, 0.999));
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
