/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/conv_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"

static size_t state_floats(const struct conv_state *s) {
    return s->layers * s->values;
}

wisp_status conv_state_open(struct conv_state *s, size_t layers, size_t values, wisp_error *error) {
    size_t bytes;
    *s = (struct conv_state){.layers = layers, .values = values};
    if (layers == 0)
        return WISP_OK;
    if (!checked_floats(layers, values, &bytes))
        return fail_memory(error, UINT64_MAX);
    float **const made[] = {&s->end[0], &s->end[1], &s->marked};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        *made[i] = memory_allocate(bytes);
        if (!*made[i])
            return fail_memory(error, bytes);
        memset(*made[i], 0, bytes);
    }
    return WISP_OK;
}

void conv_state_release(struct conv_state *s) {
    memory_free(s->end[0]);
    memory_free(s->end[1]);
    memory_free(s->marked);
    for (size_t i = 0; i < s->kept_count; i++)
        memory_free(s->kept[i]);
    free(s->kept);
    *s = (struct conv_state){0};
}

wisp_status conv_state_reserve(struct conv_state *s, size_t n, wisp_error *error) {
    const size_t count = n / CONV_STATE_EVERY, bytes = state_floats(s) * sizeof **s->kept;
    if (s->layers == 0 || count <= s->kept_count)
        return WISP_OK;
    float **kept = realloc(s->kept, count * sizeof *kept);
    if (!kept)
        return fail_memory(error, count * sizeof *kept);
    s->kept = kept;
    for (; s->kept_count < count; s->kept_count++) {
        float *made = memory_allocate(bytes);
        if (!made)
            return fail_memory(error, bytes);
        s->kept[s->kept_count] = made;
    }
    return WISP_OK;
}

size_t conv_state_known(const struct conv_state *s, size_t n) {
    if (s->layers == 0 || n == s->length)
        return n;
    const size_t kept = smaller(n, s->length) / CONV_STATE_EVERY * CONV_STATE_EVERY;
    return s->mark <= smaller(n, s->length) ? larger(kept, s->mark) : kept;
}

/* Returns the state after n tokens, which is known; NULL after 0. */
static const float *state_after(const struct conv_state *s, size_t n) {
    if (n == 0)
        return NULL;
    return n == s->length ? s->end[s->now]
           : n == s->mark ? s->marked
                          : s->kept[n / CONV_STATE_EVERY - 1];
}

/* Sets a state to another one, or to that of no tokens. */
static void set_state(const struct conv_state *s, float *to, const float *from) {
    const size_t bytes = state_floats(s) * sizeof *to;
    if (!from)
        memset(to, 0, bytes);
    else if (to != from)
        memcpy(to, from, bytes);
}

void conv_state_rewind(struct conv_state *s, size_t n) {
    if (s->layers > 0)
        set_state(s, s->end[s->now], state_after(s, n));
    s->length = n;
}

void conv_state_mark(struct conv_state *s, size_t n) {
    s->mark = n;
    if (s->layers > 0 && n == s->length)
        set_state(s, s->marked, s->end[s->now]);
}

void conv_state_copy(struct conv_state *to, const struct conv_state *from, size_t shared,
                     size_t n) {
    if (to->layers > 0) {
        set_state(to, to->end[to->now], state_after(from, n));
        for (size_t i = shared / CONV_STATE_EVERY; i < n / CONV_STATE_EVERY; i++)
            set_state(to, to->kept[i], from->kept[i]);
    }
    if (to->mark > shared)
        to->mark = 0;
    to->length = n;
}

const float *conv_state_values(const struct conv_state *s, size_t layer) {
    return s->end[s->now] + layer * s->values;
}

float *conv_state_place(const struct conv_state *s, size_t layer, size_t n, size_t added,
                        size_t index) {
    float *const states[] = {n == s->length + added ? s->end[!s->now] : NULL,
                             n == s->mark ? s->marked : NULL,
                             n % CONV_STATE_EVERY == 0 ? s->kept[n / CONV_STATE_EVERY - 1] : NULL};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (states[i] && index-- == 0)
            return states[i] + layer * s->values;
    return NULL;
}

void conv_state_commit(struct conv_state *s, size_t n) {
    s->length += n;
    s->now = !s->now;
}

size_t conv_state_count(const struct conv_state *s, size_t n) {
    return s->layers > 0 ? 2 + n / CONV_STATE_EVERY : 0;
}

float *conv_state_at(const struct conv_state *s, size_t index) {
    return index == 0 ? s->end[s->now] : index == 1 ? s->marked : s->kept[index - 2];
}

size_t conv_state_bytes(const struct conv_state *s) {
    const size_t states = s->layers > 0 ? s->kept_count + 3 : 0;
    return states * state_floats(s) * sizeof(float) + s->kept_count * sizeof *s->kept;
}
