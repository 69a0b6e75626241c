/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/gathered_frames.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "formats/neurons_read.h"
#include "formats/schema.h"
#include "host/input_file.h"

/* The number of tokens after which a use counts half, those after which it is found anew what a
 * layer keeps, and the weight of uses from which on all are made smaller. */
enum { HALF_LIFE = 128, TOKENS_BETWEEN = 16 };
static const float MOST_WEIGHT = 1e30F;

enum { NO_FRAME = UINT16_MAX };

struct gathered_pool {
    atomic_flag busy;    /* a pass is at some layer */
    unsigned char *rows; /* of neurons that pass, as the file has them, each at its number */
    size_t bytes;
    atomic_bool failed;
    wisp_error error; /* the first since gathered_frames_begin */
    atomic_ullong needed, read, read_bytes;
};

struct gathered_frames {
    struct gathered_pool *pool;
    const struct directory *dir;
    const struct neuron_rows *rows;
    size_t neurons, row_bytes;
    size_t up_bytes, column_bytes; /* of packed rows and columns (kernels/gather.h) */
    unsigned char *scales;         /* [groups, gather_column_length]: 16-bit floats */
    uint64_t *sums;                /* [neurons]: checksums of rows */
    unsigned char *passes;         /* [neurons]: 1 if the pool has the row */
    uint16_t *frame;               /* [neurons]: NO_FRAME if it is not kept */
    float *use;                    /* [neurons] */
    float weight;                  /* of a use now */
    float least;                   /* of a neuron that is worth keeping */
    uint32_t tokens;               /* before that is found anew */
    size_t frames, taken, hand;  /* frames, those that were taken, the one that is looked at next */
    unsigned char *up, *columns; /* [frames] */
    uint16_t *neuron;            /* [frames] */
};

static const struct gathered_products products;

/* ---- opening -------------------------------------------------------------------------------- */

/* Returns the row of a neuron in the file. */
static uint64_t offset_of(const struct gathered_frames *f, size_t neuron) {
    const struct tensor *stored = f->rows->stored;
    const uint64_t place = f->rows->place ? f->rows->place[neuron] : neuron;
    const uint64_t hot = stored[HOT_ROWS].rows;
    return place < hot ? stored[HOT_ROWS].offset + place * f->row_bytes
                       : stored[COLD_ROWS].offset + (place - hot) * f->row_bytes;
}

static wisp_status find_rows(const struct directory *dir, size_t layer,
                             const struct neuron_rows **rows, wisp_error *error) {
    *rows = neurons_find_rows(dir, layer);
    if (*rows && (*rows)->shape.matrices == 2 && (*rows)->shape.format->elements > 1)
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, "memory",
                "the neurons of layer %zu are not rows of Q4_0 or Q8_0, so that single ones cannot "
                "be read: wisp convert --neurons makes them",
                layer);
}

static wisp_status open_pool(struct gathered_pool **pool, size_t bytes, wisp_error *error) {
    struct gathered_pool *p = *pool;
    if (!p) {
        p = *pool = memory_allocate_zeros(sizeof *p);
        if (!p)
            return fail_memory(error, sizeof *p);
        atomic_flag_clear(&p->busy);
    }
    if (bytes <= p->bytes)
        return WISP_OK;
    memory_free_zeros(p->rows);
    p->bytes = bytes;
    p->rows = memory_allocate_zeros(bytes);
    return p->rows ? WISP_OK : fail_memory(error, bytes);
}

/* Takes the scales of the packed groups of W_down, and checksums of the neurons' rows. */
static void take_over(struct gathered_frames *f, const struct gathered_ffn *ffn,
                      const struct neuron_bytes *bytes) {
    const size_t scales = 2 * gather_column_length(ffn->hidden_size);
    const size_t group = gather_group_bytes(ffn->down_code, ffn->hidden_size);
    for (size_t g = 0; g < f->neurons / GATHER_BLOCK; g++)
        memcpy(f->scales + g * scales, ffn->down + g * group, scales);
    for (size_t i = 0; i < f->neurons; i++) {
        f->frame[i] = NO_FRAME;
        f->sums[i] = checksum(neurons_find_part(bytes, i, 0), f->row_bytes);
    }
}

