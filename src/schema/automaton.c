/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "schema/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/random.h"
#include "base/utf8.h"

static wisp_status too_large(wisp_error *error) {
    return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL, "needs more than %d states",
                MOST_STATES);
}

/* Returns the list with room for more items, or NULL. */
static void *grown(void *list, size_t needed, size_t *capacity, size_t item_bytes) {
    if (list && needed <= *capacity)
        return list;
    void *moved = realloc(list, (2 * needed + 1) * item_bytes);
    if (moved)
        *capacity = 2 * needed + 1;
    return moved;
}

/* Makes room in a list for `needed` items. */
#define GROW(list, needed, capacity, error)                                                        \
    do {                                                                                           \
        void *grown_ = grown(list, needed, capacity, sizeof *(list));                              \
        if (!grown_)                                                                               \
            return fail_memory(error, (2 * (needed) + 1) * sizeof *(list));                        \
        (list) = grown_;                                                                           \
    } while (0)

/* ---- states by keys ------------------------------------------------------------------------- */

static uint64_t hash_of_key(const uint32_t *key, uint32_t length) {
    return length == 1 ? random_mix(*key)
                       : random_mix(checksum(key, length * sizeof *key) + length);
}

static wisp_status grow_slots(struct state_maker *m) {
    const uint32_t count = m->slot_count ? 4 * m->slot_count : 64;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return fail_memory(m->error, count * sizeof *slots);
    free(m->slots);
    m->slots = slots;
    m->slot_count = count;
    for (uint32_t i = 1; i < m->n; i++) {
        uint64_t at = hash_of_key(m->keys + m->states[i].key, m->states[i].length);
        while (slots[at & (count - 1)])
            at++;
        slots[at & (count - 1)] = i;
    }
    return WISP_OK;
}

wisp_status state_of_key(struct state_maker *m, const uint32_t *key, uint32_t length,
                         uint32_t *state) {
    if (2 * m->n >= m->slot_count)
        TRY(grow_slots(m));
    uint64_t at = hash_of_key(key, length);
    for (; (*state = m->slots[at & (m->slot_count - 1)]) != 0; at++)
        if (m->states[*state].length == length &&
            memcmp(m->keys + m->states[*state].key, key, length * sizeof *key) == 0)
            return WISP_OK;
    if (m->n >= m->most)
        return too_large(m->error);
    size_t capacity = m->capacity;
    GROW(m->keys, m->n_keys + length, &m->key_capacity, m->error);
    GROW(m->states, m->n + 1, &capacity, m->error);
    m->capacity = (uint32_t)capacity;
    memcpy(m->keys + m->n_keys, key, length * sizeof *key);
    m->states[m->n] = (struct made_state){m->n_keys, length, 0};
    m->n_keys += length;
    m->slots[at & (m->slot_count - 1)] = *state = m->n++;
    return WISP_OK;
}

/* Marks the states from which an accepted text can end, and numbers them again. */
static wisp_status finish(struct state_maker *m, struct automaton *a) {
    const uint32_t classes = a->classes;
    uint32_t *number;
    ARENA_TAKE(m->arena, number, m->n, m->error);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t s = m->n; s-- > 1;) {
            bool live = number[s] || m->states[s].tag;
            for (uint32_t c = 0; c < classes && !live; c++)
                live = number[m->next[(size_t)s * classes + c]] != 0;
            changed = changed || (live && !number[s]);
            number[s] = live;
        }
    }
    uint32_t n = 1;
    for (uint32_t s = 1; s < m->n; s++)
        number[s] = number[s] || s == 1 ? n++ : 0;
    a->states = n;
    ARENA_TAKE(m->arena, a->next, (size_t)n * classes, m->error);
    ARENA_TAKE(m->arena, a->tag, n, m->error);
    for (uint32_t s = 1; s < m->n; s++) {
        if (number[s] == 0)
            continue;
        a->tag[number[s]] = m->states[s].tag;
        for (uint32_t c = 0; c < classes; c++)
            a->next[(size_t)number[s] * classes + c] = number[m->next[(size_t)s * classes + c]];
    }
    /* Only the first state is kept although it may be dead. */
    a->is_empty = a->tag[1] == 0;
    for (uint32_t c = 0; c < classes && a->is_empty; c++)
        a->is_empty = a->next[classes + c] <= 1;
    if (a->is_empty)
        for (uint32_t c = 0; c < classes; c++)
            a->next[classes + c] = 0;
    return WISP_OK;
}

