/* SPDX-License-Identifier: Apache-2.0 */
#include "support/commands.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/folder.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

const struct command commands[COMMANDS] = {
    {"embed", {"embed", "-m", "tiny.gguf", "-t", "1", "lines.txt"}, .input = NULL},
    {"embed in threads",
     {"embed", "-m", "tiny.gguf", "-t", "3", "lines.txt", "lines.txt"},
     .input = NULL},
    {"embed to json",
     {"embed", "-m", "folder", "-t", "1", "--format", "json", "--text", "a man", "--text", ""},
     .closing = "]\n"},
    {"embed ndjson",
     {"embed", "-m", "tiny.gguf", "-t", "1", "--input", "ndjson", "--format", "ndjson"},
     .input = "lines.ndjson"},
    {"embed to npy",
     {"embed", "-m", "tiny.gguf", "-t", "1", "--format", "npy", "lines.txt"},
     .header = 128},
    {"embed to npy in a pipe",
     {"embed", "-m", "tiny.gguf", "-t", "1", "--format", "npy", "-"},
     .input = "lines.txt",
     .piped = true,
     .header = 128},
    {"embed with a trace",
     {"embed", "-m", "sparse.gguf", "-t", "1", "--predictor", "lowrank", "--sparsity", "0.7",
      "--recall", "--trace", "out/trace.json", "lines.txt"},
     .outputs = {"trace.json"},
     .figures = true},
    {"similarity",
     {"similarity", "-m", "tiny.gguf", "-t", "1", "--query", "a man", "--top", "4", "lines.txt"},
     .input = NULL},
    {"similarity of pairs",
     {"similarity", "-m", "tiny.gguf", "-t", "1", "--pairs"},
     .input = "pairs.tsv",
     .piped = true},
    {"index build",
     {"index", "build", "out/new.index", "-m", "tiny.gguf", "-t", "1", "--input", "ndjson"},
     .input = "lines.ndjson",
     .outputs = {"new.index"}},
    {"index list", {"index", "list", "texts.index", "--format", "ndjson"}, .piped = true},
    {"search",
     {"search", "texts.index", "-m", "tiny.gguf", "-t", "1", "--query", "a man", "--top", "4"},
     .input = NULL},
    {"search in threads",
     {"search", "texts.index", "-m", "tiny.gguf", "-t", "2", "--top", "2", "--format", "json"},
     .input = "prompt.txt",
     .closing = "]\n"},
    {"tokenize", {"tokenize", "-m", "tiny.gguf", "lines.txt"}, .input = NULL},
    {"tokenize to objects",
     {"tokenize", "-m", "stories.gguf", "--format", "ndjson", "lines.txt"},
     .piped = true},
    {"tokenize back",
     {"tokenize", "-m", "stories.gguf", "--decode", "--special", "ids.ndjson"},
     .input = NULL},
    {"convert a file",
     {"convert", "--type", "f16", "tiny.gguf", "out/new.gguf"},
     .outputs = {"new.gguf"}},
    {"quantize",
     {"quantize", "--type", "q8_0", "--fallback", "f16", "tiny.gguf", "out/new.gguf"},
     .outputs = {"new.gguf"}},
    {"quantize to ternary",
     {"quantize", "--type", "bitnet_t158", "tiny.gguf", "out/new.gguf", "--report", "out/report"},
     .outputs = {"new.gguf", "report.json", "report.svg"}},
    {"quantize nothing",
     {"quantize", "--dry-run", "--type", "q5_1,tq2_0", "--format", "json", "tiny.gguf"},
     .input = NULL},
    {"convert a folder", {"convert", "folder", "out/new.gguf"}, .outputs = {"new.gguf"}},
    {"calibrate",
     {"calibrate", "tiny.gguf", "--data", "lines.txt", "-o", "out/new.gguf", "--report",
      "out/report", "-t", "1", "--tokens", "200", "--rank", "2"},
     .outputs = {"new.gguf", "report.json", "report.svg"},
     .figures = true},
    {"inspect", {"inspect", "--sha256", "sparse.gguf"}, .input = NULL},
    {"inspect a folder", {"inspect", "--format", "json", "folder"}, .piped = true},
    {"inspect histograms",
     {"inspect", "--histogram", "--format", "json", "tiny.gguf"},
     .input = NULL},
    {"inspect neurons", {"inspect", "--neurons", "calibrated.gguf"}, .input = NULL},
    {"eval", {"eval", "sts", "-m", "sparse.gguf", "-t", "1", "--json"}, .input = "scores.tsv"},
    {"generate",
     {"generate", "-m", "stories.gguf", "-t", "1", "-n", "4", "--temperature", "0.5", "--top-k",
      "9", "--stop", "xyz", "--echo", "prompt.txt"},
     .input = NULL},
    {"chat",
     {"generate", "-m", "stories.gguf", "-t", "1", "-n", "4", "--chat", "--chat-format", "plain",
      "--system", "A story."},
     .input = "chat.txt",
     .outputs = {"chat.json"}},
    {"reply to conversations",
     {"generate", "-m", "stories.gguf", "-t", "1", "-n", "4", "--chat-format", "plain",
      "--messages", "conversations.ndjson"},
     .piped = true},
    {"version", {"--version"}, .input = NULL},
};

