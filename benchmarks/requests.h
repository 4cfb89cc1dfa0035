/* Requests ready to send, and the digits that are written over them; and a connection to send them on.

   Templates are one or more requests of one length, used in turn; what differs between operations is written over them.
   A FIELD is OFFSET,SOURCE,DIVISOR,MODULUS: at OFFSET come DIGITS digits of value / DIVISOR % MODULUS, where the value
   is a random number of the operation (SOURCE r) or its running number (s). So an operation costs these digits and, with
   several templates, one copy. */

#ifndef REQUESTS_H
#define REQUESTS_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "measuring.h"
#include "replies.h"

#define DIGITS 8
#define FIELDS_MAX 16
#define READ_BYTES (256 * 1024)

struct field {
    size_t offset;
    char source;
    uint64_t divisor, modulus;
};

static struct field fields[FIELDS_MAX];
static int field_count;
static char *templates;
static size_t template_length, template_count;
static uint64_t random_state, sequence;
static char incoming[READ_BYTES];

static uint64_t next_random(void) /* splitmix64 */
{
    uint64_t x = random_state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

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

/* The templates on standard input, and the fields of the command line. */
static void take_templates(size_t length_of_one, int count, char **arguments)
{
    size_t length = read_all(&templates);
    template_length = length_of_one;
    if (template_length < 1 || length % template_length || !length)
        fail("the templates have to be whole, and every number at least 1");
    template_count = length / template_length;
    take_fields(count, arguments);
}

/* A connection that has answered a PING, and does not block. */
static int connected(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct replies replies = {0};
    int on = 1;
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connecting to port %d: %s", port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (write(fd, "PING\r\n", 6) != 6)
        fail("writing to the server: %s", strerror(errno));
    while (replies.done < 1) {
        ssize_t count = read(fd, incoming, sizeof incoming);
        if (count <= 0)
            fail("the server closed a connection");
        feed(&replies, incoming, (size_t)count);
    }
    if (replies.errors)
        fail("PING: %s", replies.first_error);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

#endif
