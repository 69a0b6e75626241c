/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/index_build.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/index_pieces.h"
#include "cli/pieces.h"
#include "cli/progress.h"

/* With --resume, the most records between two times when the index may be saved: with a large model
 * BATCH_RECORDS take minutes. */
enum { RESUMED_RECORDS = 64 };

/* Pieces on their way into the index. Their ids and metadata are one after the other in a stream.
 */
struct run {
    struct index_build *build;
    const wisp_model *model;
    wisp_session *session;
    wisp_index *index;
    wisp_embed_options options;
    struct batch *batch;
    float *rows;               /* [BATCH_RECORDS, dimensions] */
    wisp_text *ids, *metadata; /* [BATCH_RECORDS] */
    struct piece *pieces;      /* [n_pieces], of BATCH_RECORDS */
    wisp_text *texts;          /* likewise */
    size_t n_pieces;
    struct image_embedder images; /* with --images */
    struct progress progress;
    size_t done, faults;    /* pieces that were added; malformed records */
    bool any_there;         /* with --resume: the index had some of the texts */
    bool is_same;           /* with --resume: it has all pieces so far of a record as they are */
    double saved_at, saved; /* with --resume: when the index was saved, and the seconds it took */
};

int save_index(wisp_index *index, const char *path) {
    wisp_index_info info;
    wisp_error error;
    if (was_interrupted())
        return EXIT_INTERRUPTED;
    wisp_index_get_info(index, &info);
    if ((info.rows - info.count > info.rows / 4 && wisp_index_compact(index, &error) != WISP_OK) ||
        wisp_index_save(index, path, &error) != WISP_OK)
        return complain_of(&error);
    return EXIT_GOOD;
}

/* Sets the ids and metadata of the pieces, which are in *bytes; the caller frees it. */
static int describe(struct run *run, char **bytes) {
    const struct index_build *b = run->build;
    size_t size, ends[2 * BATCH_RECORDS];
    *bytes = NULL;
    FILE *stream = open_memstream(bytes, &size);
    for (size_t i = 0; stream && i < run->n_pieces; i++) {
        write_piece(stream, &run->pieces[i], input_member(&b->input), b->no_text, &ends[2 * i]);
        ends[2 * i + 1] = (size_t)ftello(stream);
    }
    if (!stream || !close_memstream(stream, bytes))
        return complain_of_memory();
    for (size_t i = 0, at = 0; i < run->n_pieces; at = ends[2 * i + 1], i++) {
        run->ids[i] = (wisp_text){*bytes + at, ends[2 * i] - at};
        run->metadata[i] = (wisp_text){*bytes + ends[2 * i], ends[2 * i + 1] - ends[2 * i]};
    }
    return EXIT_GOOD;
}

/* Embeds the pieces that are images, each of a record, and leaves out bad ones. */
static int embed_images(struct run *run) {
    const size_t n = run->n_pieces, dimensions = run->options.dimensions;
    struct record *records[IMAGE_RECORDS] = {NULL};
    for (size_t i = 0; i < n; i++)
        records[i] = &run->batch->records[run->pieces[i].record - run->batch->records];
    const int code = images_embed(&run->images, run->batch, records, n, dimensions, run->rows);
    run->n_pieces = 0;
    for (size_t i = 0; i < n; i++) {
        if (records[i]->fault)
            continue;
        memmove(run->rows + run->n_pieces * dimensions, run->rows + i * dimensions,
                dimensions * sizeof *run->rows);
        run->pieces[run->n_pieces++] = run->pieces[i];
    }
    run->faults += n - run->n_pieces;
    return code;
}

static int embed_texts(struct run *run) {
    wisp_error error;
    return wisp_embed(run->session, run->texts, run->n_pieces, &run->options, run->rows, &error) ==
                   WISP_OK
               ? EXIT_GOOD
               : complain_of(&error);
}

/* Adds the pieces to the index. */
static int add_pieces(struct run *run) {
    wisp_error error;
    char *bytes = NULL;
    int code = run->build->images ? embed_images(run) : embed_texts(run);
    if (code == EXIT_GOOD)
        code = describe(run, &bytes);
    if (code == EXIT_GOOD && wisp_index_add(run->index, run->ids, run->metadata, run->rows,
                                            run->n_pieces, &error) != WISP_OK)
        code = complain_of(&error);
    free(bytes);
    run->done += run->n_pieces;
    run->n_pieces = 0;
    progress_show(&run->progress, run->done, input_fraction(&run->build->input));
    return code;
}