wisp_status gathered_frames_open(struct gathered_ffn *ffn, struct gathered_pool **pool,
                                 const struct directory *dir, size_t layer,
                                 struct tensor_cache *cache, wisp_error *error) {
    const size_t neurons = ffn->intermediate_size, size = ffn->hidden_size;
    const size_t scales = neurons / GATHER_BLOCK * 2 * gather_column_length(size);
    const struct neuron_rows *rows;
    struct neuron_bytes bytes;
    TRY(find_rows(dir, layer, &rows, error));
    TRY(neurons_find_bytes(dir, rows, cache, &bytes, error));
    TRY(open_pool(pool, neurons * (size_t)rows->shape.row_bytes, error));
    struct gathered_frames *f = ffn->frames = memory_allocate_zeros(sizeof *f);
    if (!f)
        return fail_memory(error, sizeof *f);
    *f = (struct gathered_frames){.pool = *pool,
                                  .dir = dir,
                                  .rows = rows,
                                  .neurons = neurons,
                                  .row_bytes = (size_t)rows->shape.row_bytes,
                                  .up_bytes = gather_row_bytes(ffn->up_code, size),
                                  .column_bytes = gather_column_bytes(ffn->down_code, size),
                                  .weight = 1};
    ffn->products = &products;
    f->scales = memory_allocate(scales);
    f->sums = memory_allocate(neurons * sizeof *f->sums);
    f->passes = memory_allocate_zeros(neurons);
    f->frame = memory_allocate(neurons * sizeof *f->frame);
    f->use = memory_allocate_zeros(neurons * sizeof *f->use);
    const size_t each = sizeof *f->sums + 1 + sizeof *f->frame + sizeof *f->use;
    if (!f->scales || !f->sums || !f->passes || !f->frame || !f->use)
        return fail_memory(error, scales + neurons * each);
    take_over(f, ffn, &bytes);
    memory_free_zeros(ffn->up);
    memory_free_zeros(ffn->down);
    ffn->up = ffn->down = NULL;
    ffn->bytes = scales + neurons * (each + sizeof *ffn->weights);
    return WISP_OK;
}

void gathered_frames_close(struct gathered_frames *f) {
    if (!f)
        return;
    memory_free(f->scales);
    memory_free(f->sums);
    memory_free_zeros(f->passes);
    memory_free(f->frame);
    memory_free_zeros(f->use);
    memory_free(f->up);
    memory_free(f->columns);
    memory_free(f->neuron);
    memory_free_zeros(f);
}

void gathered_pool_close(struct gathered_pool *pool) {
    if (pool)
        memory_free_zeros(pool->rows);
    memory_free_zeros(pool);
}

size_t gathered_pool_bytes(const struct gathered_pool *pool) {
    return 2 * pool->bytes;
}

struct gathered_counts gathered_pool_counts(struct gathered_pool *pool) {
    return (struct gathered_counts){.needed = atomic_load(&pool->needed),
                                    .read = atomic_load(&pool->read),
                                    .read_bytes = atomic_load(&pool->read_bytes)};
}

wisp_status gathered_frames_keep(struct gathered_ffn *ffn, uint64_t bytes, wisp_error *error) {
    struct gathered_frames *f = ffn->frames;
    const size_t each = f->up_bytes + f->column_bytes + sizeof *f->neuron;
    const uint64_t most = bytes > GATHER_SLACK ? (bytes - GATHER_SLACK) / each : 0;
    f->frames = most < f->neurons ? (size_t)most : f->neurons;
    if (f->frames == 0)
        return WISP_OK;
    f->up = memory_allocate(f->frames * f->up_bytes + GATHER_SLACK);
    f->columns = memory_allocate(f->frames * f->column_bytes);
    f->neuron = memory_allocate(f->frames * sizeof *f->neuron);
    ffn->bytes += f->frames * each + GATHER_SLACK;
    return f->up && f->columns && f->neuron ? WISP_OK : fail_memory(error, f->frames * each);
}

/* ---- packing -------------------------------------------------------------------------------- */

