/* Loaded before the C library: writes down how much of each file the disk has been told to have.

   A line `SIZE PATH` is appended to the file that SYNCED_SIZES names, after each fsync and fdatasync. While there is a
   file that SYNC_FAILS names, they fail, as on a disk that is broken: what was written may be there all the same. While
   there is one that SYNC_HANGS names, they do not return; it has a byte for each that came to it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void hang(void) {
    const char *while_there = getenv("SYNC_HANGS");
    int at = while_there == NULL ? -1 : open(while_there, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (at < 0) return;
    if (write(at, ".", 1) != 1) abort();
    close(at);
    while (access(while_there, F_OK) == 0) usleep(1000);
}

static int note(const char *name, int fd) {
    hang();
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat found;
    const char *fails = getenv("SYNC_FAILS");
    if (fails != NULL && access(fails, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    int known = fstat(fd, &found); /* before: what is written meanwhile may not be there */
    int result = real(fd);
    const char *to = getenv("SYNCED_SIZES");
    if (result == 0 && known == 0 && to != NULL) {
        char link[64], path[PATH_MAX], line[PATH_MAX + 32];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length > 0) {
            path[length] = 0;
            int written = snprintf(line, sizeof line, "%lld %s\n", (long long)found.st_size, path);
            int out = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
            if (out >= 0) {
                if (write(out, line, written) != written) abort();
                close(out);
            }
        }
    }
    return result;
}

int fsync(int fd) { return note("fsync", fd); }
int fdatasync(int fd) { return note("fdatasync", fd); }
