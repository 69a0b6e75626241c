/* SPDX-License-Identifier: Apache-2.0
 * All files of the addon's packages and of the Python wheels include this first. It makes them use
 * the first version of each function of which glibc has a newer version since 2.28. All glibc have
 * the first versions, so the libraries load from glibc 2.28 on, as Node 20 does. */
#ifndef WISP_NODE_OLD_GLIBC_H
#define WISP_NODE_OLD_GLIBC_H

#include <sys/stat.h>

#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#define STAT_VERSION 1
#elif defined(__aarch64__)
#define FIRST_VERSION "GLIBC_2.17"
#define STAT_VERSION 0
#endif

__asm__(".symver pthread_create, pthread_create@" FIRST_VERSION);
__asm__(".symver pthread_join, pthread_join@" FIRST_VERSION);
__asm__(".symver pthread_sigmask, pthread_sigmask@" FIRST_VERSION);
__asm__(".symver pthread_attr_setstacksize, pthread_attr_setstacksize@" FIRST_VERSION);
__asm__(".symver log, log@" FIRST_VERSION);
__asm__(".symver exp, exp@" FIRST_VERSION);
__asm__(".symver pow, pow@" FIRST_VERSION);
__asm__(".symver exp2, exp2@" FIRST_VERSION);
__asm__(".symver dlopen, dlopen@" FIRST_VERSION);
__asm__(".symver dlsym, dlsym@" FIRST_VERSION);
__asm__(".symver dladdr, dladdr@" FIRST_VERSION);
__asm__(".symver dlerror, dlerror@" FIRST_VERSION);

/* Before 2.33 glibc had no function stat, but one that takes the version of the struct. */
int __xstat(int version, const char *path, struct stat *status);
int __lxstat(int version, const char *path, struct stat *status);
int __fxstat(int version, int descriptor, struct stat *status);
__asm__(".symver __xstat, __xstat@" FIRST_VERSION);
__asm__(".symver __lxstat, __lxstat@" FIRST_VERSION);
__asm__(".symver __fxstat, __fxstat@" FIRST_VERSION);
#define stat(path, status) __xstat(STAT_VERSION, path, status)
#define lstat(path, status) __lxstat(STAT_VERSION, path, status)
#define fstat(descriptor, status) __fxstat(STAT_VERSION, descriptor, status)

#endif