/* Absolute paths, because commands run in `folder`. */
static char folder[128], programs[2][PATH_MAX];

/* Outcomes that were wrong since commands_expect_right. */
static size_t wrong;

/* What stands in an output before a command runs: a file of the kind that is written, which alone
 * is replaced without --force. */
static const char *old_contents_of(const char *output) {
    static const char *const kinds[][2] = {{".gguf", "GGUF that stood here before"},
                                           {".index", "WISPINDX that stood here before"},
                                           {".svg", "<svg>that stood here before"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(output, kinds[i][0]))
            return kinds[i][1];
    return "{\"stood here\": \"before\"}";
}

/* All that a command writes: standard output, and its files. */
struct written {
    struct bytes output, files[COMMAND_OUTPUTS];
};

static struct written whole[COMMANDS];

const char *command_program(bool refusing) {
    char *path = programs[refusing];
    if (!*path) { /* build/native/tests/malformed/TEST is beside build/native/wisp */
        char self[PATH_MAX];
        const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        assert_true(length > 0);
        self[length] = '\0';
        for (int up = 0; up < 3; up++)
            *strrchr(self, '/') = '\0';
        assert_true(snprintf(path, PATH_MAX, "%s/wisp%s", self, refusing ? "-refusing" : "") <
                    PATH_MAX);
    }
    return path;
}

/* ---- files ---------------------------------------------------------------------------------- */

static const char *in_folder(const char *name) {
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *in_out(const char *name) {
    char below[300];
    snprintf(below, sizeof below, "out/%s", name);
    return in_folder(below);
}

static void read_descriptor(int descriptor, struct bytes *bytes) {
    char chunk[4096];
    for (ssize_t n; (n = read(descriptor, chunk, sizeof chunk)) > 0;)
        bytes_put(bytes, chunk, (size_t)n);
    close(descriptor);
}

/* Returns whether the file exists. */
static bool read_file(const char *path, struct bytes *bytes) {
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0)
        read_descriptor(descriptor, bytes);
    return descriptor >= 0;
}

/* Removes the files in `out` that no command writes, and returns how many there were. */
static size_t clear_leftovers(const struct command *command, char name[256]) {
    size_t found = 0;
    DIR *listing = opendir(in_folder("out"));
    assert_non_null(listing);
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        bool known = *entry->d_name == '.';
        for (size_t i = 0; i < COMMAND_OUTPUTS && command->outputs[i]; i++)
            known = known || strcmp(command->outputs[i], entry->d_name) == 0;
        if (known)
            continue;
        snprintf(name, 256, "%s", entry->d_name);
        assert_int_equal(unlink(in_out(entry->d_name)), 0);
        found++;
    }
    closedir(listing);
    return found;
}

/* Replaces each number by one #, so that runs that took other times compare equal. */
static void mask_figures(struct bytes *bytes) {
    size_t to = 0;
    bool within = false;
    for (size_t i = 0; i < bytes->size; i++) {
        const unsigned char c = bytes->data[i];
        const bool figure = (c >= '0' && c <= '9') || (within && strchr("0123456789.e+-", c) && c);
        if (!figure || !within)
            bytes->data[to++] = figure ? '#' : c;
        within = figure;
    }
    bytes->size = to;
}

