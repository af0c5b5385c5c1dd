/* Makes one chosen call of tenure's to the operating system fail. Loaded by LD_PRELOAD; see __init__.py for the rule that
 * decides which calls are tenure's. The harness writes a control file, which all processes of a run map and share. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* After the system's headers: Python would have them rename open to open64. */
#include "frames.h"

#define EXPORT __attribute__((visibility("default")))
enum { kSites = 8192, kDeepest = 24, kShort = -1 };

typedef struct {
    uint32_t mode;       /* 0: nothing, 1: note the calls, 2: fail the chosen one */
    int32_t error;       /* errno, or kShort: half of what was asked for */
    uint64_t site;       /* which call fails: the site, and the how many-th there */
    uint32_t occurrence;
    uint32_t from_there; /* from then on all calls of these kinds fail, a bit each; 0: only that one */
    _Atomic uint32_t calls, failed, begun;
    uint32_t whole;      /* all calls of this process are tenure's */
    _Atomic uint64_t keys[kSites];
    _Atomic uint32_t counts[kSites];
} Control;

static Control *control;
static char notes[4096];
static PyThreadState *(*this_thread)(void);
static int (*line_of)(PyCodeObject *, int);
static char standard[1024];

/* The kinds; the harness has the same list. */
#define KINDS(X) \
    X(open) X(read) X(write) X(close) X(stat) X(mkdir) X(rename) X(unlink) X(opendir) X(readdir) X(mmap) X(thread) X(pipe) \
    X(dup) X(fcntl) X(flock) X(truncate) X(seek) X(isatty) X(getcwd) X(dlopen) X(fork) X(exec) X(sigaction) X(kill) X(chmod)
#define NAME(name) k_##name,
enum { KINDS(NAME) };
#undef NAME
#define NAME(name) #name,
static const char *const kind_names[] = {KINDS(NAME)};

/* ---------------------------------------------------------------- whose call */

typedef struct {
    uint64_t hash;
    int depth;
    char text[1024];
} Site;

static const char *file_of(PyCodeObject *code) {
    PyObject *name = code->co_filename;
    return name && PyUnicode_IS_COMPACT_ASCII(name) ? (const char *)PyUnicode_1BYTE_DATA(name) : "";
}

static const char *function_of(PyCodeObject *code) {
    PyObject *name = code->co_name;
    return name && PyUnicode_IS_COMPACT_ASCII(name) ? (const char *)PyUnicode_1BYTE_DATA(name) : "";
}

/* The path below the package, if this file is tenure's. */
static const char *below_tenure(const char *file) {
    const char *found = strstr(file, "/tenure/");
    return found && strstr(file, ".py") && !strstr(file, "/tests/") ? found + 8 : NULL;
}

/* Code that works for whoever called it: the standard library, its frozen part, and what tenure alone brings along. */
static int serves(const char *file) {
    if (*file == '<' || strstr(file, "/pyarrow/")) return 1;
    return *standard && strncmp(file, standard, strlen(standard)) == 0 && !strstr(file, "/site-packages/");
}

static int is_framework(const char *object) {
    static const char *const names[] = {"/torch/", "/jaxlib/", "/tensorflow/", "/numpy", "/h5py", "/ml_dtypes/", "/scipy", "libgomp", "libcuda"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(object, names[i])) return 1;
    return 0;
}

static const char *object_at(void *address) {
    struct dl_find_object found;
    return _dl_find_object(address, &found) == 0 ? found.dlfo_link_map->l_name : "?";
}

/* What these call is what the program would call without them: the search for the user's module, the hook of threading. */
static int passes_on(const char *ours, const char *function) {
    return (strcmp(ours, "frameworks/imports.py") == 0 && strcmp(function, "find_spec") == 0) ||
           (strcmp(ours, "explain/uncaught.py") == 0 && strcmp(function, "in_thread") == 0);
}

/* Whether `site` runs a line of tenure's .pth file in this frame. */
static int runs_our_pth(_PyInterpreterFrame *frame, PyCodeObject *code) {
    if (strcmp(function_of(code), "addpackage") != 0 || code->co_argcount < 2) return 0;
    PyObject *name = frame->localsplus[1]; /* the arguments are a folder and the name of a file */
    return name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "tenure-autostart.pth") == 0;
}

