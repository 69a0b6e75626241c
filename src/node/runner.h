/* SPDX-License-Identifier: Apache-2.0
 * A thread that runs one job at a time, for an engine whose caller must not wait. */
#ifndef WISP_NODE_RUNNER_H
#define WISP_NODE_RUNNER_H

#include <pthread.h>
#include <stdbool.h>

struct runner {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* signals that there is a job, or that the thread shall end */
    void (*run)(void *context, void *job);
    void *context;
    void *job;      /* the one to run next */
    bool ending;    /* the thread ends when it has run the job that it runs */
    bool tell_end;  /* the thread runs NULL as its last job */
    bool is_joined; /* the thread has ended */
};

/* Starts the thread, which calls `run` for each job. Returns false if the system grants none. */
bool runner_open(struct runner *runner, void (*run)(void *context, void *job), void *context);

/* Gives the thread a job. It must have run the job before. */
void runner_give(struct runner *runner, void *job);

/* Makes the thread end soon, after a last job NULL if `tell_end` says so. Returns at once. */
void runner_end(struct runner *runner, bool tell_end);

/* Waits for the thread, which runner_end has told to end. May be called again. */
void runner_join(struct runner *runner);

#endif
