/* SPDX-License-Identifier: Apache-2.0
 * Compares the pixels of files with those that Pillow reads (tests/oracle/make_images.py), which
 * are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "images/file.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char *good_path(const char *name, char path[GOLDEN_PATH_BYTES]) {
    char within[256];
    snprintf(within, sizeof within, "images/good/%s", name);
    return data_path(within, path);
}

static struct image_file read_good(const char *path) {
    struct image_file file;
    wisp_error error;
    if (image_file_read(&file, path, wisp_image_decoder(), &error) != WISP_OK ||
        image_file_decode(&file, path, wisp_image_decoder(), &error) != WISP_OK)
        fail_msg("%s", error.message);
    return file;
}

/* Checks the pixels against hexadecimal digits. */
static void check_pixels(const wisp_image *image, const struct json *digits) {
    const size_t n = (size_t)image->width * image->height * 3;
    assert_int_equal(digits->text_length, 2 * n);
    for (size_t i = 0; i < n; i++) {
        char hex[3];
        snprintf(hex, sizeof hex, "%02x", (unsigned)image->pixels[i]);
        if (memcmp(hex, digits->text + 2 * i, 2) != 0)
            fail_msg("pixel %zu of row %zu, channel %zu: %s instead of %.2s", i / 3 % image->width,
                     i / 3 / image->width, i % 3, hex, digits->text + 2 * i);
    }
}

static void pixels_are_pillows(void **state) {
    (void)state;
    struct arena arena = {0};
    char path[GOLDEN_PATH_BYTES], *text;
    size_t n = 0;
    const struct json *cases = read_json_file(data_path("images/golden.json", path), &arena, &text);
    for (const struct json *c = cases->first; c; c = c->next, n++) {
        const char *name = json_get(c, "name")->text;
        uint64_t width = 0, height = 0;
        struct image_file file = read_good(good_path(name, path));
        print_message("%s\n", name);
        assert_true(json_to_u64(json_get(c, "width"), &width) && file.image.width == width);
        assert_true(json_to_u64(json_get(c, "height"), &height) && file.image.height == height);
        check_pixels(&file.image, json_get(c, "pixels"));
        image_file_release(&file);
    }
    assert_true(n > 30);
    arena_release(&arena);
    free(text);
}

static void bad_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *says;
        wisp_status status;
    } cases[] = {
        {"damaged.png", "bad checksum", WISP_ERROR_FORMAT},
        {"cut.png", "truncated input", WISP_ERROR_FORMAT},
        {"cut.jpg", "truncated input", WISP_ERROR_FORMAT},
        {"header.jpg", "truncated input", WISP_ERROR_FORMAT},
        {"text.png", "not an image of PNG, JPEG, GIF, BMP or WebP", WISP_ERROR_FORMAT},
        {"empty.jpg", "not an image", WISP_ERROR_FORMAT},
        {"lossy.webp", "unsupported WebP file", WISP_ERROR_FORMAT},
        {"bomb.png", "60000 x 60000 pixels", WISP_ERROR_UNSUPPORTED},
        {"wide.png", "70000 x 1 pixels", WISP_ERROR_UNSUPPORTED},
        {"none.png", "No such file", WISP_ERROR_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char within[256], path[GOLDEN_PATH_BYTES];
        struct image_file file;
        wisp_error error = {0};
        snprintf(within, sizeof within, "images/bad/%s", cases[i].name);
        data_path(within, path);
        wisp_status status = image_file_read(&file, path, wisp_image_decoder(), &error);
        if (status == WISP_OK)
            status = image_file_decode(&file, path, wisp_image_decoder(), &error);
        print_message("%s\n", error.message);
        assert_int_equal(status, cases[i].status);
        assert_non_null(strstr(error.message, cases[i].says));
        assert_memory_equal(error.message, path, strlen(path));
        assert_null(file.image.pixels && status == WISP_ERROR_UNSUPPORTED ? &file : NULL);
        image_file_release(&file);
    }
}

/* A file that ends anywhere before its last pixel is refused, and no byte behind it is read, which
 * asan would see. */
static void files_that_end_early(void **state) {
    (void)state;
    static const char *const names[] = {"rgb-16.png",      "interlaced.png", "420.jpg",
                                        "progressive.jpg", "palette.gif",    "lossless.webp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[GOLDEN_PATH_BYTES];
        size_t length;
        char *whole = read_file(good_path(names[i], path), &length);
        for (size_t n = 0; n < length; n += 1 + length / 97) {
            uint8_t *part = malloc(n + 1); /* exactly what is read, but for a byte */
            uint8_t *pixels = malloc((size_t)64 * 64 * 4);
            struct image_size size;
            assert_non_null(part);
            assert_non_null(pixels);
            memcpy(part, whole, n);
            const char *fault = wisp_image_decoder()->measure(part, n, &size);
            if (!fault) {
                assert_true(size.width <= 64 && size.height <= 64);
                fault = wisp_image_decoder()->decode(part, n, size, pixels);
            }
            if (!fault && n + 16 < length)
                fail_msg("%s: %zu of %zu bytes are an image", names[i], n, length);
            free(part);
            free(pixels);
        }
        free(whole);
    }
}

/* What stands in the way of a file's orientation leaves the picture as it is. */
static void damaged_orientations(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    size_t length;
    uint8_t *bytes = read_file(good_path("exif-6.jpg", path), &length);
    size_t at = 0;
    while (memcmp(bytes + at, "II*\0", 4) != 0)
        at++;
    assert_int_equal(orientation_find(bytes, length), ORIENTATION_RIGHT_TOP);
    for (size_t n = 0; n < at + 34; n++)
        assert_int_equal(orientation_find(bytes, n), ORIENTATION_TOP_LEFT);
    static const struct {
        size_t offset;
        uint8_t value;
    } cases[] = {{0, 'X'},   {2, 1},  {4, 0xF0}, {7, 0xFF}, {8, 1},
                 {22, 0x13}, {24, 4}, {30, 0},   {30, 9},   {31, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint8_t kept = bytes[at + cases[i].offset];
        bytes[at + cases[i].offset] = cases[i].value;
        print_message("byte %zu\n", cases[i].offset);
        assert_int_equal(orientation_find(bytes, length), ORIENTATION_TOP_LEFT);
        bytes[at + cases[i].offset] = kept;
    }
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_pillows),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(files_that_end_early),
        cmocka_unit_test(damaged_orientations),
    };
    return cmocka_run_group_tests_name("image_files", tests, NULL, tear_down_temporary_folder);
}