/* Finds the tag of a state, and the states after it. */
static wisp_status follow_state(struct state_maker *m, const struct automaton *a,
                                const struct state_rules *rules, uint32_t state) {
    const uint32_t n = m->states[state].length;
    GROW(m->next, ((size_t)state + 1) * a->classes, &m->next_capacity, m->error);
    GROW(m->copy, n, &m->copy_capacity, m->error);
    memcpy(m->copy, m->keys + m->states[state].key, n * sizeof *m->copy);
    m->states[state].tag = rules->tag(rules->context, m->copy, n);
    for (uint32_t c = 0; c < a->classes; c++) {
        uint32_t next = 0;
        TRY(rules->step(rules->context, m, m->copy, n, c, &next));
        m->next[(size_t)state * a->classes + c] = next;
    }
    return WISP_OK;
}

static wisp_status make_states(struct state_maker *m, struct automaton *a,
                               const struct state_rules *rules, const uint32_t *key,
                               uint32_t length) {
    size_t capacity = 0;
    uint32_t first;
    GROW(m->states, 1, &capacity, m->error);
    GROW(m->keys, length, &m->key_capacity, m->error);
    m->capacity = (uint32_t)capacity;
    m->n = 1; /* the dead state */
    m->states[0] = (struct made_state){0};
    TRY(state_of_key(m, key, length, &first));
    for (uint32_t s = 1; s < m->n; s++)
        TRY(follow_state(m, a, rules, s));
    return finish(m, a);
}

wisp_status automaton_make(struct arena *arena, struct automaton *a,
                           const struct state_rules *rules, const uint32_t *key, uint32_t length,
                           wisp_error *error) {
    struct state_maker m = {.arena = arena, .error = error, .most = MOST_STATES};
    const wisp_status status = make_states(&m, a, rules, key, length);
    free(m.keys);
    free(m.states);
    free(m.slots);
    free(m.next);
    free(m.copy);
    return status;
}

/* ---- products ------------------------------------------------------------------------------- */

struct product {
    const struct automaton *const *parts;
    size_t n;
    bool all;
    tag_of_tags *tag;
    void *context;
    const uint32_t *classes; /* [classes of the product * n]: those of the parts */
    uint32_t *numbers;       /* [n] */
};

static wisp_status step_product(void *context, struct state_maker *maker, const uint32_t *key,
                                uint32_t length, uint32_t class, uint32_t *next) {
    const struct product *p = context;
    bool any = false;
    for (uint32_t i = 0; i < length; i++) {
        const struct automaton *part = p->parts[i];
        p->numbers[i] =
            part->next[(size_t)key[i] * part->classes + p->classes[(size_t)class * length + i]];
        any = any || p->numbers[i] != 0;
        if (p->all && p->numbers[i] == 0)
            return WISP_OK;
    }
    return any ? state_of_key(maker, p->numbers, length, next) : WISP_OK;
}

static uint32_t tag_product(void *context, const uint32_t *key, uint32_t length) {
    const struct product *p = context;
    for (uint32_t i = 0; i < length; i++)
        p->numbers[i] = p->parts[i]->tag[key[i]];
    return p->tag(p->context, p->numbers, length);
}

/* Merges the parts' ranges. Characters that are of equal classes in all parts share one. */
static wisp_status merge_ranges(struct arena *arena, struct product *p, struct automaton *a,
                                wisp_error *error) {
    size_t most = 1;
    uint32_t *begin, *class_of, *classes, *at;
    for (size_t i = 0; i < p->n; i++)
        most += p->parts[i]->ranges;
    ARENA_TAKE(arena, begin, most, error);
    ARENA_TAKE(arena, class_of, most, error);
    ARENA_TAKE(arena, classes, most * p->n, error);
    ARENA_TAKE(arena, at, p->n, error);
    uint32_t low = 0;
    while (low <= LAST_CHARACTER) {
        uint32_t high = LAST_CHARACTER + 1, class = 0;
        uint32_t *found = classes + (size_t)a->classes * p->n;
        for (size_t i = 0; i < p->n; i++) {
            const struct automaton *part = p->parts[i];
            while (at[i] + 1 < part->ranges && part->begin[at[i] + 1] <= low)
                at[i]++;
            found[i] = part->class_of[at[i]];
            if (at[i] + 1 < part->ranges && part->begin[at[i] + 1] < high)
                high = part->begin[at[i] + 1];
        }
        while (memcmp(classes + (size_t)class * p->n, found, p->n * sizeof *found) != 0)
            class ++;
        a->classes += class == a->classes;
        begin[a->ranges] = low;
        class_of[a->ranges++] = class;
        low = high;
    }
    a->begin = begin;
    a->class_of = class_of;
    p->classes = classes;
    return WISP_OK;
}

