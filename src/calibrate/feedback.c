/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/feedback.h"

#include <string.h>

#include "base/checked.h"

enum {
    PATHS = 8,  /* choices that are kept */
    SCALES = 5, /* tried for a block by each of them */
    MOST_ENDS = PATHS * SCALES
};

/* Parts of the scale that fits a block best. MXFP4 has powers of two only. */
static const float scale_steps[SCALES] = {1, 0.92F, 0.96F, 1.04F, 1.08F};
static const float power_steps[SCALES] = {1, 0.5F, 2, 1, 1};

/* The choices of one path up to a block's begin. */
struct path {
    double cost;
    float *wanted; /* [n]: the errors of elements before the block are in it */
    struct coded coded;
};

/* The choices of a path within a block. */
struct block_path {
    double cost;
    size_t from; /* the path that it continues */
    struct grid_scale scale;
    unsigned char codes[GRID_MOST];
    float wanted[GRID_MOST];
};

struct feedback_paths {
    size_t block;
    struct path paths[2][PATHS];   /* those up to a block, and those behind it */
    struct block_path *now, *next; /* [PATHS]: up to an element, and behind it */
    struct block_path *ends;       /* [n_ends]: behind the block, with all scales */
    size_t n_ends;                 /* up to MOST_ENDS */
};

wisp_status feedback_open(struct feedback_paths **paths, const struct block_grid *grid, size_t n,
                          struct arena *arena, wisp_error *error) {
    struct feedback_paths *p;
    const size_t blocks = n / (size_t)grid->block + 1;
    ARENA_TAKE(arena, p, 1, error);
    p->block = (size_t)grid->block;
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < PATHS; i++) {
            struct path *path = &p->paths[side][i];
            ARENA_TAKE(arena, path->wanted, n, error);
            ARENA_TAKE(arena, path->coded.codes, n, error);
            ARENA_TAKE(arena, path->coded.values, n, error);
            ARENA_TAKE(arena, path->coded.scale, blocks, error);
        }
    ARENA_TAKE(arena, p->now, PATHS, error);
    ARENA_TAKE(arena, p->next, PATHS, error);
    ARENA_TAKE(arena, p->ends, MOST_ENDS, error);
    *paths = p;
    return WISP_OK;
}

/* A choice after a path. */
struct step {
    double cost;
    size_t from; /* the path */
    int code;    /* of its next element */
};

/* Puts a step among the cheapest, [PATHS] in order. Of steps that cost the same the first stays. */
static void keep_step(struct step *kept, size_t *count, struct step step) {
    size_t at = *count;
    if (at == PATHS && !(step.cost < kept[at - 1].cost))
        return;
    *count = smaller(at + 1, PATHS);
    for (at = *count - 1; at > 0 && step.cost < kept[at - 1].cost; at--)
        kept[at] = kept[at - 1];
    kept[at] = step;
}

/* Keeps the steps to the code nearest to what element i should be and to the one on its other side.
 */
static void try_codes(const struct feedback *f, const struct block_path *path, size_t from,
                      size_t i, float variance, struct step *kept, size_t *count) {
    const float wanted = path->wanted[i];
    const int nearest = grid_code(f->grid, path->scale, wanted);
    const float off = wanted - grid_value(f->grid, path->scale, nearest);
    /* Values rise with codes, or fall where the scale is negative. */
    const int other = nearest + ((off > 0) == (path->scale.scale > 0) ? 1 : -1);
    keep_step(kept, count,
              (struct step){path->cost + (double)(variance * off * off), from, nearest});
    if (other < 0 || other >= f->grid->n_levels)
        return;
    const float more = wanted - grid_value(f->grid, path->scale, other);
    keep_step(kept, count,
              (struct step){path->cost + (double)(variance * more * more), from, other});
}

/* Continues paths through the n elements from `first` on, with one scale each. */
static size_t cross_block(const struct feedback *f, struct feedback_paths *p, size_t count,
                          const float *target, size_t first, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const size_t column = (first + i) % f->k;
        const size_t end = smaller(n, i + f->k - column); /* of the row within the block */
        const float *factor = f->factor + column * f->k + column;
        struct step kept[PATHS];
        size_t n_kept = 0;
        for (size_t j = 0; j < count; j++)
            try_codes(f, &p->now[j], j, i, f->variances[column], kept, &n_kept);
        for (size_t j = 0; j < n_kept; j++) {
            const struct block_path *from = &p->now[kept[j].from];
            struct block_path *to = &p->next[j];
            const float error = target[first + i] - grid_value(f->grid, from->scale, kept[j].code);
            to->cost = kept[j].cost;
            to->from = from->from;
            to->scale = from->scale;
            memcpy(to->codes, from->codes, i);
            to->codes[i] = (unsigned char)kept[j].code;
            for (size_t at = i + 1; at < end; at++)
                to->wanted[at] = from->wanted[at] + factor[at - i] * error;
            if (end < n)
                memcpy(to->wanted + end, from->wanted + end, (n - end) * sizeof *to->wanted);
        }
        struct block_path *swap = p->now;
        p->now = p->next;
        p->next = swap;
        count = n_kept;
    }
    return count;
}

