/* SPDX-License-Identifier: Apache-2.0 */
#include "grammar/grammar_members.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/list.h"
#include "base/random.h"

static const struct grammar_object *object_of(const struct machine *m, uint32_t seen) {
    return &m->grammar->objects[m->seen[seen].object];
}

/* ---- keys that were seen -------------------------------------------------------------------- */

static uint64_t hash_of_seen(uint32_t object, uint32_t count, const uint32_t *words, size_t n) {
    return random_mix(checksum(words, n * sizeof *words) + ((uint64_t)object << 32 | count));
}

/* Finds or makes the set whose words are the last of m->words, which it then keeps or removes. */
static wisp_status intern_seen(struct machine *m, uint32_t object, uint32_t count, uint32_t *seen,
                               wisp_error *error) {
    const uint32_t n = m->grammar->objects[object].words;
    const uint32_t at = m->n_words - n;
    bool emptied;
    TRY(list_grow(&m->seen, m->n_seen, 1, &m->seen_capacity, sizeof *m->seen, error));
    TRY(machine_grow_buckets(&m->seen_buckets, m->n_seen, &emptied, error));
    for (uint32_t i = 1; i < m->n_seen && emptied; i++) {
        struct machine_seen *s = &m->seen[i];
        uint32_t *bucket =
            machine_bucket(&m->seen_buckets, hash_of_seen(s->object, s->count, m->words + s->words,
                                                          m->grammar->objects[s->object].words));
        s->chain = *bucket;
        *bucket = i;
    }
    uint32_t *bucket =
        machine_bucket(&m->seen_buckets, hash_of_seen(object, count, m->words + at, n));
    for (*seen = *bucket; *seen; *seen = m->seen[*seen].chain) {
        const struct machine_seen *s = &m->seen[*seen];
        if (s->object == object && s->count == count &&
            memcmp(m->words + s->words, m->words + at, n * sizeof *m->words) == 0) {
            m->n_words = at;
            return WISP_OK;
        }
    }
    *seen = m->n_seen++;
    m->seen[*seen] = (struct machine_seen){object, count, at, *bucket};
    *bucket = *seen;
    return WISP_OK;
}

/* Finds the set with one more member; `member` UINT32_MAX: the empty set. */
static wisp_status add_seen(struct machine *m, uint32_t object, uint32_t from, uint32_t member,
                            uint32_t *seen, wisp_error *error) {
    const struct grammar_object *o = &m->grammar->objects[object];
    uint32_t count = 0;
    TRY(list_grow(&m->words, m->n_words, o->words, &m->word_capacity, sizeof *m->words, error));
    uint32_t *words = m->words + m->n_words;
    if (member == UINT32_MAX) {
        memset(words, 0, o->words * sizeof *words);
    } else {
        const uint32_t bound = o->most != UINT32_MAX ? o->most : o->least;
        memcpy(words, m->words + m->seen[from].words, o->words * sizeof *words);
        if (member < o->listed || o->n_some > 0)
            words[member / 32] |= UINT32_C(1) << member % 32;
        count = m->seen[from].count < bound ? m->seen[from].count + 1 : bound;
    }
    m->n_words += o->words;
    return intern_seen(m, object, count, seen, error);
}

/* ---- groups --------------------------------------------------------------------------------- */

static uint64_t hash_of_group(const uint32_t *seen, uint32_t n) {
    return n == 1 ? random_mix(*seen) : random_mix(checksum(seen, n * sizeof *seen) + n);
}

/* Finds or makes the group of n sets. n is not 0. */
static wisp_status group_of(struct machine *m, const uint32_t *seen, uint32_t n, uint32_t *group,
                            wisp_error *error) {
    bool emptied;
    TRY(list_grow(&m->groups, m->n_groups, 1, &m->group_capacity, sizeof *m->groups, error));
    TRY(machine_grow_buckets(&m->group_buckets, m->n_groups, &emptied, error));
    for (uint32_t i = 1; i < m->n_groups && emptied; i++) {
        struct machine_group *g = &m->groups[i];
        uint32_t *bucket =
            machine_bucket(&m->group_buckets, hash_of_group(m->words + g->words, g->n));
        g->chain = *bucket;
        *bucket = i;
    }
    uint32_t *bucket = machine_bucket(&m->group_buckets, hash_of_group(seen, n));
    for (*group = *bucket; *group; *group = m->groups[*group].chain)
        if (m->groups[*group].n == n &&
            memcmp(m->words + m->groups[*group].words, seen, n * sizeof *seen) == 0)
            return WISP_OK;
    TRY(list_grow(&m->words, m->n_words, n, &m->word_capacity, sizeof *m->words, error));
    memcpy(m->words + m->n_words, seen, n * sizeof *seen);
    *group = m->n_groups++;
    m->groups[*group] = (struct machine_group){n, m->n_words, *bucket};
    m->n_words += n;
    *bucket = *group;
    return WISP_OK;
}

