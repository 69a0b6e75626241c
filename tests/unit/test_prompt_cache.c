/* SPDX-License-Identifier: Apache-2.0
 * The prompt cache: a text has the same bits with and without, whatever happens to the files. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/generation.h"
#include "engine/text_block.h"
#include "support/builder.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char stories[] = "models/wisp-stories.gguf";

enum { PROMPT = 5 * TEXT_BLOCK_TOKENS + 7, MORE = 12, HEADER_AND_IDS = 88 + 4 * TEXT_BLOCK_TOKENS };

static char folder[300];

/* Names a folder that does not exist, within the test's own. */
static void new_folder(void) {
    static unsigned n;
    char name[32];
    snprintf(name, sizeof name, "prompts-%u", n++);
    snprintf(folder, sizeof folder, "%s", temporary_path(name));
}

static void make_ids(int32_t *ids, size_t n, size_t vocabulary) {
    for (size_t t = 0; t < n; t++)
        ids[t] = (int32_t)((t * t * 31 + t * 7 + 3) % vocabulary);
}

struct text {
    int32_t ids[MORE];
    float logprobs[MORE];
    size_t n;
    wisp_generation result;
    wisp_prompt_cache_stats stats;
};

static bool take_piece(void *context, const wisp_piece *piece) {
    struct text *text = context;
    text->ids[text->n] = piece->id;
    text->logprobs[text->n++] = piece->logprob;
    return true;
}

