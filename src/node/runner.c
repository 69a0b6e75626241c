/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runner.h"

#include <stddef.h>

#include "host/quiet_thread.h"

/* musl gives threads 128 KB unless asked. */
enum { STACK_BYTES = 1 << 20 };

static void *run_jobs(void *argument) {
    struct runner *runner = argument;
    pthread_mutex_lock(&runner->lock);
    for (;;) {
        while (!runner->ending && !runner->job)
            pthread_cond_wait(&runner->wake, &runner->lock);
        void *job = runner->job;
        if (!job)
            break;
        runner->job = NULL;
        pthread_mutex_unlock(&runner->lock);
        runner->run(runner->context, job);
        pthread_mutex_lock(&runner->lock);
    }
    const bool tell_end = runner->tell_end;
    pthread_mutex_unlock(&runner->lock);
    if (tell_end)
        runner->run(runner->context, NULL);
    return NULL;
}

bool runner_open(struct runner *runner, void (*run)(void *context, void *job), void *context) {
    *runner = (struct runner){.run = run, .context = context};
    pthread_mutex_init(&runner->lock, NULL);
    pthread_cond_init(&runner->wake, NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const bool started = quiet_thread_start(&runner->thread, &attributes, run_jobs, runner);
    pthread_attr_destroy(&attributes);
    if (!started) {
        pthread_cond_destroy(&runner->wake);
        pthread_mutex_destroy(&runner->lock);
    }
    return started;
}

void runner_give(struct runner *runner, void *job) {
    pthread_mutex_lock(&runner->lock);
    runner->job = job;
    pthread_cond_signal(&runner->wake);
    pthread_mutex_unlock(&runner->lock);
}

void runner_end(struct runner *runner, bool tell_end) {
    pthread_mutex_lock(&runner->lock);
    runner->ending = true;
    runner->tell_end = tell_end;
    pthread_cond_signal(&runner->wake);
    pthread_mutex_unlock(&runner->lock);
}

void runner_join(struct runner *runner) {
    if (runner->is_joined)
        return;
    runner->is_joined = true;
    pthread_join(runner->thread, NULL);
    pthread_cond_destroy(&runner->wake);
    pthread_mutex_destroy(&runner->lock);
}