static bool same(const struct bytes *a, const struct bytes *b) {
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

/* Returns whether these are the first bytes of what the command writes. */
static bool is_beginning(const struct bytes *part, const struct command *command) {
    const struct bytes *all = &whole[command - commands].output;
    const size_t skipped = command->header;
    const size_t closing = command->closing ? strlen(command->closing) : 0;
    size_t size = part->size;
    if (closing > 0 && size >= closing &&
        memcmp(part->data + size - closing, command->closing, closing) == 0)
        size -= closing;
    return size <= all->size &&
           (size <= skipped ||
            memcmp(part->data + skipped, all->data + skipped, size - skipped) == 0);
}

/* Returns whether the file is as a good run writes it. A trace may lack spans for which there was
 * no memory; it says how many. */
static bool is_whole_file(const struct bytes *now, const struct command *command, size_t output) {
    enum { END = 24 };
    const struct bytes *all = &whole[command - commands].files[output];
    if (strcmp(command->outputs[output], "trace.json") != 0)
        return same(now, all);
    return now->size >= END && memcmp(now->data, all->data, END) == 0 &&
           memcmp(now->data + now->size - END, all->data + all->size - END, END) == 0;
}

/* ---- running -------------------------------------------------------------------------------- */

/* Seconds for a command that takes about 0.1. */
enum { PATIENCE = 600 };

static struct {
    const char *name;
    pid_t pid;
} running;

/* Ends the test when a command hangs. */
static void give_up(int number) {
    static const char hangs[] = " hangs\n";
    (void)number;
    kill(running.pid, SIGKILL);
    if (write(STDERR_FILENO, running.name, strlen(running.name)) < 0 ||
        write(STDERR_FILENO, hangs, sizeof hangs - 1) < 0)
        _exit(2);
    _exit(1);
}

static int open_or_die(const char *path, int flags) {
    const int descriptor = open(path, flags | O_CLOEXEC, 0666);
    if (descriptor < 0)
        _exit(125);
    return descriptor;
}

static _Noreturn void become_program(const struct command_run *run, int output, int messages) {
    const struct command *command = run->command;
    const char *arguments[COMMAND_ARGUMENTS + 2] = {"wisp"};
    memcpy(arguments + 1, command->arguments, sizeof command->arguments);
    if (chdir(folder) != 0)
        _exit(125);
    dup2(open_or_die(command->input ? command->input : "/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(command->piped ? output : open_or_die("stdout", O_WRONLY | O_CREAT | O_TRUNC),
         STDOUT_FILENO);
    dup2(messages, STDERR_FILENO);
    unsetenv("WISP_MODEL");
    if (run->prepare)
        run->prepare(run->context);
    execv(command_program(run->refusing), (char **)(uintptr_t)arguments);
    _exit(127);
}

pid_t command_start(struct command_run *run) {
    char name[256];
    int output[2] = {-1, -1}, messages[2];
    clear_leftovers(run->command, name);
    unlink(
        in_folder("stdout")); /* of the run before, which may be killed before it opens its own */
    for (size_t i = 0; i < COMMAND_OUTPUTS && run->command->outputs[i]; i++) {
        const char *path = in_out(run->command->outputs[i]);
        if (run->existing)
            write_file(path, old_contents_of(run->command->outputs[i]),
                       strlen(old_contents_of(run->command->outputs[i])));
        else
            unlink(path);
    }
    if (run->command->piped)
        assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    assert_int_equal(pipe2(messages, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        become_program(run, output[1], messages[1]);
    if (run->command->piped)
        close(output[1]);
    close(messages[1]);
    run->output = output[0];
    run->messages = messages[0];
    running.name = run->command->name;
    running.pid = pid;
    signal(SIGALRM, give_up);
    alarm(PATIENCE);
    return pid;
}

int command_wait(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSTOPPED(status))
        alarm(0);
    return status;
}

/* Reads what is in a pipe, whose other end nobody has any more, and closes it. */
static void read_pipe(int *descriptor, struct bytes *bytes) {
    if (*descriptor >= 0)
        read_descriptor(*descriptor, bytes);
    *descriptor = -1;
}

static void read_output(struct command_run *run, struct bytes *bytes) {
    if (run->command->piped)
        read_pipe(&run->output, bytes);
    else
        read_file(in_folder("stdout"), bytes);
    if (run->command->figures)
        mask_figures(bytes);
}

/* ---- outcomes ------------------------------------------------------------------------------- */

void command_wrong(const struct command_run *run, const char *what, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s, %s: %s\n", run->command->name, what, text);
    wrong++;
}

void commands_expect_right(void) {
    const size_t n = wrong;
    wrong = 0;
    if (n > 0)
        fail_msg("%zu outcomes are wrong", n);
}

static void check_files(const struct command_run *run, bool good, const char *what) {
    const struct command *command = run->command;
    for (size_t i = 0; i < COMMAND_OUTPUTS && command->outputs[i]; i++) {
        struct bytes now = {0};
        const bool exists = read_file(in_out(command->outputs[i]), &now);
        bool before = exists == run->existing;
        if (exists && run->existing)
            before = now.size == strlen(old_contents_of(command->outputs[i])) &&
                     memcmp(now.data, old_contents_of(command->outputs[i]), now.size) == 0;
        if (command->figures)
            mask_figures(&now);
        const bool is_whole = exists && is_whole_file(&now, command, i);
        if (!is_whole && (good || !before))
            command_wrong(run, what, "%s has %zu bytes and is not whole", command->outputs[i],
                          now.size);
        bytes_release(&now);
    }
}

static void check_message(struct command_run *run, int code, const char *what) {
    struct bytes message = {0};
    read_pipe(&run->messages, &message);
    bytes_put(&message, "", 1);
    if (code > 4 && code != 130 && code != 141)
        command_wrong(run, what, "exit code %d: %s", code, (const char *)message.data);
    if (code <= 4 && !strstr((const char *)message.data, "wisp: "))
        command_wrong(run, what, "exit code %d without a message: %s", code,
                      (const char *)message.data);
    bytes_release(&message);
}

void command_check_files(struct command_run *run, int status, const char *what) {
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    char name[256];
    struct bytes unread = {0};
    read_pipe(&run->output, &unread);
    read_pipe(&run->messages, &unread);
    bytes_release(&unread);
    check_files(run, WIFEXITED(status) && WEXITSTATUS(status) == 0, what);
    if (clear_leftovers(run->command, name) > 0 && !killed && !run->leaves)
        command_wrong(run, what, "leaves %s", name);
}

bool command_check(struct command_run *run, int status, const char *what) {
    const struct command *command = run->command;
    const struct bytes *expected = &whole[command - commands].output;
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    struct bytes output = {0};
    read_output(run, &output);
    if (!WIFEXITED(status) && !killed)
        command_wrong(run, what, "ended by signal %d", WTERMSIG(status));
    if (good ? !same(&output, expected) : !is_beginning(&output, command))
        command_wrong(run, what, "status %#x, and the output is wrong: %zu bytes instead of %zu",
                      (unsigned)status, output.size, expected->size);
    bytes_release(&output);
    if (!good && WIFEXITED(status))
        check_message(run, WEXITSTATUS(status), what);
    command_check_files(run, status, what);
    return good;
}

void command_input(const struct command *command, struct bytes *input) {
    assert_true(read_file(in_folder(command->input), input));
}

bool command_wrote(const struct command *command, const struct bytes *output) {
    return same(output, &whole[command - commands].output);
}

void command_run_whole(const struct command *command, bool existing, const char *what) {
    struct command_run run = {.command = command, .existing = existing};
    if (!command_check(&run, command_wait(command_start(&run)), what))
        command_wrong(&run, what, "fails");
}

/* ---- the folder ----------------------------------------------------------------------------- */

static void put_texts(void) {
    struct texts texts;
    struct bytes lines = {0}, objects = {0}, pairs = {0}, scores = {0};
    char line[2 * TEXT_BYTES + 64];
    make_texts(&texts);
    for (size_t i = 0; i + 1 < TEXTS; i++) {
        const char *a = texts.bytes[i], *b = texts.bytes[i + 1];
        bytes_put(&lines, line, (size_t)snprintf(line, sizeof line, "%s\n", a));
        if (i % 8 == 0)
            bytes_put(&pairs, line, (size_t)snprintf(line, sizeof line, "%s\t%s\n", a, b));
        if (i % 8 == 0)
            bytes_put(&scores, line,
                      (size_t)snprintf(line, sizeof line, "%zu.5\t%s\t%s\n", i % 5, a, b));
        if (i % 16 == 0)
            bytes_put(&objects, line,
                      (size_t)snprintf(line, sizeof line, "{\"id\":%zu,\"text\":\"%s\"}\n", i, a));
    }
    write_file(in_folder("lines.txt"), lines.data, lines.size);
    write_file(in_folder("lines.ndjson"), objects.data, objects.size);
    write_file(in_folder("pairs.tsv"), pairs.data, pairs.size);
    write_file(in_folder("scores.tsv"), scores.data, scores.size);
    static const char chat[] = "Once upon a time\n\n//One day\n/save out/chat.json\n"
                               "/clear\n/load out/chat.json\nThe dog\n";
    static const char conversations[] =
        "[{\"role\": \"user\", \"content\": \"Once\"}]\n\n"
        "{\"messages\": [{\"role\": \"system\", \"content\": \"A story.\"}, {\"role\": "
        "\"user\", \"content\": [{\"type\": \"text\", \"text\": \"The dog\"}]}]}\n";
    static const char ids[] = "[1,403,407]\n{\"ids\": [200, 3, 255, 410]}\n[]\n";
    write_file(in_folder("ids.ndjson"), ids, sizeof ids - 1);
    write_file(in_folder("chat.txt"), chat, sizeof chat - 1);
    write_file(in_folder("conversations.ndjson"), conversations, sizeof conversations - 1);
    write_file(in_folder("prompt.txt"), texts.bytes[1], strlen(texts.bytes[1]));
    bytes_release(&lines);
    bytes_release(&objects);
    bytes_release(&pairs);
    bytes_release(&scores);
}

/* An index of the model tiny.gguf, with rows and one that was removed. */
static void put_index(void) {
    static const char *const names[] = {"one", "two", "three", "four", "five"};
    enum { N = sizeof names / sizeof *names };
    const wisp_text object = wisp_text_of("{\"text\":\"a man\"}");
    wisp_text ids[N], metadata[N];
    wisp_model *model;
    wisp_session *session;
    wisp_index *index;
    float *rows;
    for (size_t i = 0; i < N; i++) {
        ids[i] = wisp_text_of(names[i]);
        metadata[i] = object;
    }
    assert_int_equal(wisp_model_open(in_folder("tiny.gguf"), NULL, &model, NULL), WISP_OK);
    assert_int_equal(wisp_session_open(model, NULL, &session, NULL), WISP_OK);
    assert_int_equal(wisp_index_create(session, 0, WISP_INDEX_INT8, &index, NULL), WISP_OK);
    rows = calloc(N, wisp_model_dimensions(model) * sizeof *rows);
    assert_non_null(rows);
    assert_int_equal(wisp_embed(session, ids, N, NULL, rows, NULL), WISP_OK);
    assert_int_equal(wisp_index_add(index, ids, metadata, rows, N, NULL), WISP_OK);
    assert_int_equal(wisp_index_remove(index, &ids[2], 1, NULL, NULL), WISP_OK);
    assert_int_equal(wisp_index_save(index, in_folder("texts.index"), NULL), WISP_OK);
    free(rows);
    wisp_index_close(index);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void put_models(void) {
    struct gguf file;
    struct folder made;
    const struct predicting p = {.shape = &tiny_shape_q8_0,
                                 .activation = "gelu",
                                 .rank = 8,
                                 .type = BLOCK_F32,
                                 .by_text = true};
    gguf_make(&file, &tiny_shape);
    write_made(&file, in_folder("tiny.gguf"));
    make_predicting(&file, &p);
    write_made(&file, in_folder("sparse.gguf"));
    folder_make(&made, &tiny_shape);
    folder_write(&made, in_folder("folder"));
    folder_release(&made);
    calibrate_or_fail(in_folder("tiny.gguf"), in_folder("calibrated.gguf"), 1);
    struct bytes stories = {0};
    assert_true(read_file("models/wisp-stories.gguf", &stories));
    write_file(in_folder("stories.gguf"), stories.data, stories.size);
    bytes_release(&stories);
}

int commands_set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s", temporary_path("commands"));
    make_folder(folder);
    make_folder(in_folder("out"));
    put_texts();
    put_models();
    put_index();
    for (size_t i = 0; i < COMMANDS; i++) {
        struct command_run run = {.command = &commands[i]};
        const int status = command_wait(command_start(&run));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            struct bytes message = {0};
            read_pipe(&run.messages, &message);
            bytes_put(&message, "", 1);
            print_error("%s: %s does not run: status %d: %s\n", command_program(false),
                        commands[i].name, status, message.data);
            return -1;
        }
        read_output(&run, &whole[i].output);
        close(run.messages);
        for (size_t o = 0; o < COMMAND_OUTPUTS && commands[i].outputs[o]; o++) {
            read_file(in_out(commands[i].outputs[o]), &whole[i].files[o]);
            if (commands[i].figures)
                mask_figures(&whole[i].files[o]);
        }
    }
    return 0;
}

int commands_tear_down(void **state) {
    (void)state;
    for (size_t i = 0; i < COMMANDS; i++) {
        bytes_release(&whole[i].output);
        for (size_t o = 0; o < COMMAND_OUTPUTS; o++)
            bytes_release(&whole[i].files[o]);
    }
    remove_temporary_folder();
    return 0;
}
