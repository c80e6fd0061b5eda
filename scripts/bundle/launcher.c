/* Starts the Python that lies in the same file as this program, from memory: nothing is unpacked to a disk.

   It is linked statically, so it needs nothing of the system but Linux. Behind it, in the same file, lie what
   scripts/build_bundle.py put there; `parts` says where those are that Python itself needs: the loader of the C
   library, Python, and their shared libraries. Each becomes a file in memory, and the loader gets them by number. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_PARTS 32
#define NAME_SIZE 48

struct part {
    char name[NAME_SIZE];
    unsigned long long offset, size;
};

/* Filled in by scripts/build_bundle.py, which looks for the magic: the loader, Python, then libraries. */
static volatile struct {
    char magic[32];
    unsigned long long count;
    struct part parts[MOST_PARTS];
} table = {"brokerless bundle: its own parts", 0, {{{0}, 0, 0}}};

extern char **environ;

static void fail(const char *what)
{
    fprintf(stderr, "brokerless: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* A file in memory; where the system does not let such files be executed, a file of a temporary directory that has no
   name any more. */
static int new_file(const char *name)
{
    static const char *places[] = {NULL, "/tmp", "/var/tmp", "/dev/shm"};
    int made = -1;
    if (!getenv("BROKERLESS_BUNDLE_ON_DISK")) {
        made = (int)syscall(SYS_memfd_create, name, 0x10 /* MFD_EXEC */);
        if (made < 0 && errno == EINVAL) /* before Linux 6.3 */
            made = (int)syscall(SYS_memfd_create, name, 0);
    }
    places[0] = getenv("TMPDIR");
    for (int i = 0; made < 0 && i < 4; i++)
        if (places[i] && *places[i])
            made = open(places[i], O_TMPFILE | O_RDWR, 0700);
    if (made < 0)
        fail("no file in memory can be made, and none in $TMPDIR, /tmp, /var/tmp or /dev/shm");
    return made;
}

static int part_as_file(int bundle, volatile struct part *part)
{
    off_t at = (off_t)part->offset;
    size_t left = (size_t)part->size;
    int file = new_file((const char *)part->name);
    while (left) {
        ssize_t sent = sendfile(file, bundle, &at, left);
        if (sent < 0)
            fail("a part of the program cannot be copied into memory");
        if (!sent) {
            fprintf(stderr, "brokerless: this file is cut off; copy it again\n");
            exit(2);
        }
        left -= (size_t)sent;
    }
    return file;
}

int main(int argc, char **argv)
{
    static char own[PATH_MAX], preload[MOST_PARTS * 32], loader[64], python[64], path[64], number[16];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length < 0)
        fail("/proc is needed, and cannot be read");
    int bundle = open("/proc/self/exe", O_RDONLY);
    if (bundle < 0)
        fail(own);

    /* What is set for another Python is not for this one. */
    for (char **each = environ; *each;) {
        if (!strncmp(*each, "PYTHON", 6)) {
            char name[256];
            size_t size = strcspn(*each, "=");
            if (size < sizeof name) {
                memcpy(name, *each, size);
                name[size] = 0;
                unsetenv(name);
                each = environ;
                continue;
            }
        }
        each++;
    }
    unsetenv("LD_PRELOAD");
    unsetenv("LD_LIBRARY_PATH");

    for (unsigned long long i = 0; i < table.count; i++) {
        int file = part_as_file(bundle, &table.parts[i]);
        if (i == 0)
            snprintf(loader, sizeof loader, "/proc/self/fd/%d", file);
        else if (i == 1)
            snprintf(python, sizeof python, "/proc/self/fd/%d", file);
        else
            snprintf(preload + strlen(preload), 32, "%s/proc/self/fd/%d", *preload ? ":" : "", file);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", bundle);
    snprintf(number, sizeof number, "%d", bundle);
    setenv("PYTHONPATH", path, 1);
    setenv("PYTHONHOME", "/proc/self/fd/none", 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    setenv("BROKERLESS_BUNDLE", own, 1);
    setenv("BROKERLESS_BUNDLE_FD", number, 1);

    char **arguments = calloc((size_t)argc + 16, sizeof *arguments);
    int n = 0;
    if (!arguments)
        fail("no memory");
    arguments[n++] = own;
    arguments[n++] = "--argv0";
    arguments[n++] = own;
    arguments[n++] = "--preload";
    arguments[n++] = preload;
    arguments[n++] = python;
    arguments[n++] = "-s";
    arguments[n++] = "-S";
    arguments[n++] = "-c";
    arguments[n++] = "import brokerless_bundle; brokerless_bundle.run()";
    for (int i = 1; i < argc; i++)
        arguments[n++] = argv[i];
    execv(loader, arguments);
    fail("Python cannot be started");
}
