/* SPDX-License-Identifier: Apache-2.0
 * The vector cache: a text has the same bits with and without, whatever happens to the file. */
#include <dirent.h>
#include <fcntl.h>
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

#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TEXTS = 40, MOST_DIMENSIONS = 64 };

static const char mpnet[] = "tests/data/models/mpnet", nomic[] = "tests/data/models/nomic";

static char folder[300];
static char spellings[TEXTS][32];
static wisp_text texts[TEXTS];

static void make_texts(void) {
    for (int i = 0; i < TEXTS; i++) {
        snprintf(spellings[i], sizeof spellings[i], "%d cats and %d dogs", i, i * i);
        texts[i] = wisp_text_of(spellings[i]);
    }
}

/* Names a folder that does not exist, within the test's own. */
static void new_folder(void) {
    static unsigned n;
    char name[32];
    snprintf(name, sizeof name, "vectors-%u", n++);
    snprintf(folder, sizeof folder, "%s", temporary_path(name));
}

/* What a process has open. */
struct user {
    wisp_model *model;
    wisp_session *session;
    wisp_vector_cache *cache;
    size_t dimensions;
};

static struct user begin_with(const char *path, const wisp_model_options *options, uint64_t bytes) {
    const wisp_session_options one = {.threads = 1};
    struct user user;
    wisp_error error;
    if (wisp_model_open(path, options, &user.model, &error) != WISP_OK ||
        wisp_session_open(user.model, &one, &user.session, &error) != WISP_OK ||
        wisp_vector_cache_open(user.session, folder, bytes, &user.cache, &error) != WISP_OK)
        fail_msg("%s", error.message);
    user.dimensions = wisp_model_dimensions(user.model);
    assert_true(user.dimensions <= MOST_DIMENSIONS);
    return user;
}

static struct user begin(void) {
    return begin_with(mpnet, NULL, 1000000);
}

static void end(struct user *user) {
    wisp_vector_cache_close(user->cache);
    wisp_session_close(user->session);
    wisp_model_close(user->model);
}

static wisp_status embed(void *context, const wisp_text *of, size_t n,
                         const wisp_embed_options *options, float *rows, wisp_error *error) {
    const struct user *user = context;
    return wisp_embed(user->session, of, n, options, rows, error);
}

/* Embeds texts through the cache, compares the rows with those of wisp_embed, and returns how many
 * were found. */