static uint32_t seen_of(const struct machine *m, uint32_t group, uint32_t i) {
    return m->words[m->groups[group].words + i];
}

/* ---- places --------------------------------------------------------------------------------- */

static uint64_t hash_of_place(uint32_t kind, uint32_t group, uint32_t state) {
    return random_mix((uint64_t)group << 32 | (uint64_t)kind << 29 | state);
}

static wisp_status place_at(struct machine *m, enum place_kind kind, uint32_t group, uint32_t state,
                            uint32_t *at, wisp_error *error) {
    bool emptied;
    TRY(list_grow(&m->places, m->n_places, 1, &m->place_capacity, sizeof *m->places, error));
    TRY(machine_grow_buckets(&m->place_buckets, m->n_places, &emptied, error));
    for (uint32_t i = 1; i < m->n_places && emptied; i++) {
        struct machine_place *p = &m->places[i];
        uint32_t *bucket =
            machine_bucket(&m->place_buckets, hash_of_place(p->kind, p->group, p->state));
        p->chain = *bucket;
        *bucket = i;
    }
    uint32_t *bucket = machine_bucket(&m->place_buckets, hash_of_place(kind, group, state));
    uint32_t i = *bucket;
    while (i && (m->places[i].kind != kind || m->places[i].group != group ||
                 m->places[i].state != state))
        i = m->places[i].chain;
    if (i == 0) {
        i = m->n_places++;
        m->places[i] = (struct machine_place){kind, group, state, *bucket};
        *bucket = i;
    }
    *at = AT_PLACE + i;
    return WISP_OK;
}

wisp_status members_open(struct machine *m, wisp_error *error) {
    bool emptied;
    TRY(list_grow(&m->places, 0, 1, &m->place_capacity, sizeof *m->places, error));
    TRY(list_grow(&m->seen, 0, 1, &m->seen_capacity, sizeof *m->seen, error));
    TRY(list_grow(&m->groups, 0, 1, &m->group_capacity, sizeof *m->groups, error));
    m->n_places = m->n_seen = m->n_groups = 1; /* index 0 stands for none */
    TRY(machine_grow_buckets(&m->place_buckets, 1, &emptied, error));
    TRY(machine_grow_buckets(&m->group_buckets, 1, &emptied, error));
    return machine_grow_buckets(&m->seen_buckets, 1, &emptied, error);
}

void members_release(struct machine *m) {
    free(m->ways);
    free(m->places);
    free(m->seen);
    free(m->groups);
    free(m->group_buckets.first);
    free(m->words);
    free(m->place_buckets.first);
    free(m->seen_buckets.first);
}

/* ---- what may come -------------------------------------------------------------------------- */

/* A word of the members that have to be there. */
static uint32_t required_word(const struct grammar_object *o, const uint32_t *seen, uint32_t w) {
    uint32_t bits = o->required[w];
    for (uint32_t i = 0; i < o->n_implied; i++) {
        const uint32_t *implied = o->implied + (size_t)i * (1 + o->words);
        if (seen[*implied / 32] >> *implied % 32 & 1)
            bits |= implied[1 + w];
    }
    return bits;
}

static uint32_t count_missing(const struct machine *m, uint32_t seen) {
    const struct grammar_object *o = object_of(m, seen);
    const uint32_t *words = m->words + m->seen[seen].words;
    uint32_t missing = 0;
    for (uint32_t w = 0; w < o->words; w++)
        for (uint32_t bits = required_word(o, words, w) & ~words[w]; bits; bits &= bits - 1)
            missing++;
    return missing;
}

static bool has_some(const struct machine *m, uint32_t seen) {
    const struct grammar_object *o = object_of(m, seen);
    const uint32_t *words = m->words + m->seen[seen].words;
    for (uint32_t i = 0; i < o->n_some; i++) {
        bool has = false;
        for (uint32_t w = 0; w < o->words; w++)
            has = has || (o->some[(size_t)i * o->words + w] & words[w]);
        if (!has)
            return false;
    }
    return true;
}

static bool is_complete(const struct machine *m, uint32_t seen) {
    return m->seen[seen].count >= object_of(m, seen)->least && count_missing(m, seen) == 0 &&
           has_some(m, seen);
}