/* The collector runs those of the program wherever it is. */
static int is_finalizer(const char *file, const char *function) {
    return strcmp(function, "__del__") == 0 || (strcmp(function, "__call__") == 0 && strstr(file, "/multiprocessing/util.py"));
}

static int is_public(const char *ours) {
    return strcmp(ours, "__init__.py") == 0 || strcmp(ours, "lifetime/scope.py") == 0 || strcmp(ours, "trace/api.py") == 0;
}

/* Arrow's allocator does not survive that its mapping fails; tenure tries beforehand whether there is room. */
static int is_arrows_memory(int kind, const char *object) { return kind == k_mmap && strstr(object, "libarrow"); }

static int is_tenures(int kind, void *caller, Site *site) {
    PyThreadState *thread = this_thread ? this_thread() : NULL;
    const char *object = object_at(caller);
    int native = strstr(object, "tenure_") != NULL;
    if (!thread || (is_framework(object) && !native) || strstr(object, "libstdc++") || is_arrows_memory(kind, object)) return 0;
    site->hash = 1469598103934665603ULL;
    site->depth = 0;
    *site->text = 0;
    size_t used = 0;
    int imports = 0, begins = 0;
    const char *outermost = "", *inner = "";
    for (_PyInterpreterFrame *frame = top_frame(thread); frame; frame = frame->previous) {
        PyCodeObject *code = frame_code(frame);
        if (!code) continue;
        int lasti = _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT);
        const char *file = file_of(code), *ours = below_tenure(file);
        if (strcmp(inner, "<string>") == 0 && runs_our_pth(frame, code)) begins = 1;
        inner = file;
        if (!ours) {
            if (!site->depth && is_finalizer(file, function_of(code))) return 0;
            if (site->depth || serves(file)) {
                imports |= !site->depth && strncmp(file, "<frozen importlib", 17) == 0;
                continue;
            }
            if (!native && !control->whole && !begins) return 0; /* somebody else's code asked for it */
            continue;
        }
        if (!site->depth && passes_on(ours, function_of(code))) return 0;
        outermost = ours;
        int line = line_of(code, lasti);
        for (const char *at = ours; *at; at++) site->hash = (site->hash ^ (unsigned char)*at) * 1099511628211ULL;
        site->hash = (site->hash ^ (uint64_t)line) * 1099511628211ULL;
        const char *before = used ? " < " : imports ? "import " : "";
        int wrote = snprintf(site->text + used, sizeof site->text - used, "%s%s:%d", before, ours, line);
        if (wrote > 0 && (used += (size_t)wrote) >= sizeof site->text) used = sizeof site->text - 1;
        if (++site->depth == kDeepest) break;
    }
    if (begins && !site->depth) snprintf(site->text, sizeof site->text, "%stenure-autostart.pth", imports ? "import " : "");
    /* What the program itself asks tenure for has to be imported. */
    else if (!begins && imports && is_public(outermost)) return 0;
    return begins || site->depth > 0 || native || control->whole;
}

/* ---------------------------------------------------------------- whether it fails */

static uint32_t count(uint64_t key) {
    for (size_t at = key % kSites, tries = 0; tries < kSites; at = (at + 1) % kSites, tries++) {
        uint64_t there = atomic_load(&control->keys[at]);
        if (!there && atomic_compare_exchange_strong(&control->keys[at], &there, key)) there = key;
        if (there == key) return atomic_fetch_add(&control->counts[at], 1) + 1;
    }
    return 0;
}