static size_t use(struct user *user, size_t first, size_t n, const wisp_embed_options *options) {
    float rows[TEXTS * MOST_DIMENSIONS], expected[TEXTS * MOST_DIMENSIONS];
    wisp_vector_cache_stats before, after;
    wisp_error error;
    const size_t dimensions =
        options && options->dimensions ? options->dimensions : user->dimensions;
    wisp_vector_cache_get_stats(user->cache, &before);
    if (wisp_vector_cache_embed(user->cache, texts + first, n, options, embed, user, rows,
                                &error) != WISP_OK ||
        wisp_embed(user->session, texts + first, n, options, expected, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_memory_equal(rows, expected, n * dimensions * sizeof *rows);
    wisp_vector_cache_get_stats(user->cache, &after);
    assert_int_equal(after.found - before.found + after.computed - before.computed, n);
    return (size_t)(after.found - before.found);
}

/* Finds the only file of the folder, or the n-th. Returns how many there are. */
static size_t find_file(size_t n, char path[600]) {
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && count++ == n)
            snprintf(path, 600, "%s/%s", folder, entry->d_name);
    if (dir)
        closedir(dir);
    return count;
}

/* ---- what is found -------------------------------------------------------------------------- */

static void texts_are_found(void **state) {
    (void)state;
    new_folder();
    struct user user = begin();
    assert_int_equal(use(&user, 0, 10, NULL), 0);
    assert_int_equal(use(&user, 5, 10, NULL), 5);
    end(&user);
    user = begin(); /* another process */
    assert_int_equal(use(&user, 0, 15, NULL), 15);
    assert_int_equal(use(&user, 10, 10, NULL), 5);
    end(&user);
}

static void options_have_rows_of_their_own(void **state) {
    (void)state;
    new_folder();
    struct user user = begin();
    const wisp_embed_options some = {.dimensions = 7}, prompt = {.prompt = "query: "},
                             none = {.prompt = ""}, whole = {.dimensions = user.dimensions};
    assert_int_equal(use(&user, 0, 4, NULL), 0);
    assert_int_equal(use(&user, 0, 4, &some), 0);
    assert_int_equal(use(&user, 0, 4, &prompt), 0);
    assert_int_equal(use(&user, 0, 4, &whole), 4); /* the default of both */
    assert_int_equal(use(&user, 0, 4, &none), 4);
    assert_int_equal(use(&user, 0, 4, &some), 4);
    assert_int_equal(use(&user, 0, 4, &prompt), 4);
    const wisp_embed_options too_many = {.dimensions = user.dimensions + 1};
    float row[MOST_DIMENSIONS + 1];
    wisp_error error;
    assert_int_equal(
        wisp_vector_cache_embed(user.cache, texts, 1, &too_many, embed, &user, row, &error),
        WISP_ERROR_ARGUMENT);
    end(&user);
}

static void models_and_choices_have_files_of_their_own(void **state) {
    (void)state;
    char path[600];
    const wisp_model_options int8 = {.compute = WISP_COMPUTE_INT8},
                             scalar = {.compute = WISP_COMPUTE_INT8, .kernels = "scalar"},
                             portable = {.portable = true},
                             portable_scalar = {.portable = true, .kernels = "scalar"};
    new_folder();
    struct user user = begin();
    use(&user, 0, 4, NULL);
    end(&user);
    const struct {
        const char *path;
        const wisp_model_options *options;
        size_t files, found;
    } others[] = {{nomic, NULL, 2, 0},
                  {mpnet, &int8, 3, 0},
                  {mpnet, &scalar, 4, 0},
                  {mpnet, &portable, 5, 0},
                  {mpnet, &portable_scalar, 5, 4}, /* the same on every machine */
                  {nomic, NULL, 5, 4}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        user = begin_with(others[i].path, others[i].options, 1000000);
        assert_int_equal(use(&user, 0, 4, NULL), others[i].found);
        end(&user);
        assert_int_equal(find_file(0, path), others[i].files);
    }
}

/* A row that is found says that its text was cut as one that is computed does. */
static void truncated_texts_are_counted(void **state) {
    (void)state;
    char longer[2000] = "";
    float rows[2 * MOST_DIMENSIONS];
    wisp_vector_cache_stats stats;
    wisp_error error;
    for (size_t at = 0; at + 5 < sizeof longer; at += 5)
        snprintf(longer + at, sizeof longer - at, "cats ");
    const wisp_text some[] = {wisp_text_of(longer), texts[0]};
    new_folder();
    struct user user = begin();
    for (uint64_t found = 0; found < 3; found++) {
        assert_int_equal(
            wisp_vector_cache_embed(user.cache, some, 2, NULL, embed, &user, rows, &error),
            WISP_OK);
        wisp_vector_cache_get_stats(user.cache, &stats);
        assert_int_equal(stats.truncated, found);
    }
    end(&user);
}

/* Fails as if a text was at fault. */
static wisp_status embed_good(void *context, const wisp_text *of, size_t n,
                              const wisp_embed_options *options, float *rows, wisp_error *error) {
    for (size_t i = 0; i < n; i++)
        if (of[i].length == 3 && memcmp(of[i].bytes, "bad", 3) == 0) {
            snprintf(error->message, sizeof error->message, "text %zu is bad", i);
            return WISP_ERROR_ARGUMENT;
        }
    return embed(context, of, n, options, rows, error);
}

static void errors_count_all_texts(void **state) {
    (void)state;
    float rows[4 * MOST_DIMENSIONS];
    wisp_error error;
    new_folder();
    struct user user = begin();
    use(&user, 0, 2, NULL);
    const wisp_text some[] = {texts[0], texts[1], texts[2], wisp_text_of("bad")};
    assert_int_equal(
        wisp_vector_cache_embed(user.cache, some, 4, NULL, embed_good, &user, rows, &error),
        WISP_ERROR_ARGUMENT);
    assert_string_equal(error.message, "text 3 is bad");
    assert_int_equal(use(&user, 0, 3, NULL), 2);
    end(&user);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void damage_is_noticed(void **state) {
    (void)state;
    char path[600];
    size_t length, missed = 0, changed = 0;
    new_folder();
    struct user user = begin();
    use(&user, 0, 1, NULL);
    assert_int_equal(find_file(0, path), 1);
    char *bytes = read_file(path, &length);
    const int file = open(path, O_RDWR);
    for (size_t at = 4096; at < length; at++) {
        const char byte = bytes[at] ^ 0x10;
        if (bytes[at] == 0)
            continue;
        changed++;
        assert_int_equal(pwrite(file, &byte, 1, (off_t)at), 1);
        missed += use(&user, 0, 1, NULL) == 0;
        assert_int_equal(pwrite(file, bytes, length, 0), length);
    }
    assert_true(changed > 100);
    assert_in_range(changed - missed, 1, 8); /* the time of its use */
    assert_int_equal(use(&user, 0, 1, NULL), 1);
    close(file);
    end(&user);

    for (size_t at = 0; at < 32; at += 5) { /* the header: a file is made anew */
        bytes[at] ^= 0x10;
        write_file(path, bytes, length);
        user = begin();
        assert_int_equal(use(&user, 0, 1, NULL), 0);
        assert_int_equal(use(&user, 0, 1, NULL), 1);
        end(&user);
        bytes[at] ^= 0x10;
    }
    free(bytes);
    assert_int_equal(truncate(path, 5000), 0);
    user = begin();
    use(&user, 0, 3, NULL);
    assert_int_equal(use(&user, 0, 3, NULL), 3);
    end(&user);
}

static void a_file_keeps_its_bound(void **state) {
    (void)state;
    char path[600];
    wisp_error error;
    new_folder();
    struct user user = begin();
    const uint64_t set = 8 * (48 + 4 * user.dimensions + 1), one = 4096 + set;
    end(&user);
    new_folder();
    user = begin_with(mpnet, NULL, one); /* 8 rows */
    assert_int_equal(use(&user, 0, 8, NULL), 0);
    assert_int_equal(use(&user, 0, 8, NULL), 8);
    use(&user, 8, 1, NULL); /* takes the place of the first */
    assert_int_equal(use(&user, 1, 8, NULL), 8);
    for (size_t i = 0; i < TEXTS; i++)
        use(&user, i, 1, NULL);
    end(&user);
    struct stat info;
    assert_int_equal(find_file(0, path), 1);
    assert_int_equal(stat(path, &info), 0);
    assert_true((uint64_t)info.st_size <= one);
    /* Of one row more nothing is left: the file is made anew. */
    user = begin_with(mpnet, NULL, one + set);
    assert_int_equal(use(&user, TEXTS - 8, 8, NULL), 0);
    end(&user);
    assert_int_equal(find_file(0, path), 1);

    user = begin_with(mpnet, NULL, one);
    wisp_vector_cache *none;
    assert_int_equal(wisp_vector_cache_open(user.session, folder, one - 1, &none, &error),
                     WISP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "8 rows of "));
    end(&user);
}

/* A clock that was set back leaves rows of a time to come, which must not keep places for good. */
static void rows_of_a_time_to_come_go_first(void **state) {
    (void)state;
    const unsigned char later[8] = {0, 0, 0, 0, 0, 0, 0, 1};
    char path[600];
    new_folder();
    struct user user = begin();
    const uint64_t one = 4096 + 8 * (48 + 4 * user.dimensions + 1);
    end(&user);
    new_folder();
    user = begin_with(mpnet, NULL, one);
    use(&user, 0, 8, NULL);
    assert_int_equal(find_file(0, path), 1);
    const int file = open(path, O_RDWR);
    for (off_t way = 0; way < 8; way++)
        assert_int_equal(pwrite(file, later, sizeof later, 4096 + way * 48 + 40), sizeof later);
    close(file);
    use(&user, 8, 8, NULL);
    assert_int_equal(use(&user, 8, 8, NULL), 8);
    end(&user);
}

static void files_of_others_go(void **state) {
    (void)state;
    char path[600];
    const wisp_model_options portable = {.portable = true}, int8 = {.compute = WISP_COMPUTE_INT8};
    new_folder();
    struct user used = begin_with(mpnet, &portable, 50000), user = begin_with(mpnet, &int8, 50000);
    use(&used, 0, TEXTS, NULL);
    use(&user, 0, TEXTS, NULL);
    end(&user);
    user = begin_with(nomic, NULL, 20000); /* the file of `used` stays, as it is in use */
    assert_int_equal(find_file(0, path), 2);
    end(&user);
    assert_int_equal(use(&used, 0, 4, NULL), 4);
    end(&used);
}

static void processes_share_a_file(void **state) {
    (void)state;
    enum { PROCESSES = 4 };
    pid_t children[PROCESSES];
    new_folder();
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0)
            continue;
        struct user user = begin_with(mpnet, NULL, 12000); /* they take each other's places */
        for (int round = 0; round < 30; round++)
            use(&user, (size_t)(round % 4) * 10, 10, NULL);
        end(&user);
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

static void a_full_disk_is_no_error(void **state) {
    (void)state;
    new_folder();
    struct user user = begin();
    use(&user, 0, 1, NULL);
    const struct rlimit none = {0, RLIM_INFINITY};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    use(&user, 1, 4, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    wisp_vector_cache_stats stats;
    wisp_vector_cache_get_stats(user.cache, &stats);
    assert_int_equal(stats.lost, 4);
    assert_int_equal(use(&user, 0, 1, NULL), 1);
    end(&user);
}

static void expect_refused(wisp_session *session, wisp_status status, const char *says) {
    wisp_vector_cache *cache;
    wisp_error error;
    assert_int_equal(wisp_vector_cache_open(session, folder, 0, &cache, &error), status);
    assert_null(cache);
    if (!strstr(error.message, says))
        fail_msg("%s", error.message);
}

static void what_cannot_be_done_is_refused(void **state) {
    (void)state;
    char path[600], target[600];
    wisp_error error;
    new_folder();
    struct user user = begin();
    assert_int_equal(find_file(0, path), 1);
    snprintf(target, sizeof target, "%s", temporary_path("elsewhere"));
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    expect_refused(user.session, WISP_ERROR_IO, "cannot open");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    expect_refused(user.session, WISP_ERROR_IO, "others can write to it");
    end(&user);
    new_folder();
    write_file(folder, "a file", 6);
    const wisp_model_options in_memory = {.in_memory = true};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    assert_int_equal(wisp_model_open("models/wisp-default.gguf", &in_memory, &model, &error),
                     WISP_OK);
    session = open_session_or_fail(model, 1);
    expect_refused(session, WISP_ERROR_UNSUPPORTED, "cannot be read again");
    wisp_session_close(session);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_found),
        cmocka_unit_test(options_have_rows_of_their_own),
        cmocka_unit_test(models_and_choices_have_files_of_their_own),
        cmocka_unit_test(truncated_texts_are_counted),
        cmocka_unit_test(errors_count_all_texts),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(a_file_keeps_its_bound),
        cmocka_unit_test(rows_of_a_time_to_come_go_first),
        cmocka_unit_test(files_of_others_go),
        cmocka_unit_test(processes_share_a_file),
        cmocka_unit_test(a_full_disk_is_no_error),
        cmocka_unit_test(what_cannot_be_done_is_refused),
    };
    make_texts();
    return cmocka_run_group_tests_name("vector_cache", tests, NULL, tear_down_temporary_folder);
}
