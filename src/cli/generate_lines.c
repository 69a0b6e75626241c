/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/generate_lines.h"

#include <stdlib.h>
#include <string.h>

#include "cli/input.h"
#include "cli/progress.h"

/* The text of a prompt as far as it was generated. */
struct line {
    struct lines *all;
    const struct record *record;
    char *text, *pieces; /* what the streams have written */
    size_t text_length, pieces_length;
    FILE *text_stream, *piece_stream;
    size_t n_pieces;
    bool done;
    wisp_generation result;
    char *failure; /* why there is no text; NULL: there is one */
};

struct lines {
    struct line *line; /* [n] */
    size_t n, written;
    bool logprobs;
    struct generate_totals *totals;
    struct progress progress;
    size_t failures; /* lines without a text, of all batches */
    int code;        /* of writing */
};

/* The members that are not copied from the input: the prompt, and those that this program
 * writes. */
static const char *const members[] = {"prompt", "text",   "prompt_tokens", "tokens",
                                      "end",    "pieces", "error"};

static bool is_member(const char *key) {
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(key, members[i]) == 0)
            return true;
    return false;
}

void print_generation(const wisp_generation *result, wisp_text text) {
    fprintf(program_output,
            "\"prompt_tokens\":%zu,\"tokens\":%zu,\"end\":\"%s\",\"text\":", result->prompt_tokens,
            result->tokens, wisp_end_name(result->end));
    print_json_string(program_output, text);
}

static void write_line(const struct line *line, bool logprobs) {
    const struct json *object = line->record->object;
    FILE *stream = program_output;
    fputc('{', stream);
    for (const struct json *field = object ? object->first : NULL; field; field = field->next)
        if (!is_member(field->key)) {
            print_member(stream, field);
            fputc(',', stream);
        }
    if (line->failure) {
        fputs("\"error\":", stream);
        print_json_string(stream, wisp_text_of(line->failure));
        fputs("}\n", stream);
        return;
    }
    print_generation(&line->result, (wisp_text){line->text, line->text_length});
    if (logprobs) {
        fputs(",\"pieces\":[", stream);
        fwrite(line->pieces, 1, line->pieces_length, stream);
        fputc(']', stream);
    }
    fputs("}\n", stream);
}

static bool take_piece(void *context, const wisp_piece *piece) {
    struct line *line = context;
    fwrite(piece->text.bytes, 1, piece->text.length, line->text_stream);
    if (!line->all->logprobs || piece->id < 0)
        return line->all->code == EXIT_GOOD;
    fprintf(line->piece_stream, "%s{\"id\":%d,\"logprob\":%.6g,\"likely\":[",
            line->n_pieces++ ? "," : "", piece->id, (double)piece->logprob);
    for (size_t i = 0; i < piece->likely_count; i++)
        fprintf(line->piece_stream, "%s[%d,%.6g]", i ? "," : "", piece->likely[i].id,
                (double)piece->likely[i].value);
    fputs("]}", line->piece_stream);
    return line->all->code == EXIT_GOOD;
}

/* Flushes a stream of open_memstream. Returns false if there was no memory for all of it. */
static bool is_complete(FILE *stream) {
    return fflush(stream) == 0 && !ferror(stream);
}

/* Writes the lines that are done and before which all are. */
static void write_done(struct lines *all) {
    for (; all->written < all->n && all->line[all->written].done; all->written++) {
        const struct line *first = &all->line[all->written];
        if (!is_complete(first->text_stream) || !is_complete(first->piece_stream))
            all->code = complain_of_memory();
        if (all->code == EXIT_GOOD)
            write_line(first, all->logprobs);
        if (all->code == EXIT_GOOD)
            all->code = finish_output();
    }
    progress_show(&all->progress, all->totals->texts, -1);
}

static void take_end(void *context, const wisp_generation *result) {
    struct line *line = context;
    struct lines *all = line->all;
    line->done = true;
    line->result = *result;
    all->totals->texts++;
    all->totals->prompt_tokens += result->prompt_tokens;
    all->totals->reused_tokens += result->reused_tokens;
    all->totals->tokens += result->tokens;
    write_done(all);
}

