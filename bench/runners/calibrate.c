/* SPDX-License-Identifier: Apache-2.0
 * Times a fixed amount of arithmetic, divided among threads that use no common memory. The speed-up
 * by a second thread here is the limit that the machine sets to the scaling of any engine. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

enum { MOST_THREADS = 64, CHAINS = 8 };
static const uint64_t STEPS = UINT64_C(120000000);

struct share {
    pthread_t thread;
    uint64_t steps;
    uint64_t result;
};

struct runner {
    unsigned threads;
    struct share shares[MOST_THREADS];
};

/* Independent chains keep the multiplier busy, so that two threads on one core slow each other. */
static void *compute(void *context) {
    struct share *share = context;
    uint64_t chains[CHAINS] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (uint64_t i = 0; i < share->steps; i++)
        for (int j = 0; j < CHAINS; j++)
            chains[j] = chains[j] * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    for (int j = 0; j < CHAINS; j++)
        share->result ^= chains[j];
    return NULL;
}

static void run(void *context) {
    struct runner *runner = context;
    for (unsigned i = 0; i < runner->threads; i++) {
        runner->shares[i].steps = STEPS / runner->threads;
        if (pthread_create(&runner->shares[i].thread, NULL, compute, &runner->shares[i]) != 0)
            give_up("no thread");
    }
    for (unsigned i = 0; i < runner->threads; i++)
        pthread_join(runner->shares[i].thread, NULL);
}

int main(int argc, char **argv) {
    struct runner runner = {.threads = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1};
    if (runner.threads < 1 || runner.threads > MOST_THREADS)
        give_up("threads: 1 to 64");
    for (struct command command; next_command(&command);) {
        if (strcmp(command.verb, "run") == 0)
            answer_timed(run, &runner);
        else if (strcmp(command.verb, "load") == 0)
            answer("{\"seconds\": 0, \"about\": {}}");
        else
            answer_warmed(run, &runner);
    }
    return EXIT_SUCCESS;
}