static int add_piece(struct run *run, struct piece piece) {
    run->pieces[run->n_pieces] = piece;
    run->texts[run->n_pieces++] = piece.text;
    return run->n_pieces == BATCH_RECORDS ? add_pieces(run) : EXIT_GOOD;
}

/* Removes what an earlier version of a record is in the index: itself, or its pieces. */
static int remove_old_pieces(struct run *run, const struct record *record) {
    size_t removed = 0;
    int code = EXIT_GOOD;
    for (size_t i = 0; code == EXIT_GOOD && (i < 2 || removed > 0); i++) {
        wisp_text id;
        char *bytes;
        wisp_error error;
        code = make_piece_id(record, i, &id, &bytes);
        if (code == EXIT_GOOD && wisp_index_remove(run->index, &id, 1, &removed, &error) != WISP_OK)
            code = complain_of(&error);
        free(bytes);
    }
    return code;
}

/* Finds whether the index has a record, or a piece of it. */
static int find_piece(const struct run *run, const struct record *record, size_t number,
                      bool *is_there) {
    wisp_text id;
    char *bytes;
    const int code = make_piece_id(record, number, &id, &bytes);
    *is_there = code == EXIT_GOOD && wisp_index_find(run->index, id, &(uint64_t){0});
    free(bytes);
    return code;
}

/* Compares a piece with what the index has by its id, which may be of an earlier version of the
 * input. */
static int compare_piece(struct run *run, struct piece piece) {
    const struct index_build *b = run->build;
    size_t size, id_end = 0;
    uint64_t row;
    wisp_text id, kept;
    char *bytes = NULL;
    FILE *stream = open_memstream(&bytes, &size);
    if (stream)
        write_piece(stream, &piece, input_member(&b->input), b->no_text, &id_end);
    if (!stream || !close_memstream(stream, &bytes))
        return complain_of_memory();
    run->is_same = run->is_same && wisp_index_find(run->index, (wisp_text){bytes, id_end}, &row) &&
                   wisp_index_get(run->index, row, &id, &kept) && kept.length == size - id_end &&
                   memcmp(kept.bytes, bytes + id_end, kept.length) == 0;
    free(bytes);
    return EXIT_GOOD;
}

/* Hands a record to `take`: with --chunk in pieces that the model can read. *last is the number of
 * the last piece; 0: the record is whole. */
static int divide(struct run *run, const struct record *record,
                  int (*take)(struct run *run, struct piece piece), size_t *last) {
    wisp_text left = record->text;
    int code;
    *last = 0;
    do {
        size_t length = left.length;
        wisp_error error;
        if (run->build->chunk && left.length > 0 &&
            piece_length(run->model, run->options.prompt, left, &length, &error) != WISP_OK)
            return complain_of(&error);
        *last += *last > 0 || length < left.length;
        code = take(run, (struct piece){record, {left.bytes, length}, *last});
        left = (wisp_text){left.bytes + length, left.length - length};
    } while (code == EXIT_GOOD && left.length > 0);
    return code;
}

/* With --resume, finds whether the index has a record, and whether as it is now. */
static int compare_record(struct run *run, const struct record *record, bool *is_there) {
    size_t last = 0;
    bool has_more = false;
    int code = find_piece(run, record, 0, is_there);
    if (code == EXIT_GOOD && !*is_there)
        code = find_piece(run, record, 1, is_there);
    run->is_same = *is_there;
    if (code == EXIT_GOOD && *is_there)
        code = divide(run, record, compare_piece, &last);
    if (code == EXIT_GOOD && last > 0)
        code = find_piece(run, record, last + 1, &has_more);
    run->is_same = run->is_same && !has_more;
    run->any_there |= *is_there;
    return code;
}

/* Returns whether a record can be added. Counts and complains of another; the input has complained
 * of those without a text. */
static bool is_good(struct run *run, const struct record *record) {
    const char *fault = record->fault ? NULL : piece_id_fault(record);
    if (fault)
        complain("%s: line %zu: %s", record->name, record->line, fault);
    run->faults += fault || record->fault;
    return !fault && !record->fault;
}