static void note(const char *what, const Site *site, uint64_t key, uint32_t occurrence, int kind, const char *about) {
    char line[1800];
    int length = snprintf(line, sizeof line, "%s\t%llu\t%u\t%s\t%ld\t%s\t%.300s\n", what, (unsigned long long)key, occurrence,
                          kind_names[kind], syscall(SYS_getpid), site->text, about ? about : "");
    if (length >= (int)sizeof line) length = sizeof line - 1;
    int handle = (int)syscall(SYS_openat, AT_FDCWD, notes, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (handle < 0) return;
    syscall(SYS_write, handle, line, (size_t)length);
    syscall(SYS_close, handle);
}

/* 0, or the error that this call has. */
static __attribute__((noinline)) int fails(int kind, void *caller, const char *about) {
    if (!control || !control->mode) return 0;
    int kept = errno;
    Site site;
    if (!is_tenures(kind, caller, &site)) {
        site.text[0] = 0; /* an extension that the program asked for, by using tenure: the harness has to know which */
        if (control->mode == 1 && kind == k_dlopen && about && strstr(about, "/tenure_")) note("load", &site, 0, 0, kind, about);
        return errno = kept, 0;
    }
    uint64_t key = (site.hash ^ (uint64_t)(kind + 1)) * 1099511628211ULL;
    uint32_t occurrence = count(key);
    atomic_fetch_add(&control->calls, 1);
    int error = 0;
    if (control->mode == 1) {
        note("call", &site, key, occurrence, kind, about);
    } else if (key == control->site && occurrence == control->occurrence) {
        error = control->error;
        atomic_store(&control->begun, 1);
    } else if (atomic_load(&control->begun) && control->from_there >> kind & 1) {
        error = control->error;
    }
    if (error && atomic_fetch_add(&control->failed, 1) < 20) note("fails", &site, key, occurrence, kind, about ? about : object_at(caller));
    errno = kept;
    return error;
}

static void attach(const char *path) {
    int handle = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (handle < 0) return;
    void *made = (void *)syscall(SYS_mmap, NULL, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    syscall(SYS_close, handle);
    if (made == MAP_FAILED) return;
    snprintf(notes, sizeof notes, "%s.notes", path);
    control = made;
}

/* Called by the server in each process that it forks. */
EXPORT void failing_calls_begin(const char *path) { attach(path); }

__attribute__((constructor)) static void begin(void) {
    this_thread = (PyThreadState *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    line_of = (int (*)(PyCodeObject *, int))dlsym(RTLD_DEFAULT, "PyCode_Addr2Line");
    const char *library = getenv("FAILING_CALLS_LIBRARY"), *path = getenv("FAILING_CALLS");
    if (library) snprintf(standard, sizeof standard, "%s", library);
    if (this_thread && line_of && path) attach(path);
}

/* ---------------------------------------------------------------- the calls */

/* The real function is reached by a jump, so that it sees its own caller, as dlopen and vfork must. */
#define REAL(name) \
    static __typeof__(&name) real; \
    if (__builtin_expect(!real, 0)) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);
#define FAILS(kind, about, failed) \
    int error = fails(k_##kind, __builtin_return_address(0), about); \
    if (__builtin_expect(error, 0)) return errno = error > 0 ? error : EIO, failed;

#define OPEN(name) \
    EXPORT int name(const char *path, int flags, ...) { \
        REAL(name) \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        FAILS(open, path, -1) \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name) \
    EXPORT int name(int folder, const char *path, int flags, ...) { \
        REAL(name) \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        FAILS(open, path, -1) \
        return real(folder, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

#define HALF(size) (error < 0 && (size) > 1)
#define TRANSFER(name, kind, type) \
    EXPORT ssize_t name(int handle, type data, size_t size) { \
        REAL(name) \
        int error = fails(k_##kind, __builtin_return_address(0), NULL); \
        if (__builtin_expect(error > 0 || (error && size < 2), 0)) return errno = error > 0 ? error : EIO, -1; \
        return real(handle, data, error ? size / 2 : size); \
    }
TRANSFER(read, read, void *)
TRANSFER(write, write, const void *)

/* Closed in any case, as Linux does. */
EXPORT int close(int handle) {
    REAL(close)
    int error = fails(k_close, __builtin_return_address(0), NULL);
    if (__builtin_expect(error, 0)) return real(handle), errno = EIO, -1;
    return real(handle);
}

#define CALL(type, name, kind, failed, about, parameters, arguments) \
    EXPORT type name parameters { \
        REAL(name) \
        FAILS(kind, about, failed) \
        return real arguments; \
    }
CALL(ssize_t, pread, read, -1, NULL, (int h, void *d, size_t s, off_t o), (h, d, s, o))
CALL(ssize_t, pread64, read, -1, NULL, (int h, void *d, size_t s, off64_t o), (h, d, s, o))
CALL(FILE *, fopen, open, NULL, p, (const char *p, const char *m), (p, m))
CALL(FILE *, fopen64, open, NULL, p, (const char *p, const char *m), (p, m))
CALL(int, stat, stat, -1, p, (const char *restrict p, struct stat *restrict s), (p, s))
CALL(int, stat64, stat, -1, p, (const char *restrict p, struct stat64 *restrict s), (p, s))
CALL(int, lstat, stat, -1, p, (const char *restrict p, struct stat *restrict s), (p, s))
CALL(int, lstat64, stat, -1, p, (const char *restrict p, struct stat64 *restrict s), (p, s))
CALL(int, fstat, stat, -1, NULL, (int h, struct stat *s), (h, s))
CALL(int, fstat64, stat, -1, NULL, (int h, struct stat64 *s), (h, s))
CALL(int, fstatat, stat, -1, p, (int f, const char *restrict p, struct stat *restrict s, int w), (f, p, s, w))
CALL(int, fstatat64, stat, -1, p, (int f, const char *restrict p, struct stat64 *restrict s, int w), (f, p, s, w))
CALL(int, access, stat, -1, p, (const char *p, int m), (p, m))
CALL(ssize_t, readlink, stat, -1, p, (const char *restrict p, char *restrict b, size_t s), (p, b, s))
CALL(int, mkdir, mkdir, -1, p, (const char *p, mode_t m), (p, m))
CALL(int, rename, rename, -1, p, (const char *p, const char *q), (p, q))
CALL(int, unlink, unlink, -1, p, (const char *p), (p))
CALL(int, rmdir, unlink, -1, p, (const char *p), (p))
CALL(DIR *, opendir, opendir, NULL, p, (const char *p), (p))
CALL(DIR *, fdopendir, opendir, NULL, NULL, (int h), (h))
CALL(struct dirent *, readdir, readdir, NULL, NULL, (DIR *d), (d))
CALL(struct dirent64 *, readdir64, readdir, NULL, NULL, (DIR *d), (d))
CALL(void *, mmap, mmap, MAP_FAILED, NULL, (void *a, size_t s, int p, int f, int h, off_t o), (a, s, p, f, h, o))
CALL(void *, mmap64, mmap, MAP_FAILED, NULL, (void *a, size_t s, int p, int f, int h, off64_t o), (a, s, p, f, h, o))
CALL(int, pthread_create, thread, error, NULL, (pthread_t *restrict t, const pthread_attr_t *restrict a, void *(*f)(void *), void *restrict w), (t, a, f, w))
CALL(int, pipe, pipe, -1, NULL, (int p[2]), (p))
CALL(int, pipe2, pipe, -1, NULL, (int p[2], int f), (p, f))
CALL(int, dup, dup, -1, NULL, (int h), (h))
CALL(int, dup2, dup, -1, NULL, (int h, int g), (h, g))
CALL(int, dup3, dup, -1, NULL, (int h, int g, int f), (h, g, f))
CALL(int, flock, flock, -1, NULL, (int h, int w), (h, w))
CALL(int, ftruncate, truncate, -1, NULL, (int h, off_t s), (h, s))
CALL(int, ftruncate64, truncate, -1, NULL, (int h, off64_t s), (h, s))
CALL(off_t, lseek, seek, -1, NULL, (int h, off_t o, int w), (h, o, w))
CALL(off64_t, lseek64, seek, -1, NULL, (int h, off64_t o, int w), (h, o, w))
CALL(int, isatty, isatty, 0, NULL, (int h), (h))
CALL(char *, getcwd, getcwd, NULL, NULL, (char *b, size_t s), (b, s))
CALL(void *, dlopen, dlopen, NULL, p, (const char *p, int m), (p, m))
CALL(pid_t, fork, fork, -1, NULL, (void), ())
CALL(pid_t, vfork, fork, -1, NULL, (void), ())
CALL(int, execve, exec, -1, p, (const char *p, char *const a[], char *const e[]), (p, a, e))
CALL(int, execv, exec, -1, p, (const char *p, char *const a[]), (p, a))
CALL(int, sigaction, sigaction, -1, NULL, (int s, const struct sigaction *restrict a, struct sigaction *restrict o), (s, a, o))
CALL(int, kill, kill, -1, NULL, (pid_t p, int s), (p, s))
CALL(int, chmod, chmod, -1, p, (const char *p, mode_t m), (p, m))
CALL(int, fchmod, chmod, -1, NULL, (int h, mode_t m), (h, m))
#define CONTROL(name) \
    EXPORT int name(int handle, int what, ...) { \
        REAL(name) \
        va_list rest; \
        va_start(rest, what); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        FAILS(fcntl, NULL, -1) \
        return real(handle, what, argument); \
    }
CONTROL(fcntl)
CONTROL(fcntl64)
