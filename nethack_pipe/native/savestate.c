/* Exact in-memory savestates of NetHack, as NLE loads it.
 *
 * NLE loads one private copy of libnethack.so per game. In the copy that game/savestate/library.py makes of it, the
 * imports that keep state outside the library's own variables (malloc, fopen, ...) have the names sst_malloc,
 * sst_fopen, ... and land here. So everything that a game is made of lies in places that are known:
 *
 *   - the library's variables (.data and .bss);
 *   - the arena: every block the game has allocated, with the allocator's own records;
 *   - the stack of the coroutine that NLE runs the game on;
 *   - the head of the nle_obs struct and the observation arrays, which belong to the caller;
 *   - the read positions of open data files (only nhdat is ever open while the game waits for a key);
 *   - the files that the game has written: kept in memory, as an overlay over its folder, nothing reaches the disk.
 *
 * A savestate is a copy of all that. Loading it copies it back to the same addresses, hence it holds in this process
 * and for this loaded copy (an "instance") only: until the game is reset or closed.
 *
 * A hook finds its instance by its return address, so that games need no wrapper; the instance begins with the first
 * hook called while the library is being loaded (its C++ constructors allocate) and ends with __cxa_finalize.
 * Everything here runs under Python's global interpreter lock: there is no other lock.
 *
 * What cannot be saved (an arena that is full, a write outside of the game's folder) does not disturb the game: the
 * call is answered as libc would, and the instance remembers why it can no longer be saved.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <regex.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)
#define ALIGNED(n, to) (((n) + (to) - 1) & ~(size_t) ((to) - 1))

/* -- What is known of the library before it runs ----------------------------------------------------------------- */

/* Addresses are relative to where the library is loaded. Read by Python's ctypes: see library.py. */
struct layout {
    uint64_t span;                      /* its code and variables lie below this address */
    uint64_t writable, writable_end;    /* .data and .bss */
    uint64_t constant, constant_end;    /* a part of them that never changes once the game runs */
    uint64_t settings;                  /* nle_settings, which begins with the path of the game's folder */
    uint64_t current_ctx;               /* nle_ctx_t *current_nle_ctx */
    uint64_t get_obs, step;             /* nle_obs *nle_get_obs(void), nle_ctx_t *nle_step(nle_ctx_t *, nle_obs *) */
    uint64_t in_parse;                  /* iflags.in_parse: the key waited for begins a command */
    uint64_t moves, movement;           /* turn (long) and the hero's movement points (short) */
    uint64_t monsters, invent;          /* level.monsters and struct obj *invent */
    uint64_t arena;                     /* bytes an arena may grow to */
    const char *header;                 /* the file's first bytes: no other library has the same */
    uint64_t header_size;
    const char *path;                   /* of the file that all copies are copies of */
};

static struct layout layout;

/* The beginnings of NLE's structs (include/nletypes.h of NLE 1.3.0). */
struct nle_ctx {
    char *stack_top; /* of the coroutine; the stack grows down from here */
    size_t stack_size;
};

struct nle_obs {
    int action, done;
    char in_normal_game;
    int how_done;
    void *arrays[17];
};
static const size_t OBS_HEAD = offsetof(struct nle_obs, arrays);
/* Bytes of glyphs, chars, colors, specials, blstats, message, program_state, internal, inv_glyphs, inv_strs,
   inv_letters, inv_oclasses, screen_descriptions, tty_chars, tty_colors, tty_cursor, misc. */
static const size_t ARRAY_BYTES[17] = { 21 * 79 * 2, 21 * 79, 21 * 79, 21 * 79, 27 * 8, 256, 6 * 4, 9 * 4, 55 * 2,
                                        55 * 80, 55, 55, 21 * 79 * 80, 24 * 80, 24 * 80, 2, 3 * 4 };

/* -- Instances --------------------------------------------------------------------------------------------------- */

#define CLASSES 128
#define COMPARED 4096
#define NAME_SIZE 48
#define MAX_STREAMS 8
#define MAX_HANDLES 8
#define MAX_REGIONS 32

struct blob { /* the content of a file, never changed; shared by the game and its savestates */
    int references;
    size_t size;
    char bytes[];
};

struct entry { /* a file of the overlay */
    char name[NAME_SIZE]; /* relative to the game's folder */
    struct blob *content; /* NULL: deleted */
};

struct block { /* before each allocated block */
    size_t size; /* usable bytes */
    struct block *next_free;
};

struct arena { /* the arena begins with this; all of it is part of a savestate */
    size_t top; /* bytes in use, this struct included */
    struct block *free[CLASSES];
    struct entry *entries;
    int num_entries, max_entries;
    struct { FILE *file; long position; } streams[MAX_STREAMS]; /* open for reading; position: when saved */
    int num_streams;
    const char *broken; /* why the game can no longer be saved as it now is; NULL if it can */
};

struct handle { /* an overlay file while it is open: never while the game waits for a key */
    int fd;
    int writable;
    FILE *file;
    char name[NAME_SIZE];
};

struct region {
    char *at;
    size_t size;
};

struct instance;

struct state {
    struct instance *instance; /* NULL once that has ended */
    struct state *next; /* in the instance's list of live or of pooled states */
    size_t capacity, size, arena_top, arena_offset;
    char *bytes;
};

