/* A disk that misbehaves on demand, put under a process by LD_PRELOAD.
 *
 * The file named by ZQ_DISK_FAULTS says how, one fault a line, read at each call:
 *
 *     sync-eio PART 0        fsync and fdatasync of files whose path holds PART fail with EIO
 *     full PART BYTES        such a file does not grow beyond BYTES: what fits is written, then ENOSPC
 *     taken PART 0           nothing behind the first two pages finds room, though they exist
 *     head PART 0            nothing within the first two pages finds room
 *     slow PART MILLISECONDS such a sync takes so much longer, at most until the line is gone
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MS 20
#define HEAD_BYTES 8192 /* LMDB's two meta pages */

static long fault(const char *kind, int fd) {
    const char *control = getenv("ZQ_DISK_FAULTS");
    char link[64], path[4096], line[4096], name[64], part[2048];
    long number, found = -1;
    FILE *file = control ? fopen(control, "re") : NULL;
    if (!file) return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %2047s %ld", name, part, &number) == 3 && !strcmp(name, kind) &&
            strstr(path, part))
            found = number;
    fclose(file);
    return found;
}

#define NEXT(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

static int sync_fault(int fd) {
    const struct timespec pause = {0, PAUSE_MS * 1000000};
    for (long waited_ms = 0; waited_ms < fault("slow", fd); waited_ms += PAUSE_MS)
        nanosleep(&pause, NULL);
    return fault("sync-eio", fd) >= 0;
}

int fsync(int fd) {
    if (sync_fault(fd)) return errno = EIO, -1;
    return NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    if (sync_fault(fd)) return errno = EIO, -1;
    return NEXT(fdatasync)(fd);
}

/* How many of `bytes` at `offset` find room. */
static size_t room(int fd, size_t bytes, off_t offset) {
    long limit = fault("full", fd);
    struct stat now;
    if (fault(offset < HEAD_BYTES ? "head" : "taken", fd) >= 0) return 0;
    if (limit < 0 || fstat(fd, &now)) return bytes;
    off_t end = now.st_size > limit ? now.st_size : limit;
    if (offset >= end) return 0;
    return offset + (off_t)bytes <= end ? bytes : (size_t)(end - offset);
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t offset) {
    size_t fits = room(fd, bytes, offset);
    if (bytes && !fits) return errno = ENOSPC, -1;
    return NEXT(pwrite64)(fd, from, fits, offset);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset) {
    return pwrite64(fd, from, bytes, offset);
}

ssize_t pwritev64(int fd, const struct iovec *from, int count, off64_t offset) {
    size_t bytes = 0;
    for (int n = 0; n < count; n++) bytes += from[n].iov_len;
    size_t fits = room(fd, bytes, offset);
    if (fits == bytes) return NEXT(pwritev64)(fd, from, count, offset);
    if (!fits) return errno = ENOSPC, -1;
    size_t first = from[0].iov_len < fits ? from[0].iov_len : fits;
    return NEXT(pwrite64)(fd, from[0].iov_base, first, offset);
}

ssize_t pwritev(int fd, const struct iovec *from, int count, off_t offset) {
    return pwritev64(fd, from, count, offset);
}

ssize_t write(int fd, const void *from, size_t bytes) {
    off_t offset = lseek(fd, 0, SEEK_CUR);
    int saved = errno;
    if (offset >= 0) {
        size_t fits = room(fd, bytes, offset);
        if (bytes && !fits) return errno = ENOSPC, -1;
        bytes = fits;
    }
    errno = saved;
    return NEXT(write)(fd, from, bytes);
}