static wisp_session *open_with(const wisp_model *model, wisp_cache_type type, uint64_t bytes) {
    const wisp_session_options options = {.threads = 1, .cache_type = type};
    wisp_session *session;
    wisp_error error;
    assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
    if (bytes > 0 && wisp_session_use_prompt_cache(session, folder, bytes, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return session;
}

static void write_text(wisp_session *session, const int32_t *ids, size_t n, struct text *text) {
    *text = (struct text){.n = 0};
    const wisp_generate_options options = {
        .max_tokens = MORE, .logprobs = 1, .piece = take_piece, .context = text};
    const wisp_request request = {.ids = ids, .n_ids = n, .options = &options};
    wisp_error error;
    if (wisp_generate_batch(session, &request, 1, 1, &text->result, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session_get_prompt_cache_stats(session, &text->stats);
}

/* Writes a text in a session of its own. bytes 0: without a prompt cache. */
static struct text text_of(const wisp_model *model, wisp_cache_type type, uint64_t bytes,
                           const int32_t *ids, size_t n) {
    wisp_session *session = open_with(model, type, bytes);
    struct text text;
    write_text(session, ids, n, &text);
    wisp_session_close(session);
    return text;
}

static void expect_same(const struct text *a, const struct text *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, sizeof a->ids);
    assert_memory_equal(a->logprobs, b->logprobs, sizeof a->logprobs);
}

/* Calls `each` for every file in the folder. Returns their number. */
static size_t for_each_file(void (*each)(const char *path, void *context), void *context) {
    size_t n = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        fail_msg("there is no folder %s", folder);
        return 0;
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        if (each)
            each(path, context);
        n++;
    }
    closedir(dir);
    return n;
}

/* ---- what is known -------------------------------------------------------------------------- */

static void known_prompts_are_read(void **state) {
    const uint64_t enough = 1000000000;
    int32_t ids[PROMPT], other[PROMPT];
    (void)state;
    for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
        wisp_model *model = open_model_or_fail(stories, (wisp_compute)compute, NULL);
        for (int t = WISP_CACHE_F16; t <= WISP_CACHE_F32; t++) {
            const wisp_cache_type type = (wisp_cache_type)t;
            make_ids(ids, PROMPT, 512);
            memcpy(other, ids, sizeof ids);
            other[2 * TEXT_BLOCK_TOKENS + 5] ^= 1;
            new_folder();
            const struct text plain = text_of(model, type, 0, ids, PROMPT);
            const struct text first = text_of(model, type, enough, ids, PROMPT);
            const struct text second = text_of(model, type, enough, ids, PROMPT);
            expect_same(&plain, &first);
            expect_same(&plain, &second);
            assert_int_equal(first.result.reused_tokens, 0);
            assert_int_equal(first.stats.written_blocks, 5);
            assert_int_equal(second.result.reused_tokens, 5 * TEXT_BLOCK_TOKENS);
            assert_int_equal(second.stats.known_tokens, 5 * TEXT_BLOCK_TOKENS);
            assert_int_equal(second.stats.written_blocks, 0);

            /* A prompt that differs from some token on. */
            const struct text plain_other = text_of(model, type, 0, other, PROMPT);
            const struct text half = text_of(model, type, enough, other, PROMPT);
            expect_same(&plain_other, &half);
            assert_int_equal(half.result.reused_tokens, 2 * TEXT_BLOCK_TOKENS);

            /* The last token is always computed: its logits choose what follows. */
            const struct text whole = text_of(model, type, enough, ids, 2 * TEXT_BLOCK_TOKENS);
            const struct text plain_whole = text_of(model, type, 0, ids, 2 * TEXT_BLOCK_TOKENS);
            expect_same(&plain_whole, &whole);
            assert_int_equal(whole.result.reused_tokens, TEXT_BLOCK_TOKENS);

            /* A session that knows the beginning, though not whole blocks of it. */
            wisp_session *session = open_with(model, type, enough);
            struct text text;
            write_text(session, other, 2 * TEXT_BLOCK_TOKENS + 20, &text);
            write_text(session, ids, PROMPT, &text);
            expect_same(&plain, &text);
            assert_int_equal(text.result.reused_tokens, 5 * TEXT_BLOCK_TOKENS);
            wisp_session_close(session);
        }
        wisp_model_close(model);
    }
}

/* What was generated is known, too: a conversation goes on in another process. */
static void generated_tokens_are_known(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t ids[3 * TEXT_BLOCK_TOKENS];
    (void)state;
    new_folder();
    make_ids(ids, sizeof ids / sizeof *ids, 512);
    const size_t n = 2 * TEXT_BLOCK_TOKENS - 5;
    const struct text begun = text_of(model, WISP_CACHE_F32, 1000000000, ids, n);
    assert_int_equal(begun.n, MORE);
    memcpy(ids + n, begun.ids, sizeof begun.ids);
    const struct text more = text_of(model, WISP_CACHE_F32, 1000000000, ids, n + MORE);
    const struct text plain = text_of(model, WISP_CACHE_F32, 0, ids, n + MORE);
    expect_same(&plain, &more);
    assert_int_equal(more.result.reused_tokens, 2 * TEXT_BLOCK_TOKENS);
    wisp_model_close(model);
}

/* Texts of a batch share what is known. */
static void batches_read_and_write(void **state) {
    enum { TEXTS = 5 };
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t ids[TEXTS][PROMPT];
    (void)state;
    new_folder();
    for (size_t i = 0; i < TEXTS; i++) {
        make_ids(ids[i], PROMPT, 512);
        ids[i][i * TEXT_BLOCK_TOKENS] ^= 2; /* they share i blocks */
    }
    for (int round = 0; round < 2; round++) {
        const wisp_generate_options options = {.max_tokens = MORE};
        wisp_session *session = open_with(model, WISP_CACHE_F16, 1000000000);
        wisp_request requests[TEXTS];
        wisp_generation results[TEXTS];
        wisp_error error;
        for (size_t i = 0; i < TEXTS; i++)
            requests[i] = (wisp_request){.ids = ids[i], .n_ids = PROMPT, .options = &options};
        assert_int_equal(wisp_generate_batch(session, requests, TEXTS, 3, results, &error),
                         WISP_OK);
        for (size_t i = 0; i < TEXTS && round > 0; i++)
            assert_int_equal(results[i].reused_tokens, 5 * TEXT_BLOCK_TOKENS);
        wisp_session_close(session);
    }
    for (size_t i = 0; i < TEXTS; i++) { /* what the batch has written has the right bits */
        const struct text plain = text_of(model, WISP_CACHE_F16, 0, ids[i], PROMPT);
        const struct text known = text_of(model, WISP_CACHE_F16, 1000000000, ids[i], PROMPT);
        expect_same(&plain, &known);
        assert_int_equal(known.result.reused_tokens, 5 * TEXT_BLOCK_TOKENS);
    }
    wisp_model_close(model);
}

/* Short convolutions go on where their state is known: after multiples of 256 tokens. */
static void states_of_convolutions_are_kept(void **state) {
    enum { TOKENS = 2 * CONV_STATE_EVERY + 70 };
    struct gguf file;
    struct bytes bytes = {0};
    wisp_model *model;
    wisp_error error;
    int32_t ids[TOKENS];
    (void)state;
    new_folder();
    gguf_make_lfm2(&file);
    gguf_write_bytes(&file, &bytes);
    gguf_release(&file);
    const wisp_source source = {
        .size = bytes.size, .data = bytes.data, .name = "lfm2.gguf", .lasting = true};
    assert_int_equal(wisp_model_open_source(&source, NULL, &model, &error), WISP_OK);
    make_ids(ids, TOKENS, LFM2_TOKENS);
    const struct text plain = text_of(model, WISP_CACHE_F32, 0, ids, TOKENS);
    const struct text first = text_of(model, WISP_CACHE_F32, 1000000000, ids, TOKENS);
    const struct text second = text_of(model, WISP_CACHE_F32, 1000000000, ids, TOKENS);
    expect_same(&plain, &first);
    expect_same(&plain, &second);
    assert_int_equal(second.result.reused_tokens, 2 * CONV_STATE_EVERY);
    wisp_model_close(model);
    bytes_release(&bytes);
}

/* ---- what is not to be mistaken for it ------------------------------------------------------ */

/* Another cache type, compute mode, kernel set and model each have blocks of their own. */
static void others_have_their_own_blocks(void **state) {
    int32_t ids[PROMPT];
    size_t size, changed;
    (void)state;
    new_folder();
    make_ids(ids, PROMPT, 512);
    char *bytes = read_file(stories, &size);
    /* One bit of the last weights, which neither metadata nor token embeddings show. */
    bytes[size - 40] ^= 1;
    write_file("changed.gguf", bytes, size);
    free(bytes);
    struct {
        const char *path, *kernels;
        wisp_compute compute;
        wisp_cache_type type;
    } cases[] = {{stories, NULL, WISP_COMPUTE_F32, WISP_CACHE_F32},
                 {stories, NULL, WISP_COMPUTE_F32, WISP_CACHE_F16},
                 {stories, NULL, WISP_COMPUTE_INT8, WISP_CACHE_F32},
                 {stories, "scalar", WISP_COMPUTE_F32, WISP_CACHE_F32},
                 {NULL, NULL, WISP_COMPUTE_F32, WISP_CACHE_F32}};
    char path[300];
    snprintf(path, sizeof path, "%s", temporary_path("changed.gguf"));
    for (changed = 0; changed < sizeof cases / sizeof *cases; changed++) {
        wisp_model *model = open_model_or_fail(cases[changed].path ? cases[changed].path : path,
                                               cases[changed].compute, cases[changed].kernels);
        const struct text text = text_of(model, cases[changed].type, 1000000000, ids, PROMPT);
        if (text.stats.known_tokens != 0)
            fail_msg("case %zu knows %d tokens", changed, (int)text.stats.known_tokens);
        assert_int_equal(text.stats.written_blocks, 5);
        wisp_model_close(model);
    }
}

enum damage {
    CUT,
    FLIP_HEADER,
    FLIP_IDS,
    FLIP_VALUES,
    EMPTY,
    LONGER,
    OTHER,
    LINK,
    FOLDER,
    DAMAGES
};

static void damage_file(const char *path, void *context) {
    static char *last;
    static size_t last_size;
    const enum damage damage = *(enum damage *)context;
    size_t size;
    char *bytes = read_file(path, &size);
    switch (damage) {
    case CUT:
        assert_int_equal(truncate(path, (off_t)size - 1), 0);
        break;
    case FLIP_HEADER:
        bytes[60] ^= 4;
        break;
    case FLIP_IDS:
        bytes[88 + 17] ^= 4;
        break;
    case FLIP_VALUES:
        bytes[HEADER_AND_IDS + 1001] ^= 64;
        break;
    case EMPTY:
        assert_int_equal(truncate(path, 0), 0);
        break;
    case LONGER:
        write_file(path, bytes, size);
        assert_int_equal(truncate(path, (off_t)size + 1), 0);
        break;
    case OTHER: /* the block of another name, whole */
        if (last)
            write_file(path, last, last_size);
        free(last);
        last = bytes;
        last_size = size;
        return;
    case LINK:
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink(stories, path), 0);
        break;
    case FOLDER:
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        break;
    case DAMAGES:
        break;
    }
    if (damage >= FLIP_HEADER && damage <= FLIP_VALUES)
        write_file(path, bytes, size);
    free(bytes);
}

