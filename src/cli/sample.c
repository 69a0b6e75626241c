/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "cli/input.h"

/* Adds a line to the sample, or replaces one at random, so that all lines so far are in the sample
 * with the same probability (Vitter's algorithm R). Returns false if there is no memory. */
static bool sample_text(struct sample *t, wisp_text line) {
    size_t at = t->n;
    t->seen++;
    if (t->n == t->capacity) {
        at = (size_t)(random_next(&t->random) % t->seen);
        if (at >= t->capacity)
            return true;
        free((void *)(uintptr_t)t->text[at].bytes);
    } else {
        t->n++;
    }
    char *copy = malloc(line.length + 1);
    t->text[at].bytes = copy;
    t->text[at].length = copy ? line.length : 0;
    if (!copy)
        return false;
    memcpy(copy, line.bytes, line.length);
    return true;
}

void sample_release(struct sample *texts) {
    for (size_t i = 0; i < texts->n; i++)
        free((void *)(uintptr_t)texts->text[i].bytes);
    free(texts->text);
}

static int sample_batches(struct input *input, struct batch *batch, struct sample *texts) {
    int code;
    do {
        code = input_next(input, batch);
        for (size_t i = 0; i < batch->n; i++)
            if (batch->texts[i].length > 0 && !sample_text(texts, batch->texts[i]))
                return complain_of_memory();
    } while (code == EXIT_GOOD && batch->n > 0);
    return code;
}

int sample_read(const char *path, size_t capacity, uint64_t seed, struct sample *texts) {
    struct input input;
    struct batch *batch = calloc(1, sizeof *batch);
    texts->capacity = capacity;
    texts->random = seed;
    texts->text = calloc(capacity, sizeof *texts->text);
    int code = EXIT_FAILED;
    if (!batch || !texts->text)
        complain("out of memory");
    else if (input_open(&input, 1)) {
        input_add(&input, path, NULL);
        code = sample_batches(&input, batch, texts);
        input_close(&input);
    }
    if (batch)
        arena_release(&batch->arena);
    free(batch);
    return code;
}
