/* SPDX-License-Identifier: Apache-2.0
 * Prints hashes of everything that embedding computes natively, which show whether two builds agree
 * in every bit: bits [--texts FILE] MODEL... prints a line for each way to run each model. bits.mjs
 * does the same in WebAssembly, with equal texts and fields in equal order. See README.md. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wisp.h"

enum {
    GENERATED = 48,   /* the program makes this many texts */
    FEW_STEP = 8,     /* `few` takes one text in this many */
    SCALAR_STEP = 30, /* the scalar kernel set, which is slow, takes one text in this many */
    LONG_WORDS = 900, /* words of the longest text */
    CUT = 100,        /* values of a row of fewer dimensions */
    MAX_IDS = 1 << 16,
    USAGE = 2
};

static _Noreturn void give_up(const char *problem) {
    fprintf(stderr, "bits: %s\n", problem);
    exit(EXIT_FAILURE);
}

static void *grown(void *block, size_t size) {
    void *new = realloc(block, size ? size : 1);
    if (!new)
        give_up("out of memory");
    return new;
}

/* ---- hashes --------------------------------------------------------------------------------- */

static const uint64_t FNV_START = 0xcbf29ce484222325, FNV_PRIME = 0x100000001b3;

/* Continues an FNV-1a hash with `size` bytes. */
static uint64_t hashed(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * FNV_PRIME;
    return hash;
}

static void print_hash(uint64_t hash) {
    printf("%016llx\n", (unsigned long long)hash);
}

static void print_error(const wisp_error *error) {
    printf("error: %s\n", error->message);
}

/* ---- texts ---------------------------------------------------------------------------------- */

struct texts {
    wisp_text *items;
    size_t n;
};

/* Plain words come first, then words that are hard for tokenizers. bits.mjs has a copy. */
static const char vocabulary[] =
    "the of and a to in is was man woman dog house water "
    "music city science river market history engine eating playing "
    "quickly however between temperature government photosynthesis "
    "counterrevolutionary 1987 3.14159 don't U.S.A. (sic) co-operate café "
    "naïve ﬁnance İstanbul Straße Москва 北京大学 한국어 नमस्ते 😀👍🏽 #tag "
    "https://example.org/a?b=c&d=1 xqzwvkjj ANTIDISESTABLISHMENTARIANISM -- ... ";
enum { WORDS = 51, PLAIN_WORDS = 28 };

/* Returns a word with the space after it. */
static wisp_text word(unsigned index) {
    const char *at = vocabulary;
    while (index--)
        at = strchr(at, ' ') + 1;
    return (wisp_text){.bytes = at, .length = (size_t)(strchr(at, ' ') + 1 - at)};
}

/* Returns a number below n. Its sequence is equal in every run. */
static unsigned chance(unsigned n) {
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (state >> 16) % n;
}

/* Makes a text of `count` words, about one in five of which is a hard one. */
static wisp_text text_of_words(size_t count) {
    char *bytes = NULL;
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        const wisp_text next = word(chance(chance(5) ? PLAIN_WORDS : WORDS));
        bytes = grown(bytes, length + next.length);
        memcpy(bytes + length, next.bytes, next.length);
        length += next.length;
    }
    bytes[length - 1] = '.';
    return (wisp_text){.bytes = bytes, .length = length};
}

static void add_text(struct texts *texts, wisp_text text) {
    texts->items = grown(texts->items, (texts->n + 1) * sizeof *texts->items);
    texts->items[texts->n++] = text;
}

/* Adds texts: mostly sentences, some passages, and one in 24 that is as long as models allow. */
static void add_generated(struct texts *texts) {
    for (unsigned i = 0; i < GENERATED; i++) {
        const unsigned most = i % 24 == 23 ? 300 : i % 8 == 7 ? 90 : 20;
        add_text(texts, text_of_words(most / 4 + chance(most)));
    }
}

/* Adds the lines of a file, which stay in memory as long as the program runs. */
static void add_file(struct texts *texts, const char *path) {
    FILE *file = fopen(path, "rb");
    size_t size = 0, got = 1;
    char *bytes = NULL;
    if (!file)
        give_up("the file of texts cannot be opened");
    while (got) {
        bytes = grown(bytes, size + (1 << 16));
        got = fread(bytes + size, 1, 1 << 16, file);
        size += got;
    }
    fclose(file);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(bytes + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - (bytes + at)) : size - at;
        add_text(texts, (wisp_text){.bytes = bytes + at, .length = length});
        at += length + 1;
    }
}

