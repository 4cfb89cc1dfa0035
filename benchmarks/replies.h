/* Counts complete replies in a stream of RESP2 and RESP3, without keeping any of them.

   Bytes in, counts out: no socket here. A reply may be cut anywhere, also inside a header, and nested to any depth,
   since depth needs no stack: an aggregate of n values adds n to the number of values that are still missing, and a
   reply is complete when none is. A bulk's bytes are passed over by arithmetic; only headers are looked at one by one.

   Attributes and pushes are not replies and are not expected by a load that subscribes to nothing: they count as
   damage, like any unknown type. */

#ifndef REPLIES_H
#define REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ERROR_TEXT_BYTES 120
#define COUNT_MAX (INT64_C(1) << 40)

struct replies {
    int64_t missing; /* values that the reply under way still lacks; 0 between replies */
    int64_t skip;    /* bytes of a bulk, with its CRLF, still to pass over */
    int64_t number;  /* count in the header under way */
    char type;       /* first byte of the header under way; 0 between headers */
    bool negative;
    bool damaged; /* not RESP: nothing more is counted */
    uint64_t done, errors, nils, empty;
    char first_error[ERROR_TEXT_BYTES + 1];
    size_t error_bytes; /* how much of first_error is filled; it is closed when its line has ended */
    bool error_closed;
};

static void value_ended(struct replies *r)
{
    r->type = 0;
    if (--r->missing == 0)
        r->done++;
}

static void keep_error(struct replies *r, const char *text, size_t count)
{
    if (r->error_closed)
        return;
    if (count > ERROR_TEXT_BYTES - r->error_bytes)
        count = ERROR_TEXT_BYTES - r->error_bytes;
    memcpy(r->first_error + r->error_bytes, text, count);
    r->error_bytes += count;
}

/* The line of a header that carries a count has ended. */
static void counted_header_ended(struct replies *r)
{
    bool aggregate = r->type == '*' || r->type == '~' || r->type == '%';
    if (r->number > COUNT_MAX) {
        r->damaged = true;
        return;
    }
    if (r->negative) {
        r->nils++;
        value_ended(r);
    } else if (aggregate) {
        if (r->number == 0 && r->missing == 1)
            r->empty++; /* the whole reply is empty */
        r->missing += r->type == '%' ? 2 * r->number : r->number;
        value_ended(r);
    } else {
        if (r->type == '!')
            r->errors++;
        r->skip = r->number + 2;
    }
}

static const char *feed_line(struct replies *r, const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    const char *stop = newline ? newline : end;
    if (r->type == '-')
        keep_error(r, at, (size_t)(stop - at));
    if (!newline)
        return end;
    if (r->type == '-') {
        r->errors++;
        r->error_closed = true;
    } else if (r->type == '_') {
        r->nils++;
    }
    value_ended(r);
    return newline + 1;
}

static const char *feed_count(struct replies *r, const char *at, const char *end)
{
    while (at < end) {
        char byte = *at++;
        if (byte >= '0' && byte <= '9') {
            if (r->number <= COUNT_MAX)
                r->number = r->number * 10 + (byte - '0');
        } else if (byte == '-') {
            r->negative = true;
        } else if (byte == '\n') {
            counted_header_ended(r);
            break;
        } else if (byte != '\r') {
            r->damaged = true;
            break;
        }
    }
    return at;
}

static void feed(struct replies *r, const char *at, size_t count)
{
    const char *end = at + count;
    while (at < end && !r->damaged) {
        if (r->skip > 0) {
            int64_t step = r->skip < end - at ? r->skip : end - at;
            at += step;
            r->skip -= step;
            if (r->skip == 0)
                value_ended(r);
            continue;
        }
        if (r->type == 0) {
            r->type = *at++;
            r->number = 0;
            r->negative = false;
            if (r->missing == 0)
                r->missing = 1;
            continue;
        }
        switch (r->type) {
        case '$': case '*': case '%': case '~': case '=': case '!':
            at = feed_count(r, at, end);
            break;
        case '+': case '-': case ':': case ',': case '#': case '_': case '(':
            at = feed_line(r, at, end);
            break;
        default:
            r->damaged = true;
        }
    }
}

#endif
