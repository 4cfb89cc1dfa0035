/* Time, CPU time and latencies, for the programs that put load on a server.

   No socket and nothing of requests here: see `requests.h`. */

#ifndef MEASURING_H
#define MEASURING_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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

/* In buckets: 64 for each power of two of nanoseconds, so a bucket is at most 1.6 % wide. The greatest is exact. */
#define STEP_BITS 6
#define STEPS (1 << STEP_BITS)
#define BUCKETS (STEPS * 64)

struct latencies {
    uint64_t buckets[BUCKETS];
    uint64_t count, greatest_ns;
};

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

static void keep_latency(struct latencies *l, uint64_t ns, uint64_t count)
{
    l->buckets[bucket_of(ns)] += count;
    l->count += count;
    if (ns > l->greatest_ns)
        l->greatest_ns = ns;
}

static double percentile_us(const struct latencies *l, double share)
{
    double rank = share * (double)l->count;
    uint64_t below = 0;
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
        below += l->buckets[bucket];
        if (below > 0 && (double)below >= rank)
            return bucket_middle_us(bucket);
    }
    return 0;
}

/* ---- what is printed ---- */

static void print_text(const char *text) /* as a JSON string; control characters and quotes become blanks */
{
    putchar('"');
    for (; *text; text++)
        putchar(*text < 32 || *text == '"' || *text == '\\' || *text == 127 ? ' ' : *text);
    putchar('"');
}

#endif
