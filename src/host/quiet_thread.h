/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_HOST_QUIET_THREAD_H
#define WISP_HOST_QUIET_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* Starts a thread that blocks all signals, which go to the threads of the program that uses the
 * library; Windows sends none. Returns false if the system grants no thread. */
static inline bool quiet_thread_start(pthread_t *thread, const pthread_attr_t *attributes,
                                      void *(*run)(void *argument), void *argument) {
#ifdef _WIN32
    return pthread_create(thread, attributes, run, argument) == 0;
#else
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(thread, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0;
#endif
}

#endif