/* Returns one text in `step`. */
static struct texts every(const struct texts *texts, size_t step) {
    struct texts some = {0};
    for (size_t i = 0; i < texts->n; i += step)
        add_text(&some, texts->items[i]);
    return some;
}

/* The texts that one kernel set embeds. */
struct samples {
    struct texts all; /* or a part of them with the scalar kernel set */
    struct texts few; /* for runs that many texts would not test better */
    wisp_text longest, malformed;
};

/* ---- lines ---------------------------------------------------------------------------------- */

/* One way to run a model. Every line begins with these fields. */
struct way {
    const char *model, *kernels, *compute, *predictor, *sparsity;
    unsigned threads;
};

static void begin_line(const struct way *way, const char *prompt, size_t dimensions,
                       const char *label) {
    printf("%s / %s / %s / %s / %s / %u / %s / ", way->model, way->kernels, way->compute,
           way->predictor, way->sparsity, way->threads, prompt);
    if (dimensions)
        printf("%zu", dimensions);
    else
        printf("all");
    printf(" / %s : ", label);
}

/* ---- runs ----------------------------------------------------------------------------------- */

/* An open session. */
struct run {
    const struct way *way;
    const wisp_model *model;
    wisp_session *session;
    size_t dimensions; /* of the model */
};

static const char *name_of_prompt(const char *prompt) {
    return !prompt ? "default" : *prompt ? prompt : "none";
}

/* Embeds the texts, `at_once` in each call, and prints a hash of all rows. `prompt` is the name of
 * a prompt of the model, or else its text; NULL is the default. `dimensions` may be 0: all. */
static void embed(const struct run *run, const struct texts *texts, size_t at_once,
                  const char *prompt, size_t dimensions, const char *label) {
    const char *named = prompt && *prompt ? wisp_model_prompt(run->model, prompt) : NULL;
    const wisp_embed_options options = {.prompt = named ? named : prompt, .dimensions = dimensions};
    const size_t row_length = dimensions ? dimensions : run->dimensions;
    float *rows = grown(NULL, (at_once + 1) * row_length * sizeof *rows);
    wisp_error error = {0};
    uint64_t hash = FNV_START;
    for (size_t i = 0; i < texts->n && !error.status; i += at_once) {
        const size_t here = texts->n - i < at_once ? texts->n - i : at_once;
        if (wisp_embed(run->session, texts->items + i, here, &options, rows, &error) == WISP_OK)
            hash = hashed(hash, rows, here * row_length * sizeof *rows);
    }
    begin_line(run->way, name_of_prompt(prompt), dimensions, label);
    if (error.status)
        print_error(&error);
    else
        print_hash(hash);
    free(rows);
}

static void embed_one(const struct run *run, wisp_text text, const char *label) {
    const struct texts one = {.items = &text, .n = 1};
    embed(run, &one, 1, NULL, 0, label);
}

/* Prints a hash of the neurons that each layer computed and, with `recall`, of those it needed. */
static void count(const struct run *run, bool recall, const char *label) {
    uint64_t hash = FNV_START;
    wisp_layer_stats s;
    for (uint32_t l = 0; wisp_session_get_layer_stats(run->session, l, &s); l++) {
        const uint64_t computed[] = {s.tokens, s.neurons, s.computed, s.contributing};
        const uint64_t needed[] = {s.compared, s.needed, s.found};
        hash = hashed(hash, computed, sizeof computed);
        if (recall)
            hash = hashed(hash, needed, sizeof needed);
    }
    begin_line(run->way, "default", 0, label);
    print_hash(hash);
}

/* Runs cases whose results do not depend on the number of threads. */
static void embed_specials(const struct run *run, const struct samples *samples) {
    static const char *const prompts[] = {"", "query", "passage", "a prompt: "};
    const struct texts *few = &samples->few;
    const size_t sizes[] = {1, CUT, run->dimensions, run->dimensions + 1};
    embed(run, few, 1, NULL, 0, "one by one");
    embed_one(run, wisp_text_of(""), "empty");
    embed_one(run, samples->malformed, "malformed");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        embed(run, few, few->n, NULL, sizes[i], "few");
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
        embed(run, few, few->n, prompts[i], 0, "few");
}