struct stream { /* a FILE that the game may still read from, in some savestate */
    FILE *file;
    uint64_t opened; /* the instance's `saves` at that time */
    struct stream *next;
};

struct regex {
    regex_t regex;
    struct regex *next;
};

struct instance {
    uint64_t id; /* 0: not in use */
    char *base;
    struct arena *arena;
    size_t capacity; /* of the arena */
    uint64_t saves;
    struct stream *streams;
    struct regex *regexes;
    struct handle handles[MAX_HANDLES];
    int num_handles;
    struct region regions[MAX_REGIONS]; /* all but the arena, found at the first save */
    int num_regions;
    struct region extra[4]; /* the caller's */
    int num_extra;
    struct state *states, *pool;
    struct instance *next;
};

static const char ENDED[] = "ended"; /* the savestate's game was reset or closed */

static struct instance *instances; /* never freed, used again */
static struct instance *recent;
static uint64_t last_id;
static size_t page;

static int
owns_code(const struct instance *instance, const void *address)
{
    return instance->id && (size_t) ((const char *) address - instance->base) < layout.span;
}

static int
owns_block(const struct instance *instance, const void *block)
{
    return instance->id && (size_t) ((const char *) block - (const char *) instance->arena) < instance->capacity;
}

static void
break_instance(struct instance *instance, const char *why)
{
    if (!instance->arena->broken)
        instance->arena->broken = why;
}

/* Games take turns. With a copy of NetHack's code and constants each they would push one another out of the processor's
   cache, so what is never written is mapped from the one file that all copies are copies of: same bytes, same
   addresses, one place in memory. Where that fails the game runs on its own copy. */