/* Takes the error of a line, which replaces its text. An error of an option, which holds
 * for all lines, ends the run. */
static void take_failure(void *context, const wisp_error *error) {
    struct line *line = context;
    struct lines *all = line->all;
    const size_t file = strlen(error->file);
    const bool is_own = strcmp(error->field, "prompt") == 0 || strcmp(error->field, "grammar") == 0;
    const char *message = error->message;
    if (file > 0 && strncmp(message, error->file, file) == 0 && message[file] == ':')
        message += file + strspn(message + file, ": ");
    if (!is_own && all->code == EXIT_GOOD)
        all->code = complain_of(error);
    line->done = true;
    line->failure = strdup(message);
    if (!line->failure)
        all->code = complain_of_memory();
    if (all->code == EXIT_GOOD)
        complain("%s: line %zu: %s", line->record->name, line->record->line, message);
    all->failures++;
    write_done(all);
}

/* Generates the texts of one batch of the input. */
static int generate_batch(wisp_session *session, const wisp_generate_options *options,
                          const struct batch *batch, size_t at_once, struct lines *all) {
    const size_t n = batch->n;
    wisp_generate_options *own = calloc(n, sizeof *own);
    wisp_request *requests = calloc(n, sizeof *requests);
    wisp_error error;
    size_t n_requests = 0;
    bool room = own && requests;
    all->line = calloc(n, sizeof *all->line);
    all->n = n;
    all->written = 0;
    for (size_t i = 0; i < n && all->line && room; i++) {
        struct line *line = &all->line[i];
        *line = (struct line){.all = all, .record = &batch->records[i]};
        line->text_stream = open_memstream(&line->text, &line->text_length);
        line->piece_stream = open_memstream(&line->pieces, &line->pieces_length);
        room = line->text_stream && line->piece_stream;
        own[i] = *options;
        own[i].piece = take_piece;
        own[i].ended = take_end;
        own[i].failed = take_failure;
        own[i].context = line;
        if (line->record->fault) {
            line->done = true;
            line->failure = strdup(line->record->fault);
            room = room && line->failure;
            all->failures++;
            continue;
        }
        requests[n_requests++] = (wisp_request){.prompt = batch->texts[i], .options = &own[i]};
    }
    int code = EXIT_GOOD;
    if (!all->line || !room) {
        code = complain_of_memory();
    } else if (wisp_generate_batch(session, requests, n_requests, at_once, NULL, &error) !=
               WISP_OK) {
        code = complain_of(&error);
    } else {
        write_done(all); /* those after the last text */
    }
    for (size_t i = 0; i < n && all->line; i++) {
        struct line *line = &all->line[i];
        if (line->text_stream)
            fclose(line->text_stream);
        if (line->piece_stream)
            fclose(line->piece_stream);
        free(line->failure);
        free(line->text);
        free(line->pieces);
    }
    free(all->line);
    free(requests);
    free(own);
    return all->code != EXIT_GOOD ? all->code : code;
}

int generate_lines(wisp_session *session, const wisp_generate_options *options, const char *path,
                   size_t at_once, struct generate_totals *totals) {
    struct lines all = {.logprobs = options->logprobs > 0, .totals = totals, .code = EXIT_GOOD};
    struct batch *batch = calloc(1, sizeof *batch);
    struct input input;
    int code = EXIT_GOOD;
    if (!input_open(&input, 1) || !batch) {
        if (!batch)
            complain("out of memory");
        input_close(&input);
        free(batch);
        return EXIT_FAILED;
    }
    input.ndjson = true;
    input.keep_malformed = true;
    input.member = "prompt";
    input_add(&input, path, NULL);
    progress_start(&all.progress, "texts");
    do {
        code = input_next(&input, batch);
        if (batch->n > 0 && !was_interrupted()) {
            const int generated = generate_batch(session, options, batch, at_once, &all);
            code = generated != EXIT_GOOD ? generated : code;
        }
    } while (code == EXIT_GOOD && batch->n > 0);
    if (code == EXIT_GOOD && all.failures > 0)
        code = EXIT_INPUT;
    progress_end(&all.progress);
    batch_close(batch);
    input_close(&input);
    return code;
}