/* Returns a scale near that which fits best; the middle of the values stays where there is an
 * offset. */
static struct grid_scale step_scale(const struct block_grid *grid, struct grid_scale at,
                                    float step) {
    const float scale = grid_stored_scale(grid, at.scale * step);
    const float middle = (float)(grid->n_levels - 1) / 2;
    if (grid->has_offset)
        at.offset = grid_half(at.offset + (at.scale - scale) * middle);
    at.scale = scale;
    return at;
}

/* Keeps where a path is behind a block. */
static void copy_end(const struct block_path *from, size_t n, struct block_path *to) {
    to->cost = from->cost;
    to->from = from->from;
    to->scale = from->scale;
    memcpy(to->codes, from->codes, n);
}

/* Continues `count` paths through a block with each of the scales. */
static void try_scales(const struct feedback *f, struct feedback_paths *p, const struct path *paths,
                       size_t count, const float *target, size_t first, size_t n) {
    struct grid_scale fits[PATHS];
    float weights[GRID_MOST];
    for (size_t i = 0; i < n; i++)
        weights[i] = f->variances[(first + i) % f->k];
    for (size_t j = 0; j < count; j++)
        fits[j] = grid_fit(f->grid, paths[j].wanted + first, weights, (int)n);
    const float *steps = f->grid->type == BLOCK_MXFP4 ? power_steps : scale_steps;
    p->n_ends = 0;
    for (size_t s = 0; s < SCALES; s++) {
        size_t begun = 0;
        for (size_t j = 0; j < count; j++) {
            const struct grid_scale scale = step_scale(f->grid, fits[j], steps[s]);
            struct block_path *path = &p->now[begun];
            if (s > 0 && scale.scale == fits[j].scale)
                continue;
            path->cost = paths[j].cost;
            path->from = j;
            path->scale = scale;
            memcpy(path->wanted, paths[j].wanted + first, n * sizeof *path->wanted);
            begun++;
        }
        const size_t ended = begun > 0 ? cross_block(f, p, begun, target, first, n) : 0;
        for (size_t j = 0; j < ended; j++)
            copy_end(&p->now[j], n, &p->ends[p->n_ends++]);
    }
}

/* Copies a path, with its choices in a block behind it, and carries the block's errors on to the
 * rest of the row in which it ends. */
static void extend_path(const struct feedback *f, const struct path *from,
                        const struct block_path *block, const float *target, size_t first, size_t n,
                        size_t all, struct path *to) {
    const size_t end = first + n, row = (end - 1) / f->k * f->k, after = row + f->k;
    const size_t blocks = first / (size_t)f->grid->block;
    to->cost = block->cost;
    memcpy(to->wanted + end, from->wanted + end, (all - end) * sizeof *to->wanted);
    memcpy(to->coded.codes, from->coded.codes, first * sizeof *to->coded.codes);
    memcpy(to->coded.values, from->coded.values, first * sizeof *to->coded.values);
    memcpy(to->coded.scale, from->coded.scale, blocks * sizeof *to->coded.scale);
    for (size_t i = 0; i < n; i++) {
        to->coded.codes[first + i] = block->codes[i];
        to->coded.values[first + i] = grid_value(f->grid, block->scale, block->codes[i]);
    }
    to->coded.scale[blocks] = block->scale;
    for (size_t at = larger(first, row); at < end; at++) {
        const float error = target[at] - to->coded.values[at];
        const float *factor = f->factor + (at - row) * f->k;
        for (size_t i = end; i < after; i++)
            to->wanted[i] += factor[i - row] * error;
    }
}

void feed_back(const struct feedback *f, const float *target, size_t n, struct feedback_paths *p,
               const struct coded *result) {
    struct path *paths = p->paths[0], *behind = p->paths[1];
    size_t count = 1;
    paths->cost = 0;
    memcpy(paths->wanted, target, n * sizeof *target);
    for (size_t first = 0; first < n; first += p->block) {
        const size_t elements = smaller(p->block, n - first);
        struct step kept[PATHS];
        size_t n_kept = 0;
        try_scales(f, p, paths, count, target, first, elements);
        for (size_t i = 0; i < p->n_ends; i++)
            keep_step(kept, &n_kept, (struct step){.cost = p->ends[i].cost, .from = i});
        count = n_kept;
        for (size_t i = 0; i < count; i++) {
            const struct block_path *block = &p->ends[kept[i].from];
            extend_path(f, &paths[block->from], block, target, first, elements, n, &behind[i]);
        }
        struct path *swap = paths;
        paths = behind;
        behind = swap;
    }
    const size_t blocks = (n + p->block - 1) / p->block;
    memcpy(result->codes, paths->coded.codes, n * sizeof *result->codes);
    memcpy(result->values, paths->coded.values, n * sizeof *result->values);
    memcpy(result->scale, paths->coded.scale, blocks * sizeof *result->scale);
}