static void damaged_blocks_are_computed_anew(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t ids[PROMPT];
    (void)state;
    make_ids(ids, PROMPT, 512);
    const struct text plain = text_of(model, WISP_CACHE_F32, 0, ids, PROMPT);
    for (enum damage damage = CUT; damage < DAMAGES; damage++) {
        new_folder();
        text_of(model, WISP_CACHE_F32, 1000000000, ids, PROMPT);
        assert_int_equal(for_each_file(damage_file, &damage), 5);
        const struct text text = text_of(model, WISP_CACHE_F32, 1000000000, ids, PROMPT);
        expect_same(&plain, &text);
        if (damage != OTHER) {
            assert_int_equal(text.result.reused_tokens, 0);
            assert_int_equal(text.stats.known_tokens, 0);
        }
        if (damage != OTHER) {
            assert_true(text.stats.damaged_blocks > 0);
            assert_true(strlen(text.stats.failure) > 10);
        }
        /* A folder stays in the way of a block; all else is replaced when the text is written. */
        for (int i = 0; i < 6 && damage != FOLDER; i++)
            text_of(model, WISP_CACHE_F32, 1000000000, ids, PROMPT);
        const struct text again = text_of(model, WISP_CACHE_F32, 1000000000, ids, PROMPT);
        expect_same(&plain, &again);
        if (damage != FOLDER)
            assert_int_equal(again.result.reused_tokens, 5 * TEXT_BLOCK_TOKENS);
    }
    struct stat info;
    assert_int_equal(stat(stories, &info), 0);
    assert_true(info.st_size > 100000); /* nobody followed the links */
    wisp_model_close(model);
}

