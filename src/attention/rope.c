/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "attention/rope.h"

#include <math.h>

/* An angle as a point on the unit circle: its cosine and sine. */
struct point {
    double x, y;
};

/* The point at an angle of at most 1, by the series of e^(i angle). The first 20 terms leave an
 * error of 4e-19. sin and cos of libm take any angle, but are 6 KB in WebAssembly. */
static struct point point_at(double angle) {
    struct point p = {0, 0};
    double term = 1;
    for (int k = 0; k < 20; k += 4) {
        p.x += term;
        term *= angle / (k + 1);
        p.y += term;
        term *= angle / (k + 2);
        p.x -= term;
        term *= angle / (k + 3);
        p.y -= term;
        term *= angle / (k + 4);
    }
    return p;
}

static struct point add_angles(struct point a, struct point b) {
    return (struct point){a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y};
}

/* Returns the number of values of a head that are rotated. */
static size_t rotated_size(const struct rope *rope, size_t head_size) {
    return rope->rotated > 0 ? rope->rotated : head_size;
}

void fill_rope_table(const struct rope *rope, size_t head_size, size_t positions, float *table) {
    const size_t rotated = rotated_size(rope, head_size), pairs = rotated / 2;
    const float length = rope->attention_factor != 0 ? rope->attention_factor : 1;
    for (size_t i = 0; i < pairs; i++) {
        /* In floats, because models are trained with angles that were rounded to floats. */
        const float factor = rope->factors ? rope->factors[i] : 1;
        const float angle = 1 / powf(rope->theta, (float)(2 * i) / (float)rotated) / factor;
        const struct point step = point_at((double)angle);
        struct point at = {1, 0};
        for (size_t p = 0; p < positions; p++) {
            table[p * head_size + i] = (float)at.x * length;
            table[p * head_size + pairs + i] = (float)at.y * length;
            at = add_angles(at, step);
        }
    }
}

size_t rope_tables(const struct rope *rope) {
    return rope->theta == 0 ? 0 : rope->local_theta == 0 && !rope->long_factors ? 1 : 2;
}

void fill_rope_tables(const struct rope *rope, size_t head_size, size_t positions, float *tables) {
    struct rope other = {.theta = rope->local_theta, .rotated = rope->rotated};
    if (rope->long_factors) {
        other = *rope;
        other.factors = rope->long_factors;
    }
    if (rope_tables(rope) > 0)
        fill_rope_table(rope, head_size, positions, tables);
    if (rope_tables(rope) > 1)
        fill_rope_table(&other, head_size, positions, tables + positions * head_size);
}

/* Rotates one head. Pair i is values i * step and i * step + apart. */
static inline void rotate_head(const float *restrict cosines, const float *restrict sines,
                               size_t pairs, size_t step, size_t apart, float *restrict x) {
    for (size_t i = 0; i < pairs; i++) {
        const float a = x[i * step], b = x[i * step + apart];
        x[i * step] = a * cosines[i] - b * sines[i];
        x[i * step + apart] = b * cosines[i] + a * sines[i];
    }
}

void apply_rope(const struct rope *rope, const float *table, size_t tokens, size_t heads,
                size_t head_size, float *x, size_t ld) {
    const size_t pairs = rotated_size(rope, head_size) / 2;
    for (size_t t = 0; t < tokens; t++, table += head_size)
        for (size_t h = 0; h < heads; h++) {
            float *head = x + t * ld + h * head_size;
            if (rope->pairs == ROPE_NEIGHBOURS)
                rotate_head(table, table + pairs, pairs, 2, 1, head);
            else
                rotate_head(table, table + pairs, pairs, 1, pairs, head);
        }
}
