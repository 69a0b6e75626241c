/* SPDX-License-Identifier: Apache-2.0
 * What the sources use of POSIX and mingw-w64 lacks or has with other paths. Builds for Windows
 * read this header before each file. Functions do what POSIX says of their names, as far as the
 * comments here say nothing else; those that fail return -1 and set errno.
 *
 * Paths are UTF-8, of any length, with slashes or backslashes. A file that is open may be renamed,
 * replaced and deleted, as on other systems, on Windows 10 and later; before, others cannot replace
 * it meanwhile, and its name stays until it is closed. */
#ifndef WISP_WINDOWS_POSIX_H
#define WISP_WINDOWS_POSIX_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- files ---------------------------------------------------------------------------------- */

#define O_CLOEXEC _O_NOINHERIT
#define O_NONBLOCK 0 /* opening a file never waits */
#define O_NOFOLLOW 0x01000000
#define O_DIRECTORY 0x02000000

/* Opens files for bytes, and folders too, to look at them. A new file whose mode has no rights for
 * others is for this user alone (owner.h); all others have the rights that their folder gives. */
#define open windows_open
int windows_open(const char *path, int flags, ...);

#define fopen windows_fopen
FILE *windows_fopen(const char *path, const char *mode);

#define pread windows_pread
ssize_t windows_pread(int file, void *bytes, size_t length, off_t offset);
#define pwrite windows_pwrite
ssize_t windows_pwrite(int file, const void *bytes, size_t length, off_t offset);

#define write windows_write
ssize_t windows_write(int file, const void *bytes, size_t length);

#define fsync windows_fsync
int windows_fsync(int file); /* fails with EACCES for a folder */

#define LOCK_SH 1
#define LOCK_EX 2
#define LOCK_NB 4
#define LOCK_UN 8

/* Locks hold for all handles but `file`, of this process too. Without LOCK_NB it gives up after a
 * moment, as if a signal had come: EINTR. */
#define flock windows_flock
int windows_flock(int file, int operation);

/* Advice, which Windows takes only for mapped files: nothing is done. */
enum { POSIX_FADV_WILLNEED = 3 };
static inline int posix_fadvise(int file, off_t offset, off_t length, int advice) {
    (void)file, (void)offset, (void)length, (void)advice;
    return 0;
}

/* ---- what there is at a path ---------------------------------------------------------------- */

#ifndef S_IFLNK
#define S_IFLNK 0120000
#endif
#define S_ISLNK(mode) (((mode) & S_IFMT) == S_IFLNK)

struct windows_stat {
    uint64_t st_dev, st_ino;
    unsigned st_mode;                  /* the kind, and whether the file may be written to */
    unsigned st_nlink, st_uid, st_gid; /* the last two are 0: owner.h looks at owners */
    off_t st_size;
    int64_t st_blocks; /* of 512 bytes */
    struct timespec st_atim, st_mtim, st_ctim;
};

#undef stat
#undef fstat
#define stat windows_stat
#define fstat windows_fstat
#define lstat windows_lstat
int windows_stat(const char *path, struct windows_stat *info);
int windows_fstat(int file, struct windows_stat *info);
/* Symbolic links and mounted folders are links. */
int windows_lstat(const char *path, struct windows_stat *info);

/* Access lists say who may use a file, and stay as they are. */
static inline int fchmod(int file, unsigned mode) {
    (void)file, (void)mode;
    return 0;
}
static inline int fchown(int file, unsigned user, unsigned group) {
    (void)file, (void)user, (void)group;
    return 0;
}

#define access windows_access
int windows_access(const char *path, int mode); /* F_OK only */

enum { AT_FDCWD = -100, AT_EACCESS = 1, AT_SYMLINK_NOFOLLOW = 2 };

/* Says whether this process may make files in a folder. */
#define faccessat windows_faccessat
int windows_faccessat(int folder, const char *path, int mode, int flags);

#define utimensat windows_utimensat
int windows_utimensat(int folder, const char *path, const struct timespec times[2], int flags);

/* `resolved` [PATH_MAX] has slashes and begins with a drive or a server. */
#define realpath windows_realpath
char *windows_realpath(const char *path, char *resolved);

/* Changes the path. */
#define dirname windows_dirname
char *windows_dirname(char *path);

/* ---- names ---------------------------------------------------------------------------------- */

#define rename windows_rename
int windows_rename(const char *from, const char *to);
#define unlink windows_unlink
int windows_unlink(const char *path);
#define mkdir windows_mkdir
int windows_mkdir(const char *path, unsigned mode); /* as open does */
#define rmdir windows_rmdir
int windows_rmdir(const char *path);

struct windows_dirent {
    char d_name[NAME_MAX + 1];
};
#define dirent windows_dirent
#define DIR struct windows_folder
#define opendir windows_opendir
#define readdir windows_readdir
#define closedir windows_closedir
DIR *windows_opendir(const char *path);
struct dirent *windows_readdir(DIR *folder);
int windows_closedir(DIR *folder);

/* ---- the machine ---------------------------------------------------------------------------- */

enum { _SC_NPROCESSORS_ONLN = 84 };
#define sysconf windows_sysconf
long windows_sysconf(int name); /* _SC_NPROCESSORS_ONLN: those that this process may run on */

#endif