/* ---- the folder ----------------------------------------------------------------------------- */

static void add_size(const char *path, void *context) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    *(uint64_t *)context += (uint64_t)info.st_size;
}

/* The blocks that were used longest ago go first, and of one text the last ones. */
static void the_folder_keeps_its_bound(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t first[PROMPT], second[PROMPT];
    uint64_t block = 0, total = 0;
    (void)state;
    new_folder();
    make_ids(first, PROMPT, 512);
    make_ids(second, PROMPT, 511);
    text_of(model, WISP_CACHE_F32, 1000000000, first, TEXT_BLOCK_TOKENS + 1);
    for_each_file(add_size, &block);
    const uint64_t bound = 7 * block + block / 2;
    text_of(model, WISP_CACHE_F32, bound, first, PROMPT);
    const struct text written = text_of(model, WISP_CACHE_F32, bound, second, PROMPT);
    assert_int_equal(written.stats.removed_blocks, 3);
    assert_int_equal(for_each_file(add_size, &total), 7);
    assert_true(total <= bound);
    const struct text kept = text_of(model, WISP_CACHE_F32, bound, second, PROMPT);
    assert_int_equal(kept.result.reused_tokens, 5 * TEXT_BLOCK_TOKENS);
    const struct text rest = text_of(model, WISP_CACHE_F32, bound, first, PROMPT);
    assert_int_equal(rest.result.reused_tokens, 2 * TEXT_BLOCK_TOKENS);
    wisp_model_close(model);
}