static void
share_code(const struct instance *instance)
{
    const ElfW(Ehdr) *header = (const void *) instance->base;
    const ElfW(Phdr) *segment = (const void *) (instance->base + header->e_phoff);
    int file = open(layout.path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return;
    for (int i = 0; i < header->e_phnum; i++) {
        uint64_t start = segment[i].p_vaddr & -page, end = ALIGNED(segment[i].p_vaddr + segment[i].p_filesz, page);
        int protection = PROT_READ | (segment[i].p_flags & PF_X ? PROT_EXEC : 0);
        void *shared;

        if (segment[i].p_type != PT_LOAD || segment[i].p_flags & PF_W || start == end)
            continue;
        shared = mmap(NULL, end - start, protection, MAP_PRIVATE, file, segment[i].p_offset & -page);
        if (shared == MAP_FAILED)
            break;
        /* In one go, or not at all: the code that called us may lie there. */
        if (mremap(shared, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, instance->base + start)
            == MAP_FAILED) {
            munmap(shared, end - start);
            break;
        }
    }
    close(file);
}

static struct instance *
begin(const void *caller)
{
    Dl_info info;
    struct instance *instance;

    if (!layout.span || !dladdr(caller, &info) || memcmp(info.dli_fbase, layout.header, layout.header_size)) {
        fputs("savestate.c: called by a library that it does not know\n", stderr);
        abort();
    }
    for (instance = instances; instance && instance->id; instance = instance->next)
        ;
    if (!instance) {
        instance = calloc(1, sizeof *instance);
        if (!instance)
            abort();
        instance->next = instances;
        instances = instance;
    }
    instance->capacity = layout.arena;
    instance->arena = mmap(NULL, layout.arena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                           -1, 0);
    if (instance->arena == MAP_FAILED) { /* a limit of address space: everything comes from libc */
        instance->capacity = ALIGNED(sizeof *instance->arena, page);
        instance->arena = mmap(NULL, instance->capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (instance->arena == MAP_FAILED)
            abort();
        break_instance(instance, "no address space is left for the arena");
    }
    instance->arena->top = ALIGNED(sizeof *instance->arena, 64);
    instance->base = info.dli_fbase;
    instance->id = ++last_id;
    share_code(instance);
    return instance;
}

/* The instance that the code at `caller` belongs to. The last call of a function may be a jump, so that a hook returns
   to its caller's caller: still the same library, but for the free() in nle_end, which asks for no instance. */
static struct instance *
of_caller(const void *caller)
{
    if (recent && owns_code(recent, caller))
        return recent;
    for (struct instance *instance = instances; instance; instance = instance->next)
        if (owns_code(instance, caller))
            return recent = instance;
    return recent = begin(caller);
}

/* -- Memory ------------------------------------------------------------------------------------------------------ */

/* Sizes are rounded up to a class: steps of 16 bytes up to 512, then four steps to each power of two. */
static int
class_of(size_t size, size_t *rounded)
{
    int power;
    size_t step;

    if (size <= 512) {
        *rounded = size ? ALIGNED(size, 16) : 16;
        return *rounded / 16 - 1;
    }
    power = 63 - __builtin_clzl(size - 1); /* 2^power < size <= 2^(power+1) */
    step = (size_t) 1 << (power - 2);
    *rounded = ALIGNED(size, step);
    return 32 + (power - 9) * 4 + (*rounded - ((size_t) 1 << power)) / step - 1;
}

static void *
allocate(struct instance *instance, size_t size)
{
    struct arena *arena = instance->arena;
    struct block *block;
    size_t rounded;
    int class;

    if (size > instance->capacity) {
        break_instance(instance, "NetHack needs more memory than the arena has");
        return malloc(size);
    }
    class = class_of(size, &rounded);
    block = arena->free[class];
    if (block) {
        arena->free[class] = block->next_free;
    } else {
        if (rounded + sizeof *block > instance->capacity - arena->top) {
            break_instance(instance, "NetHack needs more memory than the arena has");
            return malloc(size);
        }
        block = (struct block *) ((char *) arena + arena->top);
        arena->top += rounded + sizeof *block;
        block->size = rounded;
    }
    return block + 1;
}

static void
release(struct instance *instance, void *memory)
{
    struct block *block = (struct block *) memory - 1;
    size_t rounded;
    int class = class_of(block->size, &rounded);

    block->next_free = instance->arena->free[class];
    instance->arena->free[class] = block;
}

static struct instance *
of_block(const void *memory)
{
    if (recent && owns_block(recent, memory))
        return recent;
    for (struct instance *instance = instances; instance; instance = instance->next)
        if (owns_block(instance, memory))
            return instance;
    return NULL; /* libc's: from the time when the arena was full */
}

EXPORT void *
sst_malloc(size_t size)
{
    return allocate(of_caller(CALLER), size);
}

EXPORT void *
sst_calloc(size_t count, size_t size)
{
    void *memory;

    if (size && count > SIZE_MAX / size)
        return NULL;
    memory = allocate(of_caller(CALLER), count * size);
    return memory ? memset(memory, 0, count * size) : NULL;
}

EXPORT void
sst_free(void *memory)
{
    struct instance *instance = memory ? of_block(memory) : NULL;

    if (instance)
        release(instance, memory);
    else
        free(memory);
}

EXPORT void *
sst_realloc(void *memory, size_t size)
{
    struct instance *instance = memory ? of_block(memory) : of_caller(CALLER);
    size_t old;
    void *moved;

    if (!instance)
        return realloc(memory, size);
    if (!memory)
        return allocate(instance, size);
    old = ((struct block *) memory - 1)->size;
    if (size <= old)
        return memory;
    moved = allocate(instance, size);
    if (moved) {
        memcpy(moved, memory, old);
        release(instance, memory);
    }
    return moved;
}

/* operator new and delete */
EXPORT void *
sst_new(size_t size)
{
    void *memory = allocate(of_caller(CALLER), size);

    if (!memory)
        abort();
    return memory;
}

EXPORT void
sst_delete(void *memory)
{
    sst_free(memory);
}

/* -- std::string ------------------------------------------------------------------------------------------------- */

/* The members of libstdc++'s old copy-on-write std::string that allocate and are not inline (bits/cow_string.h): a
   string is one pointer to its characters, before which lies this. */
struct rep {
    size_t length, capacity;
    int owners; /* owners but one; -1: must not be shared */
};

static void *empty_rep; /* the one that stands for all empty strings, in libstdc++ */

static struct rep *
make_rep(struct instance *instance, size_t capacity)
{
    struct rep *rep = allocate(instance, sizeof *rep + capacity + 1);

    if (!rep)
        abort();
    rep->capacity = capacity;
    rep->length = 0;
    rep->owners = 0;
    return rep;
}

static void
leave_rep(struct rep *rep)
{
    if ((void *) rep != empty_rep && rep->owners-- <= 0)
        sst_free(rep);
}

static void
set_chars(struct instance *instance, char **string, const char *chars, size_t length)
{
    struct rep *rep = (struct rep *) *string - 1;

    if ((void *) rep == empty_rep || rep->owners > 0 || rep->capacity < length) {
        struct rep *fresh = make_rep(instance, length);
        memcpy(fresh + 1, chars, length);
        leave_rep(rep);
        rep = fresh;
        *string = (char *) (rep + 1);
    } else {
        memmove(*string, chars, length); /* chars may be a part of the string */
    }
    rep->owners = 0;
    rep->length = length;
    (*string)[length] = '\0';
}

/* std::string::_Rep::_S_create(size_type, size_type, const allocator &) */
EXPORT void *
sst_string_create(size_t capacity, size_t old_capacity, const void *allocator)
{
    (void) allocator;
    if (capacity > old_capacity && capacity < 2 * old_capacity)
        capacity = 2 * old_capacity;
    return make_rep(of_caller(CALLER), capacity);
}

/* std::string::_Rep::_M_destroy(const allocator &) */
EXPORT void
sst_string_destroy(struct rep *rep, const void *allocator)
{
    (void) allocator;
    sst_free(rep);
}

/* std::string::string(const std::string &) */
EXPORT void
sst_string_copy(char **string, char *const *other)
{
    struct rep *rep = (struct rep *) *other - 1;

    if ((void *) rep == empty_rep) {
        *string = *other;
    } else if (rep->owners >= 0) {
        rep->owners++;
        *string = *other;
    } else {
        struct rep *fresh = make_rep(of_caller(CALLER), rep->length);
        fresh->length = rep->length;
        memcpy(fresh + 1, rep + 1, rep->length + 1);
        *string = (char *) (fresh + 1);
    }
}

/* std::string &std::string::assign(const char *, size_type) */
EXPORT void *
sst_string_assign_chars(char **string, const char *chars, size_t length)
{
    set_chars(of_caller(CALLER), string, chars, length);
    return string;
}

/* std::string &std::string::assign(const std::string &) */
EXPORT void *
sst_string_assign(char **string, char *const *other)
{
    struct rep *rep = (struct rep *) *string - 1;

    if (*string != *other) {
        sst_string_copy(string, other);
        leave_rep(rep);
    }
    return string;
}

/* -- Files ------------------------------------------------------------------------------------------------------- */

static void
drop(struct blob *blob)
{
    if (blob && --blob->references == 0)
        free(blob);
}

/* The part of `path` below the game's folder, NULL if it is not there. */
static const char *
below_folder(const struct instance *instance, const char *path)
{
    const char *folder = instance->base + layout.settings;
    size_t length = strlen(folder);

    while (length && folder[length - 1] == '/')
        length--;
    if (!length || strncmp(path, folder, length) || path[length] != '/')
        return NULL;
    return path + length + 1;
}

static struct entry *
find_entry(const struct instance *instance, const char *name)
{
    struct arena *arena = instance->arena;

    for (int i = 0; i < arena->num_entries; i++)
        if (!strcmp(arena->entries[i].name, name))
            return &arena->entries[i];
    return NULL;
}

/* Takes over the reference. */
static void
set_entry(struct instance *instance, const char *name, struct blob *content)
{
    struct arena *arena = instance->arena;
    struct entry *entry = find_entry(instance, name);

    if (entry) {
        drop(entry->content);
        entry->content = content;
        return;
    }
    if (arena->num_entries == arena->max_entries) {
        int more = arena->max_entries ? 2 * arena->max_entries : 16;
        struct entry *entries = allocate(instance, more * sizeof *entries);
        if (arena->entries) {
            memcpy(entries, arena->entries, arena->num_entries * sizeof *entries);
            sst_free(arena->entries);
        }
        arena->entries = entries;
        arena->max_entries = more;
    }
    entry = &arena->entries[arena->num_entries++];
    memset(entry, 0, sizeof *entry);
    strcpy(entry->name, name);
    entry->content = content;
}

/* All bytes of an open file, as a new blob; NULL with errno. */
static struct blob *
read_all(int fd)
{
    struct stat status;
    struct blob *blob;

    if (fstat(fd, &status))
        return NULL;
    blob = malloc(sizeof *blob + status.st_size);
    if (!blob)
        return NULL;
    blob->references = 1;
    for (blob->size = 0; blob->size < (size_t) status.st_size;) {
        ssize_t got = pread(fd, blob->bytes + blob->size, status.st_size - blob->size, blob->size);
        if (got <= 0) {
            free(blob);
            return NULL;
        }
        blob->size += got;
    }
    return blob;
}

static struct handle *
find_handle(struct instance *instance, int fd)
{
    for (int i = 0; i < instance->num_handles; i++)
        if (instance->handles[i].fd == fd)
            return &instance->handles[i];
    return NULL;
}

/* A file has been written: what it holds now is its new content. */
static void
keep_content(struct instance *instance, const struct handle *handle)
{
    struct blob *blob = read_all(handle->fd);

    if (blob)
        set_entry(instance, handle->name, blob);
    else
        break_instance(instance, "a file that NetHack wrote could not be kept in memory");
}

/* Opens the overlay's version of a file, a copy of its own in memory. -2: let libc open what is there. */
static int
open_overlay(struct instance *instance, const char *path, int flags)
{
    const char *name = below_folder(instance, path);
    int writable = (flags & O_ACCMODE) != O_RDONLY;
    struct blob *content = NULL;
    struct entry *entry;
    int fd;

    if (!name || strlen(name) >= NAME_SIZE) {
        if (writable)
            break_instance(instance, "NetHack opened a file for writing that is not in its folder");
        return -2;
    }
    entry = find_entry(instance, name);
    if (!entry && !writable)
        return -2;
    if (entry) {
        content = entry->content;
        if (content)
            content->references++;
    } else {
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            content = read_all(fd);
            close(fd);
        }
    }
    if (!content && !(flags & O_CREAT)) {
        errno = ENOENT;
        return -1;
    }
    if (content && flags & O_CREAT && flags & O_EXCL) {
        drop(content);
        errno = EEXIST;
        return -1;
    }
    if (instance->num_handles == MAX_HANDLES) {
        drop(content);
        errno = EMFILE;
        return -1;
    }
    fd = memfd_create("nethack", MFD_CLOEXEC);
    if (fd >= 0 && content && !(flags & O_TRUNC)) {
        size_t done = 0;
        while (done < content->size) {
            ssize_t wrote = pwrite(fd, content->bytes + done, content->size - done, done);
            if (wrote <= 0) {
                close(fd);
                fd = -1;
                break;
            }
            done += wrote;
        }
    }
    drop(content);
    if (fd >= 0) {
        struct handle *handle = &instance->handles[instance->num_handles++];
        if (flags & O_APPEND)
            fcntl(fd, F_SETFL, O_APPEND);
        *handle = (struct handle) { .fd = fd, .writable = writable };
        strcpy(handle->name, name);
        if (writable)
            keep_content(instance, handle); /* from now on it exists */
    }
    return fd;
}

/* Ends with the descriptor still open. */
static void
end_handle(struct instance *instance, struct handle *handle)
{
    if (handle->writable)
        keep_content(instance, handle);
    *handle = instance->handles[--instance->num_handles];
}

EXPORT int
sst_open(const char *path, int flags, ...)
{
    struct instance *instance = of_caller(CALLER);
    int fd = open_overlay(instance, path, flags);
    va_list rest;
    int mode;

    if (fd != -2)
        return fd;
    va_start(rest, flags);
    mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    return open(path, flags, mode);
}

EXPORT int
sst_creat(const char *path, mode_t mode)
{
    int fd = open_overlay(of_caller(CALLER), path, O_WRONLY | O_CREAT | O_TRUNC);

    return fd != -2 ? fd : creat(path, mode);
}

EXPORT int
sst_close(int fd)
{
    struct instance *instance = of_caller(CALLER);
    struct handle *handle = find_handle(instance, fd);

    if (handle)
        end_handle(instance, handle);
    return close(fd);
}

EXPORT int
sst_unlink(const char *path)
{
    struct instance *instance = of_caller(CALLER);
    const char *name = below_folder(instance, path);
    struct entry *entry;

    if (!name || strlen(name) >= NAME_SIZE) {
        break_instance(instance, "NetHack deleted a file that is not in its folder");
        return unlink(path);
    }
    entry = find_entry(instance, name);
    if (entry ? !entry->content : access(path, F_OK)) {
        errno = ENOENT;
        return -1;
    }
    set_entry(instance, name, NULL);
    return 0;
}

EXPORT int
sst_rename(const char *from, const char *to)
{
    struct instance *instance = of_caller(CALLER);
    const char *name = below_folder(instance, from), *new_name = below_folder(instance, to);
    int fd;
    struct entry *entry;

    if (!name || !new_name || strlen(name) >= NAME_SIZE || strlen(new_name) >= NAME_SIZE) {
        break_instance(instance, "NetHack renamed a file that is not in its folder");
        return rename(from, to);
    }
    fd = open_overlay(instance, from, O_RDWR); /* brings it into the overlay */
    if (fd < 0)
        return -1;
    end_handle(instance, find_handle(instance, fd));
    close(fd);
    entry = find_entry(instance, name);
    entry->content->references++;
    set_entry(instance, new_name, entry->content);
    set_entry(instance, name, NULL);
    return 0;
}

EXPORT int
sst_access(const char *path, int mode)
{
    struct instance *instance = of_caller(CALLER);
    const char *name = below_folder(instance, path);
    struct entry *entry = name ? find_entry(instance, name) : NULL;

    if (!entry)
        return access(path, mode);
    if (entry->content)
        return 0;
    errno = ENOENT;
    return -1;
}

EXPORT int
sst_chmod(const char *path, mode_t mode)
{
    struct instance *instance = of_caller(CALLER);
    const char *name = below_folder(instance, path);

    return name && find_entry(instance, name) ? 0 : chmod(path, mode);
}

/* Files open for reading are libc's; which of them the game still has is noted in the arena. */
static void
note_stream(struct instance *instance, FILE *file)
{
    struct arena *arena = instance->arena;
    struct stream *stream;

    if (arena->num_streams == MAX_STREAMS || !(stream = malloc(sizeof *stream))) {
        break_instance(instance, "NetHack has too many open files");
        return;
    }
    *stream = (struct stream) { file, instance->saves, instance->streams };
    instance->streams = stream;
    arena->streams[arena->num_streams++].file = file;
}

EXPORT FILE *
sst_fopen(const char *path, const char *mode)
{
    struct instance *instance = of_caller(CALLER);
    int plus = strchr(mode, '+') != NULL;
    int flags = *mode == 'r' ? (plus ? O_RDWR : O_RDONLY)
                             : (plus ? O_RDWR : O_WRONLY) | O_CREAT | (*mode == 'w' ? O_TRUNC : O_APPEND);
    int fd = open_overlay(instance, path, flags);
    FILE *file;

    if (fd == -1)
        return NULL;
    file = fd == -2 ? fopen(path, mode) : fdopen(fd, mode);
    if (file && fd != -2)
        find_handle(instance, fd)->file = file;
    else if (file && flags == O_RDONLY)
        note_stream(instance, file);
    return file;
}

EXPORT FILE *
sst_fdopen(int fd, const char *mode)
{
    struct instance *instance = of_caller(CALLER);
    struct handle *handle = find_handle(instance, fd);
    FILE *file = fdopen(fd, mode);

    if (file && handle)
        handle->file = file;
    else if (file)
        break_instance(instance, "NetHack opened a stream on a file that is not in its folder");
    return file;
}

EXPORT FILE *
sst_fmemopen(void *memory, size_t size, const char *mode)
{
    struct instance *instance = of_caller(CALLER);
    FILE *file = fmemopen(memory, size, mode);

    if (file)
        note_stream(instance, file);
    return file;
}

/* Whether no savestate can know of a stream: it was opened after the last one was made. */
static int
is_unknown(const struct instance *instance, const struct stream *stream)
{
    return stream->opened == instance->saves;
}

static int
forget_stream(struct instance *instance, FILE *file)
{
    for (struct stream **link = &instance->streams; *link; link = &(*link)->next) {
        struct stream *stream = *link;
        if (stream->file == file) {
            if (!is_unknown(instance, stream))
                return 0; /* a savestate may bring it back: it is closed when the instance ends */
            *link = stream->next;
            free(stream);
            return fclose(file);
        }
    }
    return 0;
}

EXPORT int
sst_fclose(FILE *file)
{
    struct instance *instance = of_caller(CALLER);
    struct arena *arena = instance->arena;

    for (int i = 0; i < instance->num_handles; i++)
        if (instance->handles[i].file == file) {
            fflush(file);
            end_handle(instance, &instance->handles[i]);
            return fclose(file);
        }
    for (int i = 0; i < arena->num_streams; i++)
        if (arena->streams[i].file == file) {
            arena->streams[i] = arena->streams[--arena->num_streams];
            return forget_stream(instance, file);
        }
    return fclose(file);
}

/* -- Regular expressions: compiled once, by options; libc keeps them outside of the arena ------------------------- */

EXPORT int
sst_regcomp(regex_t *regex, const char *pattern, int flags)
{
    struct instance *instance = of_caller(CALLER);
    int error = regcomp(regex, pattern, flags);
    struct regex *kept = error ? NULL : malloc(sizeof *kept);

    if (kept) {
        *kept = (struct regex) { *regex, instance->regexes };
        instance->regexes = kept;
    }
    return error;
}

EXPORT void
sst_regfree(regex_t *regex)
{
    (void) regex; /* a savestate may still use it: freed when the instance ends */
}

/* -- Saving and loading ------------------------------------------------------------------------------------------ */

static struct nle_ctx *
context(const struct instance *instance)
{
    return *(struct nle_ctx **) (instance->base + layout.current_ctx);
}

static struct nle_obs *
observation(const struct instance *instance)
{
    return ((struct nle_obs * (*) (void)) (instance->base + layout.get_obs))();
}

static int
by_address(const void *a, const void *b)
{
    const char *x = ((const struct region *) a)->at, *y = ((const struct region *) b)->at;

    return (x > y) - (x < y);
}

static int
find_regions(struct instance *instance)
{
    struct region *regions = instance->regions;
    struct nle_ctx *ctx = context(instance);
    struct nle_obs *obs = observation(instance);
    int n = 0, merged = 0;

    regions[n++] = (struct region) { instance->base + layout.writable, layout.constant - layout.writable };
    regions[n++] = (struct region) { instance->base + layout.constant_end, layout.writable_end - layout.constant_end };
    /* The lowest page guards the stack against overflow. */
    regions[n++] = (struct region) { ctx->stack_top - ctx->stack_size + page, ctx->stack_size - page };
    regions[n++] = (struct region) { (char *) obs, OBS_HEAD };
    for (int i = 0; i < 17; i++)
        if (obs->arrays[i])
            regions[n++] = (struct region) { obs->arrays[i], ARRAY_BYTES[i] };
    for (int i = 0; i < instance->num_extra; i++)
        regions[n++] = instance->extra[i];
    qsort(regions, n, sizeof *regions, by_address);
    for (int i = 1; i < n; i++) {
        char *end = regions[merged].at + regions[merged].size;
        if (regions[i].at > end) {
            regions[++merged] = regions[i];
        } else if (regions[i].at + regions[i].size > end) {
            regions[merged].size = regions[i].at + regions[i].size - regions[merged].at;
        }
    }
    return instance->num_regions = merged + 1;
}

static struct state *
make_state(struct instance *instance, size_t size)
{
    struct state *state = instance->pool;

    if (state && state->capacity >= size) {
        instance->pool = state->next;
    } else {
        state = malloc(sizeof *state);
        if (!state)
            return NULL;
        state->capacity = size + size / 4;
        state->bytes = aligned_alloc(64, ALIGNED(state->capacity, 64));
        if (!state->bytes) {
            free(state);
            return NULL;
        }
    }
    state->instance = instance;
    state->size = size;
    state->next = instance->states;
    instance->states = state;
    return state;
}

static void
throw_away(struct state *state)
{
    free(state->bytes);
    free(state);
}

/* Entries of the overlay at the time of a state, inside of its copy of the arena. */
static struct entry *
saved_entries(const struct state *state, const struct instance *instance, int *count)
{
    struct arena *arena = (struct arena *) (state->bytes + state->arena_offset);

    *count = arena->num_entries;
    return (struct entry *) ((char *) arena + ((char *) arena->entries - (char *) instance->arena));
}

static void
drop_files(struct state *state)
{
    int count;
    struct entry *entries = saved_entries(state, state->instance, &count);

    for (int i = 0; i < count; i++)
        drop(entries[i].content);
}

/* A new state; NULL with *why. */
EXPORT struct state *
sst_save(struct instance *instance, uint64_t id, const char **why)
{
    struct arena *arena = instance->arena; /* not valid before the id is checked */
    struct state *state;
    size_t size;
    char *to;

    if (instance->id != id)
        *why = ENDED;
    else if (instance->num_handles)
        *why = "NetHack is in the middle of writing a file";
    else
        *why = arena->broken;
    if (*why)
        return NULL;
    if (!instance->num_regions)
        find_regions(instance);
    size = ALIGNED(arena->top, 64);
    for (int i = 0; i < instance->num_regions; i++)
        size += ALIGNED(instance->regions[i].size, 64);
    state = make_state(instance, size);
    if (!state) {
        *why = "no memory is left";
        return NULL;
    }
    instance->saves++;
    for (int i = 0; i < arena->num_streams; i++)
        arena->streams[i].position = ftell(arena->streams[i].file);
    for (int i = 0; i < arena->num_entries; i++)
        if (arena->entries[i].content)
            arena->entries[i].content->references++;
    to = state->bytes;
    for (int i = 0; i < instance->num_regions; i++) {
        memcpy(to, instance->regions[i].at, instance->regions[i].size);
        to += ALIGNED(instance->regions[i].size, 64);
    }
    state->arena_offset = to - state->bytes;
    state->arena_top = arena->top;
    memcpy(to, arena, arena->top);
    return state;
}

/* Most pages are as they were: to compare reads as much as to copy, but writes next to nothing (docs/savestates.md has
   what this and other ways cost). */
static void
put_back(char *to, const char *from, size_t size)
{
    for (size_t done = 0; done < size; done += COMPARED) {
        size_t part = size - done < COMPARED ? size - done : COMPARED;
        if (memcmp(to + done, from + done, part))
            memcpy(to + done, from + done, part);
    }
}

static void
restore(struct instance *instance, const struct state *state)
{
    struct arena *arena = instance->arena;
    const char *from = state->bytes;
    size_t top = arena->top;

    for (int i = 0; i < instance->num_handles; i++)
        instance->handles[i].file ? fclose(instance->handles[i].file) : close(instance->handles[i].fd);
    instance->num_handles = 0;
    for (int i = 0; i < arena->num_entries; i++)
        drop(arena->entries[i].content);
    for (int i = 0; i < instance->num_regions; i++) {
        put_back(instance->regions[i].at, from, instance->regions[i].size);
        from += ALIGNED(instance->regions[i].size, 64);
    }
    put_back((char *) arena, from, state->arena_top);
    if (top > state->arena_top) /* as if it had never been used */
        memset((char *) arena + state->arena_top, 0, top - state->arena_top);
    for (int i = 0; i < arena->num_entries; i++)
        if (arena->entries[i].content)
            arena->entries[i].content->references++;
    for (int i = 0; i < arena->num_streams; i++)
        if (ftell(arena->streams[i].file) != arena->streams[i].position)
            fseek(arena->streams[i].file, arena->streams[i].position, SEEK_SET);
}

/* NULL, or why not. A game that has become one that cannot be saved goes back all the same. */
EXPORT const char *
sst_load(struct state *state)
{
    if (!state->instance)
        return ENDED;
    restore(state->instance, state);
    return NULL;
}

EXPORT void
sst_free_state(struct state *state)
{
    struct instance *instance = state->instance;

    if (instance) {
        struct state **link = &instance->states;
        while (*link != state)
            link = &(*link)->next;
        *link = state->next;
        drop_files(state);
        /* A few are kept for the next saves: fresh memory costs as much as the copy. */
        state->next = instance->pool;
        instance->pool = state;
        if (state->next && state->next->next && state->next->next->next) {
            throw_away(state->next->next->next);
            state->next->next->next = NULL;
        }
        return;
    }
    throw_away(state);
}

EXPORT size_t
sst_state_size(const struct state *state)
{
    return state->size;
}

/* Called by the library when it is unloaded. */
EXPORT void
sst_cxa_finalize(void *handle)
{
    struct instance *instance = of_caller(CALLER);
    static void (*finalize)(void *);

    if (!finalize)
        finalize = (void (*)(void *)) dlsym(RTLD_DEFAULT, "__cxa_finalize");
    finalize(handle); /* runs the library's destructors, which free */

    for (int i = 0; i < instance->num_handles; i++)
        instance->handles[i].file ? fclose(instance->handles[i].file) : close(instance->handles[i].fd);
    for (int i = 0; i < instance->arena->num_entries; i++)
        drop(instance->arena->entries[i].content);
    while (instance->states) {
        struct state *state = instance->states;
        drop_files(state);
        instance->states = state->next;
        state->instance = NULL;
    }
    while (instance->pool) {
        struct state *state = instance->pool;
        instance->pool = state->next;
        throw_away(state);
    }
    while (instance->streams) {
        struct stream *stream = instance->streams;
        instance->streams = stream->next;
        fclose(stream->file);
        free(stream);
    }
    while (instance->regexes) {
        struct regex *regex = instance->regexes;
        instance->regexes = regex->next;
        regfree(&regex->regex);
        free(regex);
    }
    munmap(instance->arena, instance->capacity);
    *instance = (struct instance) { .next = instance->next };
    if (recent == instance)
        recent = NULL;
}

/* -- Stepping ---------------------------------------------------------------------------------------------------- */

/* What game.py reads beside NLE's arrays: where to, and NetHack's constants. Read by Python's ctypes. */
struct view {
    char *block; /* all observation arrays of the game */
    size_t block_size;
    const int16_t *glyphs;  /* (21, 79) */
    const int64_t *blstats; /* (27,) */
    const char *letters;    /* (55,), the inventory's */
    char *peaceful, *worn;  /* (21, 79) and (55,) bool, to be filled */
    int64_t first_pet, first_detected, first_no_monster; /* glyphs: NetHack's GLYPH_PET_OFF, _DETECT_OFF, _BODY_OFF */
    int64_t x, y, condition, hallucinating;              /* indices into blstats, and a bit of the condition */
};

enum { ROWS = 21, COLUMNS = 79, SLOTS = 55 };
/* struct monst and struct obj of NetHack 3.6 (include/monst.h, obj.h) on 64-bit machines. */
enum { MON_BITS_BURIED = 60, MON_BITS_PEACEFUL = 65, OBJ_LETTER = 50, OBJ_WORN = 80 };

static void
look(const struct instance *instance, const struct view *view)
{
    char *const *monsters = (char *const *) (instance->base + layout.monsters);
    const char *object = *(const char **) (instance->base + layout.invent);
    int hero = view->blstats[view->y] * COLUMNS + view->blstats[view->x];

    memset(view->peaceful, 0, ROWS * COLUMNS);
    if (!(view->blstats[view->condition] & view->hallucinating))
        for (int cell = 0; cell < ROWS * COLUMNS; cell++) {
            int glyph = view->glyphs[cell];
            const char *monster;
            if (glyph >= view->first_no_monster || cell == hero
                || (glyph >= view->first_pet && glyph < view->first_detected))
                continue;
            /* NetHack counts columns from 1. */
            monster = monsters[(cell % COLUMNS + 1) * ROWS + cell / COLUMNS];
            view->peaceful[cell] = monster && !(monster[MON_BITS_BURIED] & 1 << 5)
                                   && monster[MON_BITS_PEACEFUL] & 1 << 1;
        }

    memset(view->worn, 0, SLOTS);
    for (; object; object = *(const char **) object)
        if (*(const long *) (object + OBJ_WORN)) {
            const char *slot = memchr(view->letters, object[OBJ_LETTER], strnlen(view->letters, SLOTS));
            if (slot)
                view->worn[slot - view->letters] = 1;
        }
}

enum { AWAITS_COMMAND = 0, ASKS = 1, OVER = 2 };

static int
press(struct instance *instance, int key)
{
    struct nle_obs *obs = observation(instance);

    obs->action = key;
    ((void *(*) (void *, void *) ) (instance->base + layout.step))(context(instance), obs);
    return obs->done ? OVER : *(char *) (instance->base + layout.in_parse) ? AWAITS_COMMAND : ASKS;
}

/* One outcome of sst_probe. */
struct outcome {
    int32_t status;
    int32_t movement;
    int64_t turn;
};

/* For each of `count` keys: what the game shows after it, from `state` on, in which the game must be now and which it
   is in again at the end. Copies the parts of memory `watched` into rows of `stride` bytes one after the other; with
   a `view` (or NULL), after filling it in. NULL, or why not. */
EXPORT const char *
sst_probe(struct state *state, int count, const int32_t *keys, const struct view *view, const struct region *watched,
          int num_watched, char *rows, size_t stride, struct outcome *outcomes)
{
    struct instance *instance = state->instance;

    if (!instance)
        return ENDED;
    if (observation(instance)->done)
        return "the game is over";
    for (int i = 0; i < count; i++) {
        char *to = rows + i * stride;
        outcomes[i].status = press(instance, keys[i]);
        outcomes[i].turn = *(long *) (instance->base + layout.moves);
        outcomes[i].movement = *(short *) (instance->base + layout.movement);
        if (view && outcomes[i].status == AWAITS_COMMAND)
            look(instance, view);
        for (int k = 0; k < num_watched; k++) {
            memcpy(to, watched[k].at, watched[k].size);
            to += watched[k].size;
        }
        restore(instance, state);
    }
    return NULL;
}

/* -- For library.py ---------------------------------------------------------------------------------------------- */

/* Before the first game. 0, or -1 where there is no libstdc++. */
EXPORT int
sst_configure(const struct layout *known)
{
    layout = *known;
    page = sysconf(_SC_PAGESIZE);
    empty_rep = dlsym(RTLD_DEFAULT, "_ZNSs4_Rep20_S_empty_rep_storageE");
    if (!empty_rep) {
        void *libstdcxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        empty_rep = libstdcxx ? dlsym(libstdcxx, "_ZNSs4_Rep20_S_empty_rep_storageE") : NULL;
    }
    return empty_rep ? 0 : -1;
}

/* The instance of the library that NLE has loaded from `path` and its id; NULL if that is not one of ours. */
EXPORT struct instance *
sst_find(const char *path, uint64_t *id)
{
    struct link_map *map = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    struct instance *instance = NULL;

    if (map) {
        for (instance = instances; instance; instance = instance->next)
            if (instance->id && instance->base == (char *) map->l_addr)
                break;
        dlclose(map);
    }
    if (instance)
        *id = instance->id;
    return instance;
}

/* Memory of the caller's that belongs to the game's state. 0, or -1: after the first save, or too many. */
EXPORT int
sst_add_region(struct instance *instance, char *at, size_t size)
{
    if (instance->num_regions || instance->num_extra == sizeof instance->extra / sizeof *instance->extra)
        return -1;
    instance->extra[instance->num_extra++] = (struct region) { at, size };
    return 0;
}
