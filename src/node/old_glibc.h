/* SPDX-License-Identifier: Apache-2.0
 * All files of the addon's packages include this first. It makes them use the first version of each
 * function of which glibc has a newer version since 2.28. All glibc have the first versions, so the
 * addon loads wherever Node 20 runs, which is from glibc 2.28 on. */
#ifndef WISP_NODE_OLD_GLIBC_H
#define WISP_NODE_OLD_GLIBC_H

#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_VERSION "GLIBC_2.17"
#endif

__asm__(".symver pthread_create, pthread_create@" FIRST_VERSION);
__asm__(".symver pthread_join, pthread_join@" FIRST_VERSION);
__asm__(".symver pthread_sigmask, pthread_sigmask@" FIRST_VERSION);
__asm__(".symver pthread_attr_setstacksize, pthread_attr_setstacksize@" FIRST_VERSION);
__asm__(".symver log, log@" FIRST_VERSION);
__asm__(".symver exp, exp@" FIRST_VERSION);
__asm__(".symver pow, pow@" FIRST_VERSION);

#endif