/* Opens a session with the way's sparsity. Prints the error and returns false if that fails. */
static bool open_run(const struct way *way, const wisp_model *model, bool recall, struct run *run) {
    const wisp_session_options options = {.threads = way->threads, .recall = recall};
    wisp_error error = {0};
    *run = (struct run){.way = way, .model = model, .dimensions = wisp_model_dimensions(model)};
    if (wisp_session_open(model, &options, &run->session, &error) == WISP_OK &&
        (strcmp(way->sparsity, "own") == 0 ||
         wisp_session_set_sparsity(run->session, strtof(way->sparsity, NULL), &error) == WISP_OK))
        return true;
    begin_line(way, "default", 0, "session");
    print_error(&error);
    wisp_session_close(run->session);
    return false;
}

/* Embeds all texts with the model's own sparsity, on one thread and on two. */
static void run_whole(struct way way, const wisp_model *model, const struct samples *samples) {
    way.sparsity = "own";
    for (way.threads = 1; way.threads <= 2; way.threads++) {
        struct run run;
        if (!open_run(&way, model, false, &run))
            continue;
        embed(&run, &samples->all, samples->all.n, NULL, 0, "batch");
        count(&run, false, "counts");
        embed_one(&run, samples->longest, "long");
        if (way.threads == 1)
            embed_specials(&run, samples);
        wisp_session_close(run.session);
    }
}

/* Embeds some texts with other sparsities, and counts recall. */
static void run_sparse(struct way way, const wisp_model *model, const struct samples *samples) {
    static const char *const sparsities[] = {"0", "0.9", "1.5", "0.3", "own"};
    const size_t n = sizeof sparsities / sizeof *sparsities;
    /* With exact, setting any sparsity is an error, so one is enough. */
    const size_t first = strcmp(way.predictor, "exact") == 0 ? n - 2 : 0;
    way.threads = 1;
    for (size_t i = first; i < n; i++) {
        struct run run;
        const bool recall = i == n - 1;
        way.sparsity = sparsities[i];
        if (!open_run(&way, model, recall, &run))
            continue;
        embed(&run, &samples->few, samples->few.n, NULL, 0, recall ? "few, recall" : "few");
        count(&run, recall, recall ? "counts, recall" : "counts");
        wisp_session_close(run.session);
    }
}

/* ---- models --------------------------------------------------------------------------------- */

static const char *const computes[] = {"auto", "f32", "int8"};
static const char *const predictors[] = {"auto", "dense", "exact", "lowrank", "sentence"};

/* Opens the model in one way and runs it. */
static void run_way(const char *path, const char *name, const struct samples *samples,
                    wisp_model_options options) {
    const struct way way = {.model = name,
                            .kernels = options.kernels,
                            .compute = computes[options.compute],
                            .predictor = predictors[options.predictor],
                            .sparsity = "own",
                            .threads = 1};
    wisp_model *model;
    wisp_model_info info;
    wisp_error error = {0};
    const wisp_status status = wisp_model_open(path, &options, &model, &error);
    begin_line(&way, "default", 0, "opened as");
    if (status != WISP_OK) {
        print_error(&error);
        return;
    }
    wisp_model_get_info(model, &info);
    printf("%s %s %s %g\n", info.kernels, info.compute, info.predictor, (double)info.sparsity);
    if (options.compute != WISP_COMPUTE_AUTO) {
        run_whole(way, model, samples);
        if (options.predictor != WISP_PREDICTOR_DENSE)
            run_sparse(way, model, samples);
    }
    wisp_model_close(model);
}

static void run_kernels(const char *path, const char *name, const char *kernels,
                        const struct samples *samples) {
    static const wisp_model_options ways[] = {
        {WISP_COMPUTE_AUTO, NULL, WISP_PREDICTOR_AUTO},
        {WISP_COMPUTE_F32, NULL, WISP_PREDICTOR_DENSE},
        {WISP_COMPUTE_F32, NULL, WISP_PREDICTOR_LOWRANK},
        {WISP_COMPUTE_INT8, NULL, WISP_PREDICTOR_DENSE},
        {WISP_COMPUTE_INT8, NULL, WISP_PREDICTOR_EXACT},
        {WISP_COMPUTE_INT8, NULL, WISP_PREDICTOR_LOWRANK},
        {WISP_COMPUTE_INT8, NULL, WISP_PREDICTOR_SENTENCE},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        wisp_model_options options = ways[i];
        options.kernels = kernels;
        run_way(path, name, samples, options);
    }
}

