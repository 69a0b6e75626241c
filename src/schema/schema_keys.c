/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "schema/schema_keys.h"

static uint32_t add_names(const struct required_name *name, wisp_text *names, uint32_t n) {
    for (; name; name = name->next, n++)
        if (names)
            names[n] = wisp_text_of(name->name);
    return n;
}

static uint32_t add_keys(const struct json *property, wisp_text *names, uint32_t n) {
    for (; property; property = property->next, n++)
        if (names)
            names[n] = (wisp_text){property->key, property->key_length};
    return n;
}

/* Lists all names that a record mentions after n others, or only counts them. */
static uint32_t list_names(const struct record *r, wisp_text *names, uint32_t n) {
    for (const struct member_source *s = r->members; s; s = s->next) {
        n = add_keys(s->properties, names, n);
        if (s->name)
            n = add_names(&(struct required_name){s->name, NULL}, names, n);
    }
    n = add_names(r->required, names, n);
    for (const struct other_member *other = r->others; other; other = other->next)
        n = add_keys(other->properties, names, n);
    for (const struct implied_names *i = r->implied; i; i = i->next) {
        n = add_names(&(struct required_name){i->name, NULL}, names, n);
        n = add_names(i->required, names, n);
    }
    return n;
}

static wisp_status add_part(struct schema_compiler *c, struct schema_keys *keys,
                            const struct automaton *part, const struct json *at) {
    for (uint32_t i = 0; i < keys->n_parts; i++)
        if (keys->parts[i] == part)
            return WISP_OK;
    if (keys->n_parts == MOST_KEY_PARTS)
        return schema_refuse(c, WISP_ERROR_UNSUPPORTED, at,
                             "more than %d patterns of an object's names", MOST_KEY_PARTS - 1);
    keys->parts[keys->n_parts++] = part;
    return WISP_OK;
}

wisp_status schema_names(struct schema_compiler *c, struct literal literal,
                         struct automaton **names) {
    uint32_t goal;
    TRY(goal_of(c, &literal, 1, &goal));
    TRY(goal_records(c, goal));
    *names = c->goals[goal].names;
    if (*names)
        return WISP_OK;
    const struct records records = c->goals[goal].records;
    for (uint32_t i = 0; i < records.n; i++) {
        struct automaton *strings;
        if (!(records.list[i].types & TYPE_STRING))
            continue;
        TRY(schema_strings(c, &records.list[i], &strings));
        if (*names)
            TRY(automaton_or(&c->arena, *names, strings, &strings, c->error));
        *names = strings;
    }
    if (!*names)
        TRY(automaton_texts(&c->arena, NULL, 0, 0, names, c->error));
    c->goals[goal].names = *names;
    return WISP_OK;
}

static wisp_status find_parts(struct schema_compiler *c, const struct record *r,
                              const struct json *at, struct schema_keys *keys) {
    struct automaton *part;
    for (const struct member_source *s = r->members; s; s = s->next)
        for (const struct json *q = s->patterns; q; q = q->next) {
            TRY(schema_pattern(c, q, (wisp_text){q->key, q->key_length}, false, &part));
            TRY(add_part(c, keys, part, at));
        }
    for (const struct name_limit *l = r->names; l; l = l->next) {
        TRY(schema_names(c, l->literal, &part));
        TRY(add_part(c, keys, part, at));
    }
    return WISP_OK;
}

/* Returns the tag of names that the parts of a mask accept; 0: there are too many groups. */
static uint32_t group_of(struct schema_keys *keys, uint32_t mask) {
    uint32_t i = 0;
    while (i < keys->n_groups && keys->masks[i] != mask)
        i++;
    if (i == MOST_KEY_GROUPS)
        return 0;
    if (i == keys->n_groups)
        keys->masks[keys->n_groups++] = mask;
    return keys->listed + i + 1;
}

struct key_tags {
    struct schema_keys *keys;
    bool too_many;
};

static uint32_t tag_of_key(void *context, const uint32_t *tags, size_t n) {
    struct key_tags *t = context;
    uint32_t mask = 0;
    if (tags[0] >= 1 && tags[0] <= t->keys->listed)
        return tags[0];
    for (size_t i = 1; i < n; i++)
        mask |= (uint32_t)(tags[i] != 0) << i;
    const uint32_t tag = group_of(t->keys, mask);
    t->too_many = t->too_many || tag == 0;
    return tag;
}

/* Makes the automaton of all listed names, and leaves each in the list once. */
static wisp_status make_list(struct schema_compiler *c, struct schema_keys *keys) {
    for (bool again = true; again;) {
        struct automaton *list;
        uint32_t kept = 0;
        TRY(automaton_texts(&c->arena, keys->names, keys->listed, keys->listed + 1, &list,
                            c->error));
        keys->list = list;
        for (uint32_t i = 0; i < keys->listed; i++)
            if (keys_index(keys, keys->names[i]) == i)
                keys->names[kept++] = keys->names[i];
        again = kept < keys->listed;
        keys->listed = kept;
    }
    return WISP_OK;
}

wisp_status keys_make(struct schema_compiler *c, const struct record *records, uint32_t n,
                      const struct json *at, struct schema_keys *keys) {
    struct key_tags tags = {keys, false};
    *keys = (struct schema_keys){.listed = 0};
    for (uint32_t i = 0; i < n; i++)
        if (records[i].types & TYPE_OBJECT)
            keys->listed = list_names(&records[i], NULL, keys->listed);
    ARENA_TAKE(&c->arena, keys->names, keys->listed + 1, c->error);
    uint32_t listed = 0;
    for (uint32_t i = 0; i < n; i++)
        if (records[i].types & TYPE_OBJECT)
            listed = list_names(&records[i], keys->names, listed);
    TRY(make_list(c, keys));
    TRY(add_part(c, keys, keys->list, at));
    for (uint32_t i = 0; i < n; i++)
        if (records[i].types & TYPE_OBJECT)
            TRY(find_parts(c, &records[i], at, keys));
    if (keys->n_parts == 1) {
        keys->automaton = keys->list;
        group_of(keys, 0);
        return WISP_OK;
    }
    TRY(automaton_product(&c->arena, keys->parts, keys->n_parts, false, tag_of_key, &tags,
                          &keys->automaton, c->error));
    return tags.too_many
               ? schema_refuse(c, WISP_ERROR_UNSUPPORTED, at,
                               "patterns of names that overlap in more than %d ways cannot be "
                               "followed",
                               MOST_KEY_GROUPS)
               : WISP_OK;
}

uint32_t keys_index(const struct schema_keys *keys, wisp_text name) {
    return automaton_read(keys->list, name) - 1;
}

bool keys_match(const struct schema_keys *keys, uint32_t group, const struct automaton *part) {
    for (uint32_t i = 1; i < keys->n_parts; i++)
        if (keys->parts[i] == part)
            return keys->masks[group] >> i & 1;
    return false;
}
