/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/image_pixels.h"

#include <math.h>
#include <string.h>

enum { CHANNELS = 3, WEIGHT_BITS = 22 };

/* One side of an image: `from` pixels become `to`, of which those from `first` on are kept. */
struct axis {
    uint32_t from, to, first;
};

/* The weights of the pixels that each kept pixel is made of. */
struct filter {
    uint32_t *starts, *counts; /* [side]: pixels starts[i] to starts[i] + counts[i] - 1 */
    int32_t *weights;          /* [side, most] */
    size_t most;
};

/* The working memory. */
struct parts {
    struct filter x, y;
    double *sums;  /* [the larger `most`] */
    uint8_t *rows; /* [rows that the second pass reads, side, CHANNELS] */
};

static struct axis axis_of(uint32_t own, uint32_t other, const struct image_fit *fit) {
    const uint32_t side = fit->side;
    const uint32_t to = !fit->crops || own <= other
                            ? side
                            : (uint32_t)((uint64_t)side * own / other); /* which is rounded down */
    return (struct axis){.from = own, .to = to, .first = (to - side) / 2};
}

/* Returns the factor by which the filter is widened. */
static double width_of(const struct axis *axis) {
    return fmax((double)axis->from / (double)axis->to, 1);
}

static double cubic(double x) {
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double triangle(double x) {
    return fmax(1 - fabs(x), 0);
}

/* A weight by the distance of pixels, which is 0 from `support` on. */
struct image_filter {
    const char *name;
    double support;
    double (*weight)(double x);
};

const struct image_filter *image_filter_named(const char *name) {
    static const struct image_filter filters[] = {{"bicubic", 2, cubic}, {"bilinear", 1, triangle}};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (strcmp(filters[i].name, name) == 0)
            return &filters[i];
    return NULL;
}

static struct filter take_filter(const struct axis *axis, const struct image_fit *fit,
                                 struct workspace *space) {
    struct filter f = {.most = (size_t)ceil(fit->filter->support * width_of(axis)) * 2 + 1};
    f.starts = workspace_take(space, 1, fit->side, sizeof *f.starts);
    f.counts = workspace_take(space, 1, fit->side, sizeof *f.counts);
    f.weights = workspace_take(space, fit->side, f.most, sizeof *f.weights);
    return f;
}

static struct parts take_parts(const struct axis *x, const struct axis *y,
                               const struct image_fit *fit, struct workspace *space) {
    struct parts p = {.x = take_filter(x, fit, space), .y = take_filter(y, fit, space)};
    p.sums = workspace_take(space, 1, p.x.most > p.y.most ? p.x.most : p.y.most, sizeof *p.sums);
    p.rows = workspace_take(space, y->from, (size_t)fit->side * CHANNELS, 1);
    return p;
}

size_t image_fit_bytes(const wisp_image *image, const struct image_fit *fit) {
    const struct axis x = axis_of(image->width, image->height, fit);
    const struct axis y = axis_of(image->height, image->width, fit);
    struct workspace measured = {0};
    take_parts(&x, &y, fit, &measured);
    return measured.used;
}

/* Writes the weights of the kept pixels. `sums` has room for those of one pixel. */
static void fill(const struct filter *f, const struct axis *axis, const struct image_fit *fit,
                 double *sums) {
    const double scale = (double)axis->from / (double)axis->to, width = width_of(axis);
    const double support = fit->filter->support * width, step = 1 / width;
    for (uint32_t i = 0; i < fit->side; i++) {
        const double center = (axis->first + i + 0.5) * scale;
        const double low = center - support + 0.5, high = center + support + 0.5;
        const uint32_t start = low > 0 ? (uint32_t)low : 0;
        const uint32_t end = high < axis->from ? (uint32_t)high : axis->from;
        double total = 0;
        for (uint32_t j = start; j < end; j++)
            total += sums[j - start] = fit->filter->weight((j - center + 0.5) * step);
        f->starts[i] = start;
        f->counts[i] = end - start;
        for (uint32_t j = 0; j < end - start; j++) {
            double weight = sums[j];
            if (total != 0)
                weight /= total;
            weight *= 1 << WEIGHT_BITS;
            f->weights[i * f->most + j] = (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
        }
    }
}

static uint8_t byte_of(int32_t sum) {
    const int32_t value = sum >> WEIGHT_BITS; /* of a negative one some number below 0 */
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Writes a pixel that is made of pixels `stride` bytes apart. */
static void mix(const struct filter *f, size_t i, const uint8_t *pixels, size_t stride,
                uint8_t *out) {
    const int32_t *weights = f->weights + i * f->most;
    int32_t sums[CHANNELS] = {1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1),
                              1 << (WEIGHT_BITS - 1)};
    pixels += f->starts[i] * stride;
    for (uint32_t j = 0; j < f->counts[i]; j++, pixels += stride)
        for (size_t c = 0; c < CHANNELS; c++)
            sums[c] += pixels[c] * weights[j];
    for (size_t c = 0; c < CHANNELS; c++)
        out[c] = byte_of(sums[c]);
}

void image_make_square(const wisp_image *image, const struct image_fit *fit, uint8_t *out,
                       struct workspace space) {
    const struct axis x = axis_of(image->width, image->height, fit);
    const struct axis y = axis_of(image->height, image->width, fit);
    const struct parts p = take_parts(&x, &y, fit, &space);
    const size_t side = fit->side, row = side * CHANNELS;
    fill(&p.x, &x, fit, p.sums);
    fill(&p.y, &y, fit, p.sums);
    const size_t first = p.y.starts[0], end = p.y.starts[side - 1] + p.y.counts[side - 1];
    for (size_t r = first; r < end; r++) {
        const uint8_t *pixels = image->pixels + r * image->width * CHANNELS;
        if (x.from == x.to) /* Pillow leaves out a pass that changes no size */
            memcpy(p.rows + r * row, pixels + (size_t)x.first * CHANNELS, row);
        else
            for (size_t i = 0; i < side; i++)
                mix(&p.x, i, pixels, CHANNELS, p.rows + r * row + i * CHANNELS);
    }
    for (size_t i = 0; i < side; i++)
        if (y.from == y.to)
            memcpy(out + i * row, p.rows + (y.first + i) * row, row);
        else
            for (size_t j = 0; j < side; j++)
                mix(&p.y, i, p.rows + j * CHANNELS, row, out + i * row + j * CHANNELS);
}