static void writers_that_ended_leave_nothing(void **state) {
    static const char digits[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t ids[PROMPT];
    char path[600];
    struct stat info;
    (void)state;
    new_folder();
    make_ids(ids, PROMPT, 512);
    text_of(model, WISP_CACHE_F32, 1000000000, ids, TEXT_BLOCK_TOKENS + 1);
    snprintf(path, sizeof path, "%s/%s.part-1-1", folder, digits);
    write_file(path, "half", 4);
    char own[600];
    snprintf(own, sizeof own, "%s/notes.txt", folder);
    write_file(own, "mine", 4);
    text_of(model, WISP_CACHE_F32, 1000000000, ids, PROMPT);
    assert_int_not_equal(stat(path, &info), 0);
    assert_int_equal(stat(own, &info), 0); /* files of other names are not touched */
    wisp_model_close(model);
}

static void processes_share_a_folder(void **state) {
    enum { PROCESSES = 4 };
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t ids[PROMPT];
    pid_t child[PROCESSES];
    (void)state;
    new_folder();
    make_ids(ids, PROMPT, 512);
    const struct text plain = text_of(model, WISP_CACHE_F32, 0, ids, PROMPT);
    for (size_t i = 0; i < PROCESSES; i++)
        if ((child[i] = fork()) == 0) {
            const struct text text = text_of(model, WISP_CACHE_F32, 1000000000, ids, PROMPT);
            _exit(memcmp(text.ids, plain.ids, sizeof plain.ids) != 0 ||
                  text.stats.damaged_blocks + text.stats.failed_blocks > 0);
        }
    for (size_t i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(for_each_file(NULL, NULL), 5);
    wisp_model_close(model);
}

/* A full disk costs the blocks, and not the text. */
static void a_full_disk_is_no_error(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t ids[PROMPT];
    struct rlimit before;
    (void)state;
    new_folder();
    make_ids(ids, PROMPT, 512);
    const struct text plain = text_of(model, WISP_CACHE_F32, 0, ids, PROMPT);
    wisp_session *session = open_with(model, WISP_CACHE_F32, 1000000000);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit limit = {.rlim_cur = 5000, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct text text;
    write_text(session, ids, PROMPT, &text);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    expect_same(&plain, &text);
    assert_int_equal(text.stats.written_blocks, 0);
    assert_true(text.stats.failed_blocks > 0);
    assert_non_null(strstr(text.stats.failure, "cannot write"));
    assert_int_equal(for_each_file(NULL, NULL), 0);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void expect_refused(const wisp_model *model, uint64_t bytes, wisp_status status,
                           const char *says) {
    const wisp_session_options options = {.threads = 1};
    wisp_session *session;
    wisp_error error = {0};
    assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
    if (wisp_session_use_prompt_cache(session, folder, bytes, &error) != status ||
        !strstr(error.message, says))
        fail_msg("%s, instead of %s", error.message, says);
    wisp_prompt_cache_stats stats;
    assert_false(wisp_session_get_prompt_cache_stats(session, &stats));
    wisp_session_close(session);
}

static void what_cannot_be_done_is_refused(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL), *other;
    wisp_error error;
    (void)state;
    new_folder();
    expect_refused(model, 1000, WISP_ERROR_ARGUMENT, "64 tokens of this model take ");
    make_folder(folder);
    assert_int_equal(chmod(folder, 0777), 0);
    expect_refused(model, 0, WISP_ERROR_IO, "others can write to it");
    assert_int_equal(rmdir(folder), 0);
    write_file(folder, "a file", 6);
    expect_refused(model, 0, WISP_ERROR_IO, "is not a folder of this user");
    new_folder();
    wisp_session *session = open_with(model, WISP_CACHE_F32, 1000000000);
    assert_int_equal(wisp_session_use_prompt_cache(session, folder, 0, &error),
                     WISP_ERROR_ARGUMENT);
    wisp_session_close(session);
    wisp_model_close(model);

    other = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    expect_refused(other, 0, WISP_ERROR_UNSUPPORTED, "generate no text");
    wisp_model_close(other);
    const wisp_model_options in_memory = {.in_memory = true};
    assert_int_equal(wisp_model_open(stories, &in_memory, &other, &error), WISP_OK);
    expect_refused(other, 0, WISP_ERROR_UNSUPPORTED, "cannot be read again");
    wisp_model_close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_prompts_are_read),
        cmocka_unit_test(generated_tokens_are_known),
        cmocka_unit_test(batches_read_and_write),
        cmocka_unit_test(states_of_convolutions_are_kept),
        cmocka_unit_test(others_have_their_own_blocks),
        cmocka_unit_test(damaged_blocks_are_computed_anew),
        cmocka_unit_test(the_folder_keeps_its_bound),
        cmocka_unit_test(writers_that_ended_leave_nothing),
        cmocka_unit_test(processes_share_a_folder),
        cmocka_unit_test(a_full_disk_is_no_error),
        cmocka_unit_test(what_cannot_be_done_is_refused),
    };
    return cmocka_run_group_tests_name("prompt_cache", tests, NULL, tear_down_temporary_folder);
}