/* Prints the facts of the file that do not depend on how a build keeps it in memory. */
static void print_info(const char *name, const wisp_model *model) {
    static char value[1 << 16];
    const char *key;
    uint64_t hash = FNV_START;
    wisp_model_info i;
    wisp_model_get_info(model, &i);
    printf("%s / info : %s %s %s %u %u %u %u %u %u %llu\n", name, i.name, i.architecture, i.pooling,
           i.hidden_size, i.intermediate_size, i.layers, i.heads, i.vocabulary_size, i.max_tokens,
           (unsigned long long)i.parameters);
    for (size_t at = 0; wisp_model_metadata(model, at, &key, value, sizeof value); at++) {
        hash = hashed(hash, key, strlen(key) + 1);
        hash = hashed(hash, value, strlen(value) + 1);
    }
    printf("%s / metadata : ", name);
    print_hash(hash);
}

/* Prints a hash of the token ids of all texts and of their number in each text. */
static void print_tokens(const char *name, const wisp_model *model, const struct texts *texts,
                         const char *label) {
    static int32_t ids[MAX_IDS];
    uint64_t hash = FNV_START;
    wisp_error error = {0};
    for (size_t i = 0; i < texts->n && !error.status; i++) {
        size_t n = 0;
        wisp_tokenize(model, texts->items[i], ids, MAX_IDS, &n, &error);
        const uint32_t length = (uint32_t)n;
        hash = hashed(hash, ids, n * sizeof *ids);
        hash = hashed(hash, &length, sizeof length);
    }
    printf("%s / tokens, %s : ", name, label);
    if (error.status)
        print_error(&error);
    else
        print_hash(hash);
}

/* Prints the lines that do not depend on kernels. Returns false if the model cannot be opened.
 */
static bool print_model(const char *path, const char *name, const struct samples *samples) {
    wisp_model *model;
    wisp_text odd[] = {samples->longest, samples->malformed, wisp_text_of("")};
    const struct texts special = {.items = odd, .n = sizeof odd / sizeof *odd};
    wisp_error error = {0};
    if (wisp_model_open(path, NULL, &model, &error) != WISP_OK) {
        printf("%s / info : ", name);
        print_error(&error);
        return false;
    }
    print_info(name, model);
    print_tokens(name, model, &samples->all, "all");
    print_tokens(name, model, &special, "special");
    wisp_model_close(model);
    return true;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void run_model(const char *path, const struct samples *samples,
                      const struct samples *fewer) {
    const char *name = last_part(path), *kernels;
    if (!print_model(path, name, samples))
        return;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++)
        run_kernels(path, name, kernels, strcmp(kernels, "scalar") == 0 ? fewer : samples);
    run_way(path, name, samples, (wisp_model_options){.kernels = "none"});
}

int main(int argc, char **argv) {
    static const char malformed[] =
        "caf\xc3 \xff\xfe \xe2\x82 \xf0\x9f\x98 \xc0\xaf \xed\xa0\x80 end";
    struct texts texts = {0};
    int first = 1;
    add_generated(&texts);
    const wisp_text longest = text_of_words(LONG_WORDS);
    if (argc > 2 && strcmp(argv[1], "--texts") == 0) {
        add_file(&texts, argv[2]);
        first = 3;
    }
    if (first == argc) {
        fputs("usage: bits [--texts FILE] MODEL...\n", stderr);
        return USAGE;
    }
    wisp_text small = wisp_text_of("a small house");
    const struct texts few = every(&texts, FEW_STEP), fewer = every(&texts, SCALAR_STEP);
    const struct samples all = {texts, few, longest, wisp_text_of(malformed)};
    const struct samples some = {fewer, {.items = &small, .n = 1}, small, all.malformed};
    for (int i = first; i < argc; i++)
        run_model(argv[i], &all, &some);
    return EXIT_SUCCESS;
}