/* Returns the row of a neuron that passes. */
static const unsigned char *passing(const struct gathered_frames *f, size_t neuron) {
    return f->pool->rows + neuron * f->row_bytes;
}

/* Packs the row of W_up of a neuron that passes. */
static void pack_up(const struct gathered_ffn *ffn, size_t neuron, unsigned char *packed) {
    gather_pack_row(ffn->up_code, passing(ffn->frames, neuron), ffn->hidden_size, packed);
}

/* Packs outputs [first, end) of the column of W_down of a neuron that passes. `first` is a multiple
 * of GATHER_STRIP. In the file codes of 4 bits are in pairs of neighbours. */
static void pack_column(const struct gathered_ffn *ffn, size_t neuron, size_t first, size_t end,
                        unsigned char *packed) {
    enum { HALF = GATHER_STRIP / 2 };
    const struct neuron_shape *shape = &ffn->frames->rows->shape;
    const unsigned char *column = passing(ffn->frames, neuron) + shape->part_bytes;
    if (ffn->down_code == GATHER_Q8_0) {
        memcpy(packed, column + first, end - first);
        memset(packed + (end - first), 0, gather_column_length(end - first) - (end - first));
        return;
    }
    for (size_t c = first; c < end; c += GATHER_STRIP, packed += HALF) {
        unsigned char strip[HALF] = {0};
        memcpy(strip, column + c / 2, smaller(HALF, (end - c) / 2));
        for (size_t i = 0; i < HALF / 2; i++) {
            const unsigned char low = strip[i], high = strip[i + HALF / 2];
            packed[2 * i] = (unsigned char)((low & 15) | (high & 15) << 4);
            packed[2 * i + 1] = (unsigned char)(low >> 4 | (high & 0xF0));
        }
    }
}

/* ---- a pass at a layer ---------------------------------------------------------------------- */

void gathered_frames_begin(const struct gathered_ffn *ffn) {
    struct gathered_pool *pool = ffn->frames->pool;
    while (atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire))
        continue;
    atomic_store(&pool->failed, false);
}

/* Returns the frame for a neuron that passes, or NO_FRAME if it is not worth one. */
static uint16_t find_frame(struct gathered_frames *f, size_t neuron) {
    if (f->taken < f->frames)
        return (uint16_t)f->taken++;
    for (size_t i = 0; i < f->frames && f->use[neuron] > f->least; i++) {
        const size_t at = f->hand;
        f->hand = at + 1 < f->frames ? at + 1 : 0;
        if (f->use[f->neuron[at]] < f->least)
            return (uint16_t)at;
    }
    return NO_FRAME;
}

static void keep(const struct gathered_ffn *ffn, size_t neuron) {
    struct gathered_frames *f = ffn->frames;
    const bool is_full = f->taken == f->frames;
    const uint16_t frame = f->frames > 0 ? find_frame(f, neuron) : NO_FRAME;
    if (frame == NO_FRAME)
        return;
    if (is_full)
        f->frame[f->neuron[frame]] = NO_FRAME;
    f->frame[neuron] = frame;
    f->neuron[frame] = (uint16_t)neuron;
    pack_up(ffn, neuron, f->up + frame * f->up_bytes);
    pack_column(ffn, neuron, 0, ffn->hidden_size, f->columns + frame * f->column_bytes);
}

/* Gives the next token's uses more weight, as if those before had lost some. */
static void age(struct gathered_frames *f) {
    f->weight *= exp2f(1.0F / (float)HALF_LIFE);
    for (size_t i = 0; i < f->neurons && f->weight > MOST_WEIGHT; i++)
        f->use[i] /= f->weight;
    if (f->weight > MOST_WEIGHT) {
        f->least /= f->weight;
        f->weight = 1;
    }
    if (f->tokens-- > 0)
        return;
    f->tokens = TOKENS_BETWEEN - 1;
    f->least = f->frames > 0 ? gathered_select(f->use, f->neurons, f->frames) : 0;
}