wisp_status automaton_product(struct arena *arena, const struct automaton *const *parts, size_t n,
                              bool all, tag_of_tags *tag, void *context, struct automaton **made,
                              wisp_error *error) {
    struct product p = {
        .parts = parts, .n = n, .all = all, .tag = tag, .context = context, .classes = NULL};
    uint32_t *key;
    ARENA_TAKE(arena, *made, 1, error);
    ARENA_TAKE(arena, p.numbers, n, error);
    ARENA_TAKE(arena, key, n, error);
    for (size_t i = 0; i < n; i++)
        key[i] = 1;
    TRY(merge_ranges(arena, &p, *made, error));
    const struct state_rules rules = {&p, step_product, tag_product};
    return automaton_make(arena, *made, &rules, key, (uint32_t)n, error);
}

static uint32_t tag_and(void *context, const uint32_t *tags, size_t n) {
    (void)context, (void)n;
    return tags[0] && tags[1];
}

static uint32_t tag_or(void *context, const uint32_t *tags, size_t n) {
    (void)context, (void)n;
    return tags[0] || tags[1];
}

static uint32_t tag_not(void *context, const uint32_t *tags, size_t n) {
    (void)context, (void)n;
    return !tags[0];
}

wisp_status automaton_and(struct arena *arena, const struct automaton *a, const struct automaton *b,
                          struct automaton **made, wisp_error *error) {
    const struct automaton *const parts[] = {a, b};
    return automaton_product(arena, parts, 2, true, tag_and, NULL, made, error);
}

wisp_status automaton_or(struct arena *arena, const struct automaton *a, const struct automaton *b,
                         struct automaton **made, wisp_error *error) {
    const struct automaton *const parts[] = {a, b};
    return automaton_product(arena, parts, 2, false, tag_or, NULL, made, error);
}

wisp_status automaton_not(struct arena *arena, const struct automaton *a, struct automaton **made,
                          wisp_error *error) {
    struct automaton *any;
    TRY(automaton_length(arena, 0, UINT32_MAX, &any, error));
    const struct automaton *const parts[] = {a, any}; /* `any` goes on where a does not */
    return automaton_product(arena, parts, 2, false, tag_not, NULL, made, error);
}

/* ---- lengths and texts ---------------------------------------------------------------------- */

static const uint32_t whole_begin[] = {0}, whole_class[] = {0};

wisp_status automaton_length(struct arena *arena, uint32_t least, uint32_t most,
                             struct automaton **made, wisp_error *error) {
    const uint32_t last = most == UINT32_MAX ? least : most;
    struct automaton *a;
    ARENA_TAKE(arena, a, 1, error);
    *made = a;
    *a = (struct automaton){.begin = whole_begin,
                            .class_of = whole_class,
                            .ranges = 1,
                            .classes = 1,
                            .states = last + 2,
                            .is_empty = most < least};
    if (last + 2 > MOST_STATES)
        return too_large(error);
    ARENA_TAKE(arena, a->next, a->states, error);
    ARENA_TAKE(arena, a->tag, a->states, error);
    for (uint32_t i = 0; i <= last && !a->is_empty; i++) {
        a->next[i + 1] = i < last ? i + 2 : most == UINT32_MAX ? i + 1 : 0;
        a->tag[i + 1] = i >= least;
    }
    return WISP_OK;
}

