/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/rotary.h"

#include <math.h>

/* An angle as a point on the unit circle. */
struct point {
    double x, y;
};

/* For angles of at most 1 by the series of e^(i angle), of which 20 terms leave out 4e-19: sin and
 * cos of libm, which take any angle, are 6 KB in WebAssembly. */
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

void rotary_fill(float base, size_t head_size, size_t positions, float *table) {
    const size_t pairs = head_size / 2;
    for (size_t i = 0; i < pairs; i++) {
        /* In floats, as models are trained with. */
        const float step = 1 / powf(base, (float)(2 * i) / (float)head_size);
        const struct point by = point_at((double)step);
        struct point at = {1, 0};
        for (size_t p = 0; p < positions; p++) {
            table[p * head_size + i] = (float)at.x;
            table[p * head_size + pairs + i] = (float)at.y;
            at = add_angles(at, by);
        }
    }
}

void rotary_apply(const float *table, size_t tokens, size_t heads, size_t head_size, float *x,
                  size_t ld) {
    const size_t pairs = head_size / 2;
    for (size_t t = 0; t < tokens; t++, table += head_size) {
        const float *restrict cosines = table, *restrict sines = table + pairs;
        for (size_t h = 0; h < heads; h++) {
            float *restrict first = x + t * ld + h * head_size, *restrict second = first + pairs;
            for (size_t i = 0; i < pairs; i++) {
                const float a = first[i], b = second[i];
                first[i] = a * cosines[i] - b * sines[i];
                second[i] = b * cosines[i] + a * sines[i];
            }
        }
    }
}