void gathered_frames_end(const struct gathered_ffn *ffn) {
    struct gathered_frames *f = ffn->frames;
    age(f);
    for (size_t i = 0; i < f->neurons; i++)
        if (f->passes[i]) {
            f->passes[i] = 0;
            keep(ffn, i);
        }
    atomic_flag_clear_explicit(&f->pool->busy, memory_order_release);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Neurons list [first, end) that are absent, and follow each other in the file. */
struct run {
    size_t first, end;
};

static bool is_absent(const struct gathered_frames *f, size_t neuron) {
    return f->frame[neuron] == NO_FRAME && !f->passes[neuron];
}

/* Returns the first run of list [from, n); first is n if there is none. */
static struct run next_run(const struct gathered_frames *f, const uint16_t *list, size_t n,
                           size_t from) {
    struct run run = {.first = from};
    while (run.first < n && !is_absent(f, list[run.first]))
        run.first++;
    run.end = run.first < n ? run.first + 1 : n;
    while (run.end < n && list[run.end] == list[run.end - 1] + 1 && is_absent(f, list[run.end]) &&
           offset_of(f, list[run.end]) == offset_of(f, list[run.end - 1]) + f->row_bytes)
        run.end++;
    return run;
}

static wisp_status read_run(const struct gathered_frames *f, const uint16_t *list, struct run run,
                            wisp_error *error) {
    const struct tensor *stored =
        &f->rows->stored[f->rows->stored[HOT_ROWS].bytes > 0 ? HOT_ROWS : COLD_ROWS];
    const size_t neuron = list[run.first], n = run.end - run.first;
    unsigned char *to = f->pool->rows + neuron * f->row_bytes;
    TRY(source_read(&f->dir->sources[f->rows->source], stored->name, offset_of(f, neuron), to,
                    n * f->row_bytes, error));
    for (size_t i = 0; i < n; i++, to += f->row_bytes)
        if (checksum(to, f->row_bytes) != f->sums[neuron + i])
            return fail(error, WISP_ERROR_IO, f->dir->file, stored->name,
                        "the file changed after it was opened: neuron %zu differs", neuron + i);
    memset(f->passes + neuron, 1, n);
    atomic_fetch_add(&f->pool->read, n);
    atomic_fetch_add(&f->pool->read_bytes, n * f->row_bytes);
    return WISP_OK;
}

/* Reads those of neurons list [n] that are absent. The system is told of all before the first is
 * read, so that their reads go on side by side. */
static wisp_status read_absent(const struct gathered_frames *f, const uint16_t *list, size_t n,
                               wisp_error *error) {
    const wisp_source *source = &f->dir->sources[f->rows->source];
    struct run run;
    for (run = next_run(f, list, n, 0); run.first < n && file_source_is(source);
         run = next_run(f, list, n, run.end))
        file_source_expect(source, offset_of(f, list[run.first]),
                           (run.end - run.first) * f->row_bytes);
    for (run = next_run(f, list, n, 0); run.first < n; run = next_run(f, list, n, run.end))
        TRY(read_run(f, list, run, error));
    return WISP_OK;
}

/* ---- products ------------------------------------------------------------------------------- */

enum { ROWS_AT_A_TIME = 4 }; /* that are packed to be multiplied */

/* Working memory of multiply_rows. */
struct scratch {
    uint16_t *frames,
        *places;           /* [neurons]: of those that are kept, and where they are in the list */
    float *y;              /* [neurons] */
    unsigned char *packed; /* [ROWS_AT_A_TIME] rows */
};

static void take_scratch(struct scratch *s, struct workspace *space, size_t hidden_size,
                         size_t neurons) {
    s->frames = workspace_take(space, 2, neurons, sizeof *s->frames);
    s->places = s->frames + neurons;
    s->y = workspace_take(space, 1, neurons, sizeof *s->y);
    s->packed = workspace_take(
        space, 1, ROWS_AT_A_TIME * gather_row_bytes(GATHER_Q8_0, hidden_size) + GATHER_SLACK, 1);
}

size_t gathered_frames_workspace_bytes(size_t hidden_size, size_t intermediate_size) {
    struct workspace measured = {0};
    struct scratch s = {0};
    take_scratch(&s, &measured, hidden_size, intermediate_size);
    return measured.used;
}

/* Multiplies the neurons of the list that pass. */
static void multiply_passing(const struct gathered_ffn *ffn, const struct gather_input *x,
                             const uint16_t *list, size_t n, unsigned char *packed, float *y) {
    static const uint16_t all[ROWS_AT_A_TIME] = {0, 1, 2, 3};
    const struct gathered_frames *f = ffn->frames;
    size_t places[ROWS_AT_A_TIME], count = 0;
    float sums[ROWS_AT_A_TIME];
    for (size_t i = 0; i < n; i++) {
        if (f->frame[list[i]] == NO_FRAME) {
            pack_up(ffn, list[i], packed + count * f->up_bytes);
            places[count++] = i;
        }
        if (count < ROWS_AT_A_TIME && (i + 1 < n || count == 0))
            continue;
        ffn->kernels->rows(x, ffn->up_code, packed, all, count, ffn->hidden_size, sums);
        for (size_t k = 0; k < count; k++)
            y[places[k]] = sums[k];
        count = 0;
    }
}

static void multiply_rows(const struct gathered_ffn *ffn, const struct gather_input *x,
                          const uint16_t *list, size_t n, struct workspace space, float *y) {
    struct gathered_frames *f = ffn->frames;
    struct scratch s;
    size_t kept = 0;
    wisp_error error;
    take_scratch(&s, &space, ffn->hidden_size, ffn->intermediate_size);
    if (read_absent(f, list, n, &error) != WISP_OK && !atomic_exchange(&f->pool->failed, true))
        f->pool->error = error;
    atomic_fetch_add(&f->pool->needed, n);
    for (size_t i = 0; i < n; i++) {
        const uint16_t frame = f->frame[list[i]];
        f->use[list[i]] += f->weight;
        s.frames[kept] = frame;
        s.places[kept] = (uint16_t)i;
        kept += frame != NO_FRAME;
    }
    ffn->kernels->rows(x, ffn->up_code, f->up, s.frames, kept, ffn->hidden_size, s.y);
    for (size_t i = 0; i < kept; i++)
        y[s.places[i]] = s.y[i];
    multiply_passing(ffn, x, list, n, s.packed, y);
}

wisp_status gathered_frames_status(const struct gathered_ffn *ffn, wisp_error *error) {
    const struct gathered_pool *pool = ffn->frames->pool;
    if (!atomic_load(&pool->failed))
        return WISP_OK;
    *error = pool->error;
    return error->status;
}

static void add_columns(const struct gathered_ffn *ffn, const struct gather_active *active,
                        size_t first, size_t end, float *y) {
    enum { OUTPUTS = 512, MOST_BYTES = OUTPUTS * 2 + GATHER_BLOCK * OUTPUTS };
    _Alignas(64) unsigned char packed[MOST_BYTES]; /* a group of so many outputs */
    const struct gathered_frames *f = ffn->frames;
    const size_t length = gather_column_length(ffn->hidden_size);
    for (size_t c = first; c < end; c += OUTPUTS) {
        const size_t n = smaller(OUTPUTS, end - c), padded = gather_column_length(n);
        const size_t bytes = gather_column_bytes(ffn->down_code, n);
        const size_t skipped = gather_column_bytes(ffn->down_code, c);
        for (size_t g = 0; g < f->neurons / GATHER_BLOCK; g++) {
            const struct gather_active *a = &active[g];
            memcpy(packed, f->scales + 2 * (g * length + c), 2 * padded);
            for (size_t i = 0; i < a->n; i++) {
                const size_t neuron = g * GATHER_BLOCK + a->index[i];
                unsigned char *to = packed + 2 * padded + a->index[i] * bytes;
                if (f->frame[neuron] == NO_FRAME)
                    pack_column(ffn, neuron, c, c + n, to);
                else
                    memcpy(to, f->columns + f->frame[neuron] * f->column_bytes + skipped, bytes);
            }
            ffn->kernels->columns(a, 1, ffn->down_code, packed, n, 0, n, y + c);
        }
    }
}

static const struct gathered_products products = {.rows = multiply_rows, .columns = add_columns};
