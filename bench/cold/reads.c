/* SPDX-License-Identifier: Apache-2.0
 * Compares the ways to read ranges of a file that lie apart, as cold neurons do: pread into one
 * buffer, a map of the file, and a map with advice before each range.
 *
 *   reads FILE MEGABYTES ROUNDS
 *
 * reads MEGABYTES in ranges of 64 to 384 KiB at random places, with the file out of the system's
 * cache (cold) and then within it (warm). It prints for each way the least wall and processor time
 * of the rounds, and faults. README.md says how to build it. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK_BYTES = 65536, MOST_CHUNKS = 6, WAYS = 3 };

static const char *const NAMES[WAYS] = {"pread", "mmap", "mmap, madvise"};

struct file {
    int descriptor;
    size_t size;
    unsigned char *map;
    unsigned char *buffer;
};

struct cost {
    double wall, processor;
    long faults, waits;
};

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t sum(const unsigned char *bytes, size_t n) {
    uint64_t total = 0, word;
    for (size_t i = 0; i + sizeof word <= n; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        total += word;
    }
    return total;
}

/* Reads the same ranges in every round, and returns the sum of their bytes. */
static uint64_t read_ranges(const struct file *file, int way, size_t bytes) {
    uint64_t state = 1, total = 0;
    for (size_t done = 0; done < bytes;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const size_t n = CHUNK_BYTES * (1 + (state >> 33) % MOST_CHUNKS);
        const size_t at = (state >> 20) % ((file->size - n) / CHUNK_BYTES) * CHUNK_BYTES;
        if (way == 0) {
            if (pread(file->descriptor, file->buffer, n, (off_t)at) != (ssize_t)n)
                exit(1);
            total += sum(file->buffer, n);
        } else {
            if (way == 2)
                madvise(file->map + at, n, MADV_WILLNEED);
            total += sum(file->map + at, n);
        }
        done += n;
    }
    return total;
}

/* Maps the file anew, as each process has to. */
static uint64_t run(struct file *file, int way, size_t bytes, struct cost *least) {
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    const double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
    file->map = mmap(NULL, file->size, PROT_READ, MAP_SHARED, file->descriptor, 0);
    if (file->map == MAP_FAILED)
        exit(1);
    madvise(file->map, file->size, MADV_RANDOM);
    if (way == 1)
        madvise(file->map, file->size, MADV_NORMAL);
    const uint64_t total = read_ranges(file, way, bytes);
    munmap(file->map, file->size);
    const struct cost cost = {
        .wall = seconds(CLOCK_MONOTONIC) - wall,
        .processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - processor,
    };
    getrusage(RUSAGE_SELF, &after);
    if (least->processor == 0 || cost.processor < least->processor)
        least->processor = cost.processor;
    if (least->wall == 0 || cost.wall < least->wall)
        least->wall = cost.wall;
    least->faults = after.ru_minflt - before.ru_minflt;
    least->waits = after.ru_majflt - before.ru_majflt;
    return total;
}

int main(int n_args, char **args) {
    if (n_args != 4) {
        fprintf(stderr, "usage: %s FILE MEGABYTES ROUNDS\n", args[0]);
        return 2;
    }
    const size_t bytes = (size_t)strtoul(args[2], NULL, 10) * 1000000;
    struct file file = {.descriptor = open(args[1], O_RDONLY)};
    struct stat about;
    if (file.descriptor < 0 || fstat(file.descriptor, &about) != 0)
        return 1;
    file.size = (size_t)about.st_size;
    file.buffer = malloc((size_t)CHUNK_BYTES * MOST_CHUNKS);
    if (!file.buffer)
        return 1;
    struct cost costs[2][WAYS] = {0};
    uint64_t totals[WAYS] = {0};
    const unsigned long rounds = strtoul(args[3], NULL, 10);
    for (unsigned long round = 0; round < rounds; round++)
        for (int way = 0; way < WAYS; way++) {
            posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_DONTNEED);
            totals[way] = run(&file, way, bytes, &costs[0][way]);
            totals[way] ^= run(&file, way, bytes, &costs[1][way]);
        }
    printf("| cache | way | wall, s | processor, s | minor faults | major faults |\n"
           "|---|---|---|---|---|---|\n");
    for (int warm = 0; warm < 2; warm++)
        for (int way = 0; way < WAYS; way++) {
            const struct cost *cost = &costs[warm][way];
            printf("| %s | %s | %.3f | %.3f | %ld | %ld |\n", warm ? "warm" : "cold", NAMES[way],
                   cost->wall, cost->processor, cost->faults, cost->waits);
        }
    for (int way = 0; way < WAYS; way++)
        if (totals[way] != 0)
            return 1; /* the two runs differ */
    free(file.buffer);
    return 0;
}
