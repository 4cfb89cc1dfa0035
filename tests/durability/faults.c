/* Loaded into a server with LD_PRELOAD: a wall clock and failures of the disk that a test holds in its hands.
 *
 * The file named by FAULTS_CONTROL is mapped; its layout is that of `faults.Faults`. Zeros change nothing. Only what the
 * log uses is covered: writes by position, syncs and reservations. Time that is not wall time is left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t wall_ns;       /* what the wall clock says; 0: the truth */
    volatile int64_t sync_errno;    /* how fdatasync and fsync fail */
    volatile int64_t write_errno;   /* how writes by position fail */
    volatile int64_t reserve_errno; /* how posix_fallocate fails */
    volatile int64_t write_short;   /* bytes that a failing write takes before it fails, once */
    volatile int64_t sync_wait_us;  /* how long a sync takes at least */
    volatile int64_t syncs;         /* syncs asked for so far */
};

static struct control nothing;
static struct control *control = &nothing;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAULTS_CONTROL");
    int descriptor = name == NULL ? -1 : open(name, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return;
    void *mapped = mmap(NULL, sizeof nothing, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped != MAP_FAILED)
        control = mapped;
    close(descriptor);
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (next == NULL) \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int clock_gettime(clockid_t which, struct timespec *now) {
    NEXT(clock_gettime);
    int64_t wall_ns = control->wall_ns;
    if (wall_ns == 0 || (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE))
        return next(which, now);
    now->tv_sec = wall_ns / 1000000000;
    now->tv_nsec = wall_ns % 1000000000;
    return 0;
}

static int sync_fails(void) {
    __atomic_add_fetch(&control->syncs, 1, __ATOMIC_RELAXED);
    if (control->sync_wait_us)
        usleep((useconds_t)control->sync_wait_us);
    errno = (int)control->sync_errno;
    return errno != 0;
}

int fdatasync(int descriptor) {
    NEXT(fdatasync);
    return sync_fails() ? -1 : next(descriptor);
}

int fsync(int descriptor) {
    NEXT(fsync);
    return sync_fails() ? -1 : next(descriptor);
}

/* How many bytes a write that is to fail takes now; -1: none, it fails. */
static ssize_t taken(size_t count) {
    size_t some = (size_t)__atomic_exchange_n(&control->write_short, 0, __ATOMIC_RELAXED);
    if (some && count)
        return (ssize_t)(some < count ? some : count);
    errno = (int)control->write_errno;
    return -1;
}

static ssize_t write_some(int descriptor, const struct iovec *parts, int count, off_t position) {
    size_t total = 0;
    for (int part = 0; part < count; part++)
        total += parts[part].iov_len;
    ssize_t left = taken(total), done = 0;
    if (left < 0)
        return -1;
    for (int part = 0; part < count && left > 0; part++) {
        size_t length = parts[part].iov_len < (size_t)left ? parts[part].iov_len : (size_t)left;
        static ssize_t (*plain)(int, const void *, size_t, off_t);
        if (plain == NULL)
            plain = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
        ssize_t wrote = plain(descriptor, parts[part].iov_base, length, position + done);
        if (wrote < 0)
            return -1;
        done += wrote;
        left -= wrote;
    }
    return done;
}

#define WRITE(name) \
    ssize_t name(int descriptor, const void *data, size_t length, off_t position) { \
        NEXT(name); \
        struct iovec part = {(void *)data, length}; \
        return control->write_errno ? write_some(descriptor, &part, 1, position) : next(descriptor, data, length, position); \
    }

#define WRITE_PARTS(name) \
    ssize_t name(int descriptor, const struct iovec *parts, int count, off_t position) { \
        NEXT(name); \
        return control->write_errno ? write_some(descriptor, parts, count, position) : next(descriptor, parts, count, position); \
    }

#define WRITE_PARTS_FLAGS(name) \
    ssize_t name(int descriptor, const struct iovec *parts, int count, off_t position, int flags) { \
        NEXT(name); \
        return control->write_errno ? write_some(descriptor, parts, count, position) \
                                    : next(descriptor, parts, count, position, flags); \
    }

WRITE(pwrite)
WRITE(pwrite64)
WRITE_PARTS(pwritev)
WRITE_PARTS(pwritev64)
WRITE_PARTS_FLAGS(pwritev2)
WRITE_PARTS_FLAGS(pwritev64v2)

int posix_fallocate(int descriptor, off_t position, off_t count) {
    NEXT(posix_fallocate);
    return control->reserve_errno ? (int)control->reserve_errno : next(descriptor, position, count);
}

int posix_fallocate64(int descriptor, off64_t position, off64_t count) {
    NEXT(posix_fallocate64);
    return control->reserve_errno ? (int)control->reserve_errno : next(descriptor, position, count);
}