static int by_code(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Gives each character of the texts a class, and all others class 0. */
static wisp_status class_characters(struct arena *arena, const wisp_text *texts, uint32_t n,
                                    struct automaton *a, wisp_error *error) {
    size_t bytes = 0, count = 0;
    uint32_t *codes, *begin, *class_of;
    uint8_t ascii[128] = {0};
    for (uint32_t i = 0; i < n; i++)
        bytes += texts[i].length;
    ARENA_TAKE(arena, codes, bytes + 1, error);
    for (uint32_t i = 0; i < n; i++)
        for (size_t at = 0; at < texts[i].length;) {
            uint32_t code;
            at += utf8_decode(texts[i].bytes + at, texts[i].length - at, &code);
            if (code < 128 && ascii[code]++)
                ascii[code] = 1;
            else
                codes[count++] = code;
        }
    qsort(codes, count, sizeof *codes, by_code);
    ARENA_TAKE(arena, begin, 2 * count + 2, error);
    ARENA_TAKE(arena, class_of, 2 * count + 2, error);
    uint32_t next = 0; /* the first character without a range */
    a->classes = 1;
    for (size_t i = 0; i < count; i++) {
        if (codes[i] < next || codes[i] > LAST_CHARACTER)
            continue;
        if (codes[i] > next)
            begin[a->ranges++] = next;
        begin[a->ranges] = codes[i];
        class_of[a->ranges++] = a->classes++;
        next = codes[i] + 1;
    }
    if (next <= LAST_CHARACTER)
        begin[a->ranges++] = next;
    a->begin = begin;
    a->class_of = class_of;
    return WISP_OK;
}

static uint32_t class_of_character(const struct automaton *a, uint32_t code) {
    uint32_t low = 0, high = a->ranges;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (a->begin[middle] <= code)
            low = middle;
        else
            high = middle;
    }
    return a->class_of[low];
}

/* Makes room for so many more states. */
static wisp_status make_room(struct arena *arena, struct automaton *a, size_t more, size_t *room,
                             wisp_error *error) {
    const uint32_t *next = a->next, *tag = a->tag;
    if (more <= *room - a->states)
        return WISP_OK;
    if (a->states + more > MOST_STATES)
        return too_large(error);
    *room = 2 * (a->states + more);
    ARENA_TAKE(arena, a->next, *room * a->classes, error);
    ARENA_TAKE(arena, a->tag, *room, error);
    memcpy(a->next, next, (size_t)a->states * a->classes * sizeof *next);
    memcpy(a->tag, tag, a->states * sizeof *tag);
    return WISP_OK;
}

wisp_status automaton_texts(struct arena *arena, const wisp_text *texts, uint32_t n, uint32_t other,
                            struct automaton **made, wisp_error *error) {
    size_t most = other ? 3 : 2;
    struct automaton *a;
    ARENA_TAKE(arena, a, 1, error);
    *made = a;
    TRY(class_characters(arena, texts, n, a, error));
    for (uint32_t i = 0; i < n; i++)
        most += texts[i].length;
    size_t room = most < 256 ? most : 256;
    ARENA_TAKE(arena, a->next, room * a->classes, error);
    ARENA_TAKE(arena, a->tag, room, error);
    a->states = other ? 3 : 2; /* state 2 is that of other texts */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t state = 1;
        TRY(make_room(arena, a, texts[i].length, &room, error));
        for (size_t at = 0; at < texts[i].length;) {
            uint32_t code;
            at += utf8_decode(texts[i].bytes + at, texts[i].length - at, &code);
            uint32_t *next = &a->next[(size_t)state * a->classes + class_of_character(a, code)];
            if (*next == 0)
                *next = a->states++;
            state = *next;
        }
        if (a->tag[state] == 0)
            a->tag[state] = i + 1;
    }
    a->is_empty = n == 0 && !other;
    for (uint32_t s = 1; s < a->states && other; s++) {
        if (a->tag[s] == 0)
            a->tag[s] = other;
        for (uint32_t c = 0; c < a->classes; c++)
            if (a->next[(size_t)s * a->classes + c] == 0)
                a->next[(size_t)s * a->classes + c] = 2;
    }
    return WISP_OK;
}

uint32_t automaton_read(const struct automaton *a, wisp_text text) {
    uint32_t state = 1;
    for (size_t at = 0; at < text.length && state != 0;) {
        uint32_t code;
        at += utf8_decode(text.bytes + at, text.length - at, &code);
        if (code == UTF8_INVALID)
            return 0;
        state = a->next[(size_t)state * a->classes + class_of_character(a, code)];
    }
    return a->tag[state];
}