static int add_record(struct run *run, const struct record *record) {
    const struct index_build *b = run->build;
    bool is_there = false;
    size_t last;
    if (!is_good(run, record))
        return b->input.keep_malformed ? EXIT_GOOD : EXIT_INPUT;
    int code = b->resume ? compare_record(run, record, &is_there) : EXIT_GOOD;
    if (code == EXIT_GOOD && is_there && run->is_same)
        return EXIT_GOOD;
    if (code == EXIT_GOOD && (is_there || (!b->is_new && b->chunk)))
        code = remove_old_pieces(run, record);
    if (code == EXIT_GOOD)
        code = divide(run, record, add_piece, &last);
    /* A later record with the same id must find this one, and not what it replaces. */
    return code == EXIT_GOOD && is_there && run->n_pieces > 0 ? add_pieces(run) : code;
}

static int add_batch(struct run *run) {
    int code = EXIT_GOOD;
    for (size_t i = 0; i < run->batch->n && code == EXIT_GOOD; i++)
        code = add_record(run, &run->batch->records[i]);
    return code == EXIT_GOOD && run->n_pieces > 0 ? add_pieces(run) : code;
}

/* With --resume, saves the index between two batches, but so seldom that it takes at most a tenth
 * of the time. */
static int save_at_times(struct run *run) {
    const double now = clock_seconds();
    if (!run->build->resume || run->done == 0 || now - run->saved_at < 10 * run->saved)
        return EXIT_GOOD;
    const int code = save_index(run->index, run->build->path);
    run->saved_at = clock_seconds();
    run->saved = run->saved_at - now;
    return code;
}

static int add_all(struct run *run) {
    struct input *input = &run->build->input;
    int code;
    progress_start(&run->progress, run->build->images ? "images" : "texts");
    do {
        if (run->build->images)
            input->most = IMAGE_RECORDS;
        else if (run->build->resume)
            input->most = RESUMED_RECORDS;
        code = input_next(input, run->batch);
        if (code == EXIT_GOOD && run->build->images)
            code = images_name(run->batch);
        if (code == EXIT_GOOD && run->batch->n > 0)
            code = add_batch(run);
        if (code == EXIT_GOOD)
            code = save_at_times(run);
    } while (code == EXIT_GOOD && run->batch->n > 0);
    progress_end(&run->progress);
    if (code == EXIT_GOOD && run->build->is_new && run->done == 0 && !run->any_there) {
        complain("index build: the input has no %s, and no index is written",
                 run->build->images ? "images" : "texts");
        code = EXIT_INPUT;
    }
    if (code == EXIT_GOOD && !run->build->images)
        warn_of_cut_texts(run->session, run->model, 0, "; --chunk divides them into pieces");
    return code;
}

/* Takes the memory of a batch, and adds all records. */
static int add_with_memory(struct run *run) {
    wisp_index_info info;
    wisp_index_get_info(run->index, &info);
    run->options.dimensions = info.dimensions;
    run->batch = calloc(1, sizeof *run->batch);
    run->rows = calloc(BATCH_RECORDS, info.dimensions * sizeof *run->rows);
    run->ids = calloc(BATCH_RECORDS, sizeof *run->ids);
    run->metadata = calloc(BATCH_RECORDS, sizeof *run->metadata);
    run->pieces = calloc(BATCH_RECORDS, sizeof *run->pieces);
    run->texts = calloc(BATCH_RECORDS, sizeof *run->texts);
    const bool has_memory =
        run->batch && run->rows && run->ids && run->metadata && run->pieces && run->texts;
    const int code = has_memory ? add_all(run) : complain_of_memory();
    batch_close(run->batch);
    free(run->rows);
    free(run->ids);
    free(run->metadata);
    free(run->pieces);
    free(run->texts);
    return code;
}

int index_build(struct index_build *build, wisp_index **index, size_t *added, size_t *faults) {
    struct run run = {.build = build};
    wisp_model *model = NULL;
    wisp_error error;
    int code = open_model(&build->model, &model, &run.session);
    if (code == EXIT_GOOD) {
        watch_signals(run.session);
        run.model = model;
        code = choose_prompt(model, &build->prompt, &run.options.prompt);
    }
    if (code == EXIT_GOOD && (*index ? wisp_index_check_model(*index, run.session, &error)
                                     : wisp_index_create(run.session, build->dimensions,
                                                         build->kind, index, &error)) != WISP_OK)
        code = complain_of(&error);
    run.index = *index;
    if (code == EXIT_GOOD && build->images)
        code = images_open(&run.images, model, threads_of(&build->model));
    if (code == EXIT_GOOD)
        code = add_with_memory(&run);
    watch_signals(NULL);
    images_close(&run.images);
    wisp_session_close(run.session);
    wisp_model_close(model);
    *added = run.done;
    *faults = run.faults;
    return code;
}
