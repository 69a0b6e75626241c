/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/console.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/utf8.h"

enum { OUTPUT_BUFFER_BYTES = 1 << 16 };

FILE *program_output;
bool program_is_quiet;

/* The errno of the first write to standard output that failed, or 0. */
static int output_error;
static bool error_was_reported;

/* Writes all bytes, waiting if the descriptor is not ready. A signal does not end the wait: what
 * is being written are whole records, and a second signal ends the program. */
static ssize_t write_output(void *cookie, const char *bytes, size_t length) {
    size_t done = 0;
    (void)cookie;
    while (output_error == 0 && done < length) {
        const ssize_t count = write(STDOUT_FILENO, bytes + done, length - done);
        if (count >= 0) {
            done += (size_t)count;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd waiting = {.fd = STDOUT_FILENO, .events = POLLOUT};
            poll(&waiting, 1, -1);
        } else if (errno != EINTR) {
            output_error = errno;
        }
    }
    return output_error == 0 ? (ssize_t)length : 0;
}

static bool occupy_descriptors(void) {
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF)
            continue;
        /* open returns the lowest number that is free, which is this one. */
        const int mode = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (open("/dev/null", mode) != descriptor)
            return false;
    }
    return true;
}

bool console_open(void) {
    /* A stream of fopencookie takes the size of its buffer only if it is given the buffer. */
    static char buffer[OUTPUT_BUFFER_BYTES];
    const cookie_io_functions_t functions = {.write = write_output};
    if (!occupy_descriptors())
        return false;
    program_output = fopencookie(NULL, "w", functions);
    return program_output && setvbuf(program_output, buffer, _IOFBF, sizeof buffer) == 0;
}

int finish_output(void) {
    const int flushed = fflush(program_output);
    if (output_error == EPIPE)
        return EXIT_CLOSED_PIPE;
    if (output_error == 0 && flushed == 0)
        return EXIT_GOOD;
    if (!error_was_reported)
        complain("cannot write the output: %s", strerror(output_error ? output_error : EIO));
    error_was_reported = true;
    return EXIT_FAILED;
}

void say_that_input_is_awaited(void) {
    if (isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1)
        remark("reads from the terminal; Ctrl-D at the beginning of a line ends");
}

bool is_output_file(const struct stat *info) {
    struct stat output;
    return fstat(STDOUT_FILENO, &output) == 0 && S_ISREG(output.st_mode) &&
           output.st_dev == info->st_dev && output.st_ino == info->st_ino;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Writes text as print_text does. Sets *columns to the number of characters that appear. */
static size_t put_text(FILE *stream, wisp_text text, size_t most, size_t *columns) {
    static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
    size_t used = 0, shown = 0;
    for (size_t characters = 0; used < text.length && characters < most; characters++) {
        uint32_t c;
        const char *at = text.bytes + used;
        const size_t bytes = utf8_decode(at, text.length - used, &c);
        used += bytes;
        shown++;
        if (c == UTF8_INVALID) {
            fputs(replacement, stream);
        } else if (utf8_controls_terminal(c)) {
            fprintf(stream, "\\u%04x", (unsigned)c);
            shown += 5;
        } else {
            fwrite(at, 1, bytes, stream);
        }
    }
    *columns = shown;
    return used;
}

size_t print_text(FILE *stream, wisp_text text, size_t most) {
    size_t columns;
    return put_text(stream, text, most, &columns);
}

void print_padded(wisp_text text, size_t most, size_t width) {
    size_t columns;
    put_text(program_output, text, most, &columns);
    fprintf(program_output, "%*s", columns < width ? (int)(width - columns) : 0, "");
}

static wisp_status write_to_stream(void *context, const void *bytes, size_t length,
                                   wisp_error *error) {
    (void)error;
    fwrite(bytes, 1, length, context);
    return WISP_OK; /* the stream remembers its errors */
}

void print_json_string(FILE *stream, wisp_text text) {
    const struct byte_sink sink = {write_to_stream, stream};
    json_write_string(&sink, text, NULL);
}

bool close_memstream(FILE *stream, char *const *text) {
    const bool kept = !ferror(stream);
    return fclose(stream) == 0 && kept && *text;
}

int complain_of_memory(void) {
    complain("out of memory");
    return EXIT_FAILED;
}

static char complaint[PATH_MAX + 1024];

wisp_text last_complaint(void) {
    return wisp_text_of(complaint);
}

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list args) {
    vsnprintf(complaint, sizeof complaint, format, args);
    fputs("wisp: ", stderr);
    print_text(stderr, wisp_text_of(complaint), SIZE_MAX);
    fputc('\n', stderr);
}

void complain(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

void remark(const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (!program_is_quiet)
        say(format, args);
    va_end(args);
}