/* Whether there is room only for members that are required. */
static bool is_tight(const struct machine *m, uint32_t seen) {
    const struct grammar_object *o = object_of(m, seen);
    return o->most != UINT32_MAX && o->most - m->seen[seen].count <= count_missing(m, seen);
}

/* Whether a member that may come still has a key that can end from the state. */
static bool may_read(const struct machine *m, uint32_t seen, uint32_t state) {
    const struct grammar_object *o = object_of(m, seen);
    const uint32_t *words = m->words + m->seen[seen].words;
    const bool tight = is_tight(m, seen);
    const uint32_t *reach = o->reach + (size_t)(state - o->keys) * o->words;
    if (!tight && o->open[state - o->keys])
        return true;
    for (uint32_t w = 0; w < o->words; w++)
        if (reach[w] & ~words[w] & (tight ? required_word(o, words, w) : UINT32_MAX))
            return true;
    return false;
}

static bool may_follow(const struct machine *m, uint32_t seen) {
    const struct grammar_object *o = object_of(m, seen);
    return m->seen[seen].count < o->most && may_read(m, seen, o->keys);
}

static bool may_end_key(const struct machine *m, uint32_t seen, uint32_t tag) {
    const struct grammar_object *o = object_of(m, seen);
    const uint32_t *words = m->words + m->seen[seen].words;
    if (tag == 0)
        return false;
    const uint32_t member = tag - 1;
    if (o->value[member] == UINT32_MAX)
        return false;
    if (member >= o->listed)
        return !is_tight(m, seen);
    const uint32_t bit = UINT32_C(1) << member % 32;
    return !(words[member / 32] & bit) &&
           (!is_tight(m, seen) || (required_word(o, words, member / 32) & bit));
}

static bool group_may_end_object(const struct machine *m, uint32_t group) {
    for (uint32_t i = 0; i < m->groups[group].n; i++)
        if (is_complete(m, seen_of(m, group, i)))
            return true;
    return false;
}

/* Finds the ways in which a key may go on from a state of the automaton; `begins`: a member may
 * begin. Sets *left to 0 if there are none. */
static wisp_status ways_left(struct machine *m, uint32_t group, uint32_t state, bool begins,
                             uint32_t *left, wisp_error *error) {
    const uint32_t n = m->groups[group].n;
    uint32_t kept = 0;
    TRY(list_grow(&m->ways, 0, n, &m->way_capacity, sizeof *m->ways, error));
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t seen = seen_of(m, group, i);
        if (begins ? may_follow(m, seen) : may_read(m, seen, state))
            m->ways[kept++] = seen;
    }
    *left = kept == n ? group : 0;
    return kept == n || kept == 0 ? WISP_OK : group_of(m, m->ways, kept, left, error);
}

