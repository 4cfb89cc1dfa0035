/* Sends requests at a fixed rate, whether or not the server keeps up, and measures how late each reply is.

     pacer PORT CONNECTIONS RATE OPERATIONS SERVER_PID SEED LENGTH [FIELD...] < templates

   Operation number i, from 0, is due (i + 1) / RATE seconds after the start, on connection i % CONNECTIONS, whatever has
   become of those before it. Its latency counts from that moment to its reply. So a server that stands still for 100 ms
   is seen by every request that was due in these 100 ms; a program that waits for a reply before it asks again would
   have seen it once, and sent the others when all was well ("coordinated omission").

   An operation is one command. Templates and fields are described in `requests.h`.

   How late this program itself was is measured too: from the moment an operation was due to the moment its first byte
   was handed to the kernel, where nothing older was still waiting to be taken by the server. These are the `late_`
   figures: when they are large, the machine was too busy for the latencies to mean the server.

   Prints one JSON object. Ends with a message and exit code 1 when the server does, or answers what is not RESP. */

#define _GNU_SOURCE
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "requests.h"

#define SILENCE_MS_MAX 30000

struct connection {
    int fd;
    uint64_t due, begun, finished; /* operations of this connection that are due, handed over (the last perhaps in part),
                                      answered */
    char *request;                 /* the one that is being handed over */
    size_t left;                   /* bytes of it that the kernel has not taken yet */
    bool wants_write;
    struct replies replies;
};

static struct connection *connections;
static uint64_t connection_count, operations, finished, began_ns, next_due;
static double interval_ns;
static struct latencies latencies, late;
static int poll_fd, timer_fd;

static uint64_t due_at_ns(uint64_t operation)
{
    return began_ns + (uint64_t)((double)(operation + 1) * interval_ns);
}

/* The running number of a connection's nth operation. */
static uint64_t number_of(const struct connection *c, uint64_t nth)
{
    return nth * connection_count + (uint64_t)(c - connections);
}

/* Hand over what is due, until the kernel takes no more. */
static void write_some(struct connection *c, uint64_t now)
{
    bool waited = c->left > 0 || c->wants_write;
    while (c->left > 0 || c->begun < c->due) {
        if (c->left == 0) {
            uint64_t number = number_of(c, c->begun++);
            sequence = number;
            lay_out_operation(c->request);
            c->left = template_length;
            if (!waited)
                keep_latency(&late, now - due_at_ns(number), 1);
        }
        ssize_t count = write(c->fd, c->request + (template_length - c->left), c->left);
        if (count > 0)
            c->left -= (size_t)count;
        else if (count < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        else
            fail("writing to the server: %s", strerror(errno));
    }
    bool wants = c->left > 0;
    if (wants != c->wants_write) {
        struct epoll_event event = {.events = wants ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
        epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &event);
        c->wants_write = wants;
    }
}

static void read_some(struct connection *c)
{
    ssize_t count = read(c->fd, incoming, sizeof incoming);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0)
        fail("the server closed a connection%s%s", count ? ": " : "", count ? strerror(errno) : "");
    feed(&c->replies, incoming, (size_t)count);
    if (c->replies.damaged)
        fail("the server answered what is not RESP");
    if (c->replies.done > c->begun)
        fail("the server sent more replies than there were commands");
    for (uint64_t now = now_ns(); c->finished < c->replies.done; finished++)
        keep_latency(&latencies, now - due_at_ns(number_of(c, c->finished++)), 1);
}

/* Begin what is due by now, and set the timer for what comes next. */
static void begin_what_is_due(void)
{
    uint64_t now = now_ns();
    for (; next_due < operations && due_at_ns(next_due) <= now; next_due++) {
        struct connection *c = &connections[next_due % connection_count];
        c->due++;
        write_some(c, now);
        now = now_ns();
    }
    if (next_due < operations) {
        uint64_t at = due_at_ns(next_due);
        struct itimerspec when = {.it_value = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)}};
        timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    }
}

static void run(void)
{
    struct epoll_event events[64];
    uint64_t expirations;
    began_ns = now_ns();
    begin_what_is_due();
    while (finished < operations) {
        int ready = epoll_wait(poll_fd, events, 64, SILENCE_MS_MAX);
        if (ready == 0)
            fail("the server said nothing for %d s", SILENCE_MS_MAX / 1000);
        /* Replies first: what has come before a request was due must not look as if it had waited for its sending. */
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (c && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                read_some(c);
            if (c && c->wants_write && (events[i].events & EPOLLOUT))
                write_some(c, now_ns());
        }
        while (read(timer_fd, &expirations, sizeof expirations) > 0)
            ;
        begin_what_is_due();
    }
}

static void open_all(int port)
{
    struct epoll_event event = {.events = EPOLLIN};
    poll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, timer_fd, &event);
    connections = calloc(connection_count, sizeof *connections);
    for (struct connection *c = connections; c < connections + connection_count; c++) {
        c->fd = connected(port);
        c->request = malloc(template_length);
        memcpy(c->request, templates, template_length);
        event.data.ptr = c;
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &event);
    }
}

static void print_latencies(const char *prefix, const struct latencies *l)
{
    printf("\"%sp50_us\": %.1f, \"%sp99_us\": %.1f, \"%sp999_us\": %.1f, \"%smax_us\": %.1f, ", prefix,
           percentile_us(l, 0.5), prefix, percentile_us(l, 0.99), prefix, percentile_us(l, 0.999), prefix,
           (double)l->greatest_ns / 1e3);
}

int main(int count, char **arguments)
{
    if (count < 8)
        fail("pacer PORT CONNECTIONS RATE OPERATIONS SERVER_PID SEED LENGTH [FIELD...]");
    connection_count = strtoull(arguments[2], NULL, 10);
    double rate = atof(arguments[3]);
    operations = strtoull(arguments[4], NULL, 10);
    long pid = atol(arguments[5]);
    random_state = strtoull(arguments[6], NULL, 10);
    if (connection_count < 1 || operations < 1 || rate <= 0)
        fail("every number has to be at least 1");
    interval_ns = 1e9 / rate;
    take_templates(strtoull(arguments[7], NULL, 10), count - 8, arguments + 8);
    open_all(atoi(arguments[1]));

    double server_cpu = server_cpu_seconds(pid), own_cpu = own_cpu_seconds();
    run();
    double seconds = (double)(now_ns() - began_ns) / 1e9;
    own_cpu = own_cpu_seconds() - own_cpu;
    server_cpu = server_cpu_seconds(pid) - server_cpu;

    uint64_t errors = 0, nils = 0;
    const char *first_error = "";
    for (struct connection *c = connections; c < connections + connection_count; c++) {
        errors += c->replies.errors;
        nils += c->replies.nils;
        if (!*first_error)
            first_error = c->replies.first_error;
    }
    printf("{\"operations\": %lu, \"seconds\": %.6f, \"server_cpu_seconds\": %.2f, \"pacer_cpu_seconds\": %.6f, ",
           finished, seconds, server_cpu, own_cpu);
    print_latencies("", &latencies);
    print_latencies("late_", &late);
    printf("\"errors\": %lu, \"nils\": %lu, \"first_error\": ", errors, nils);
    print_text(first_error);
    puts("}");
    return 0;
}
