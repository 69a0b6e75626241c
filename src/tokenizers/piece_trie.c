/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/piece_trie.h"

#include <stdlib.h>
#include <string.h>

/* A piece with its id, while pieces are sorted. */
struct entry {
    wisp_text text;
    int32_t id;
};

struct range {
    size_t low, high,
        depth; /* the pieces [low, high) begin with the `depth` bytes that lead to a node */
};

static int compare(const void *a, const void *b) {
    const wisp_text x = ((const struct entry *)a)->text, y = ((const struct entry *)b)->text;
    const int order = memcmp(x.bytes, y.bytes, x.length < y.length ? x.length : y.length);
    return order != 0 ? order : (x.length > y.length) - (x.length < y.length);
}

/* Returns the number of nodes of the trie of sorted pieces: the root, and one for each byte of a
 * piece after those that the piece before it has too. */
static size_t count_nodes(const struct entry *entries, size_t count) {
    size_t nodes = 1;
    for (size_t i = 0; i < count; i++) {
        size_t shared = 0;
        while (i > 0 && shared < entries[i].text.length && shared < entries[i - 1].text.length &&
               entries[i].text.bytes[shared] == entries[i - 1].text.bytes[shared])
            shared++;
        nodes += entries[i].text.length - shared;
    }
    return nodes;
}

/* Fills the nodes in the order of their depth, so that the children of a node are neighbours. */
static void fill(struct piece_node *nodes, struct range *ranges, const struct entry *entries,
                 size_t count) {
    size_t used = 1;
    nodes[0] = (struct piece_node){.id = -1};
    ranges[0] = (struct range){0, count, 0};
    for (size_t n = 0; n < used; n++) {
        struct range r = ranges[n];
        if (entries[r.low].text.length == r.depth) /* the shortest comes first */
            nodes[n].id = entries[r.low++].id;
        nodes[n].first = (uint32_t)used;
        while (r.low < r.high) {
            const char byte = entries[r.low].text.bytes[r.depth];
            size_t end = r.low + 1;
            while (end < r.high && entries[end].text.bytes[r.depth] == byte)
                end++;
            nodes[used] = (struct piece_node){.byte = (uint8_t)byte, .id = -1};
            ranges[used++] = (struct range){r.low, end, r.depth + 1};
            nodes[n].children++;
            r.low = end;
        }
    }
}

wisp_status piece_trie_build(struct piece_trie *trie, struct arena *arena, const wisp_text *texts,
                             const int32_t *ids, size_t count, int32_t *twin, wisp_error *error) {
    struct entry *entries = malloc(count * sizeof *entries);
    struct range *ranges = NULL;
    struct piece_node *nodes = NULL;
    size_t needed = 0;
    wisp_status status = WISP_OK;
    for (size_t i = 0; entries && i < count; i++)
        entries[i] = (struct entry){texts[i], ids[i]};
    if (entries) {
        qsort(entries, count, sizeof *entries, compare);
        for (size_t i = 1; i < count && status == WISP_OK; i++)
            if (compare(&entries[i - 1], &entries[i]) == 0) {
                *twin = entries[i].id;
                status = WISP_ERROR_FORMAT;
            }
        needed = count_nodes(entries, count);
        ranges = malloc(needed * sizeof *ranges);
        nodes = arena_allocate(arena, needed * sizeof *nodes);
    }
    if (!entries || !ranges || !nodes)
        status = fail_memory(error, needed * (sizeof *ranges + sizeof *nodes));
    if (status == WISP_OK) {
        fill(nodes, ranges, entries, count);
        trie->nodes = nodes;
    }
    free(ranges);
    free(entries);
    return status;
}

const struct piece_node *piece_trie_step(const struct piece_trie *trie,
                                         const struct piece_node *node, unsigned char byte) {
    const struct piece_node *children = trie->nodes + node->first;
    size_t low = 0, high = node->children;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (children[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < node->children && children[low].byte == byte ? &children[low] : NULL;
}