uint32_t members_run(const struct machine *m, uint32_t place) {
    const struct machine_place *p = &m->places[place];
    uint32_t run = 0;
    for (uint32_t i = 0; i < m->groups[p->group].n && p->kind == PLACE_KEY; i++) {
        const uint32_t seen = seen_of(m, p->group, i);
        const struct grammar_object *o = object_of(m, seen);
        const uint32_t own = o->run[p->state - o->keys];
        run = !is_tight(m, seen) && own > run ? own : run;
    }
    return run;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static wisp_status follow_place(struct machine *m, enum place_kind kind, uint32_t group,
                                uint32_t state, uint32_t stack, wisp_error *error) {
    uint32_t at;
    TRY(place_at(m, kind, group, state, &at, error));
    return machine_follow(m, at, stack, error);
}

/* Goes on with a rule and then with a place. */
static wisp_status follow_before(struct machine *m, uint32_t rule, enum place_kind kind,
                                 uint32_t group, uint32_t state, uint32_t stack,
                                 wisp_error *error) {
    uint32_t at, above;
    TRY(place_at(m, kind, group, state, &at, error));
    TRY(machine_push(m, at, stack, &above, error));
    return machine_follow_rule(m, rule, above, error);
}

static int by_number(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

wisp_status members_begin(struct machine *m, uint32_t ways, uint32_t stack, wisp_error *error) {
    const struct grammar_ways w = m->grammar->ways[ways];
    uint32_t group;
    TRY(list_grow(&m->ways, 0, w.n, &m->way_capacity, sizeof *m->ways, error));
    for (uint32_t i = 0; i < w.n; i++)
        TRY(add_seen(m, w.first + i, 0, UINT32_MAX, &m->ways[i], error));
    qsort(m->ways, w.n, sizeof *m->ways, by_number);
    TRY(group_of(m, m->ways, w.n, &group, error));
    return follow_place(m, PLACE_FIRST, group, 0, stack, error);
}

wisp_status members_follow(struct machine *m, struct machine_item item, wisp_error *error) {
    const struct wisp_grammar *g = m->grammar;
    const struct machine_place p = m->places[item.at - AT_PLACE];
    if (p.kind == PLACE_AFTER)
        return follow_before(m, g->space, PLACE_MORE, p.group, 0, item.stack, error);
    TRY(machine_find(m, item.at, item.stack, error));
    if (p.kind != PLACE_KEY)
        return WISP_OK;
    const struct grammar_automaton *a = &g->automata[g->states[p.state].automaton];
    const uint32_t *row = a->next + (size_t)(p.state - a->first) * a->classes;
    for (uint32_t c = 0; c < a->classes; c++) {
        uint32_t left = 0;
        if (row[c] && a->wide[c] != UINT32_MAX)
            TRY(ways_left(m, p.group, row[c], false, &left, error));
        if (left)
            TRY(follow_before(m, a->wide[c], PLACE_KEY, left, row[c], item.stack, error));
    }
    return WISP_OK;
}

/* Ends a key. Ways that have the same rule for the value go on together. */
static wisp_status end_key(struct machine *m, struct machine_place p, uint32_t stack,
                           wisp_error *error) {
    const uint32_t tag = m->grammar->states[p.state].tag, n = m->groups[p.group].n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t seen = seen_of(m, p.group, i);
        if (!may_end_key(m, seen, tag))
            continue;
        const uint32_t rule = object_of(m, seen)->value[tag - 1];
        bool before = false;
        uint32_t kept = 0, group;
        for (uint32_t k = 0; k < i && !before; k++)
            before = may_end_key(m, seen_of(m, p.group, k), tag) &&
                     object_of(m, seen_of(m, p.group, k))->value[tag - 1] == rule;
        if (before)
            continue;
        TRY(list_grow(&m->ways, 0, n, &m->way_capacity, sizeof *m->ways, error));
        for (uint32_t k = i; k < n; k++) {
            const uint32_t other = seen_of(m, p.group, k);
            if (may_end_key(m, other, tag) && object_of(m, other)->value[tag - 1] == rule)
                TRY(add_seen(m, m->seen[other].object, other, tag - 1, &m->ways[kept++], error));
        }
        qsort(m->ways, kept, sizeof *m->ways, by_number);
        TRY(group_of(m, m->ways, kept, &group, error));
        TRY(follow_before(m, rule, PLACE_AFTER, group, 0, stack, error));
    }
    return WISP_OK;
}

static wisp_status step_key(struct machine *m, struct machine_place p, uint32_t stack,
                            unsigned char byte, wisp_error *error) {
    const struct wisp_grammar *g = m->grammar;
    const struct grammar_automaton *a = &g->automata[g->states[p.state].automaton];
    uint32_t left;
    if (byte == '"')
        return end_key(m, p, stack, error);
    if (byte >= 128 || a->ascii[byte] == 0)
        return WISP_OK;
    const uint32_t next = a->next[(size_t)(p.state - a->first) * a->classes + a->ascii[byte] - 1];
    if (next == 0)
        return WISP_OK;
    TRY(ways_left(m, p.group, next, false, &left, error));
    return left ? follow_place(m, PLACE_KEY, left, next, stack, error) : WISP_OK;
}

wisp_status members_step(struct machine *m, struct machine_item item, unsigned char byte,
                         wisp_error *error) {
    const struct machine_place p = m->places[item.at - AT_PLACE];
    uint32_t left;
    if (p.kind == PLACE_KEY)
        return step_key(m, p, item.stack, byte, error);
    if (byte == '}' && p.kind != PLACE_NEXT)
        return group_may_end_object(m, p.group) ? machine_return(m, item.stack, error) : WISP_OK;
    const bool begins = byte == '"' && p.kind != PLACE_MORE,
               goes_on = byte == ',' && p.kind == PLACE_MORE;
    if (!begins && !goes_on)
        return WISP_OK;
    TRY(ways_left(m, p.group, 0, true, &left, error));
    if (left == 0)
        return WISP_OK;
    return begins ? follow_place(m, PLACE_KEY, left, object_of(m, seen_of(m, left, 0))->keys,
                                 item.stack, error)
                  : follow_before(m, m->grammar->space, PLACE_NEXT, left, 0, item.stack, error);
}
