/* SPDX-License-Identifier: Apache-2.0
 * Compares the squares that are made of images, and embeddings of images, with those of
 * transformers and Pillow (tests/oracle/make_clip.py and make_siglip.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/image_pixels.h"
#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { MOST_IMAGES = 16, MOST_SIDE = 32, MOST_SIZE = 32 };

/* The folders of tests/data/models, and how they make squares. */
static const struct tower {
    const char *folder, *filter;
    bool crops;
    uint32_t side, size; /* of squares and of rows */
} towers[] = {{"models/clip", "bicubic", true, 32, 20},
              {"models/siglip", "bicubic", false, 30, 20},
              {"models/siglip2", "bilinear", false, 32, 32}};

enum { TOWERS = sizeof towers / sizeof *towers };

/* The images of a folder's golden-images.json. */
struct golden_images {
    const struct tower *tower;
    struct arena arena;
    char *text;
    size_t n;
    wisp_image images[MOST_IMAGES];
    const uint8_t *squares[MOST_IMAGES];
    float rows[MOST_IMAGES][MOST_SIZE];
};

/* Returns the bytes that a text has in hexadecimal digits. */
static const uint8_t *bytes_of(struct arena *arena, const struct json *text, size_t count) {
    uint8_t *bytes = arena_allocate(arena, count);
    assert_non_null(bytes);
    assert_int_equal(text->text_length, 2 * count);
    for (size_t i = 0; i < count; i++) {
        const char digits[] = {text->text[2 * i], text->text[2 * i + 1], '\0'};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return bytes;
}

static uint32_t number_of(const struct json *value) {
    uint64_t number;
    assert_true(json_to_u64(value, &number));
    return (uint32_t)number;
}

static void read_golden(struct golden_images *g, const struct tower *tower) {
    char path[GOLDEN_PATH_BYTES], name[GOLDEN_PATH_BYTES];
    const size_t pixels = (size_t)tower->side * tower->side;
    *g = (struct golden_images){.tower = tower};
    snprintf(name, sizeof name, "%s/golden-images.json", tower->folder);
    const struct json *cases = read_json_file(data_path(name, path), &g->arena, &g->text);
    for (const struct json *c = cases->first; c; c = c->next, g->n++) {
        const uint32_t width = number_of(json_get(c, "width"));
        const uint32_t height = number_of(json_get(c, "height"));
        assert_true(g->n < MOST_IMAGES);
        g->squares[g->n] = bytes_of(&g->arena, json_get(c, "square"), 3 * pixels);
        g->images[g->n] = (wisp_image){
            bytes_of(&g->arena, json_get(c, "pixels"), (size_t)3 * width * height), width, height};
        size_t i = 0;
        for (const struct json *v = json_get(c, "row")->first; v; v = v->next) {
            double value = 0;
            assert_true(i < tower->size && json_to_double(v, &value));
            g->rows[g->n][i++] = (float)value;
        }
    }
}

static void release_golden(struct golden_images *g) {
    free(g->text);
    arena_release(&g->arena);
}

static void squares_are_pillows(void **state) {
    (void)state;
    for (size_t t = 0; t < TOWERS; t++) {
        static struct golden_images g;
        read_golden(&g, &towers[t]);
        assert_true(g.n > 5);
        const struct image_fit fit = {.side = towers[t].side,
                                      .crops = towers[t].crops,
                                      .filter = image_filter_named(towers[t].filter)};
        assert_non_null(fit.filter);
        for (size_t i = 0; i < g.n; i++) {
            uint8_t square[3 * MOST_SIDE * MOST_SIDE];
            struct workspace space = {0};
            wisp_error error;
            assert_int_equal(workspace_reserve(&space, image_fit_bytes(&g.images[i], &fit), &error),
                             WISP_OK);
            image_make_square(&g.images[i], &fit, square, space);
            print_message("%s: %u x %u pixels\n", towers[t].folder, g.images[i].width,
                          g.images[i].height);
            assert_memory_equal(square, g.squares[i], (size_t)3 * fit.side * fit.side);
            workspace_release(&space);
        }
        release_golden(&g);
    }
    assert_null(image_filter_named("lanczos"));
}

static wisp_images *open_images(const wisp_model *model, uint32_t threads) {
    wisp_images *images;
    wisp_error error;
    if (wisp_images_open(model, threads, &images, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return images;
}

static void embed(wisp_images *images, const wisp_image *pictures, size_t n, float *rows) {
    wisp_error error;
    if (wisp_images_embed(images, pictures, n, rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

/* Checks the rows that each kernel set computes. */
static void check_rows(const char *path, const struct golden_images *g, wisp_compute compute,
                       double limit) {
    const char *kernels;
    for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
        static float rows[MOST_IMAGES * MOST_SIZE];
        const size_t size = g->tower->size;
        wisp_model *model = open_model_or_fail(path, compute, kernels);
        wisp_images *images = open_images(model, 2);
        double worst = 0;
        embed(images, g->images, g->n, rows);
        for (size_t i = 0; i < g->n; i++) {
            double squares = 0;
            for (size_t d = 0; d < size; d++)
                squares += pow((double)rows[i * size + d] - (double)g->rows[i][d], 2);
            worst = fmax(worst, sqrt(squares));
        }
        print_message("%s, %s: error %.2g\n", g->tower->folder, kernels, worst);
        assert_true(worst <= limit);
        wisp_images_close(images);
        wisp_model_close(model);
    }
}

static void rows_match_transformers(void **state) {
    (void)state;
    for (size_t t = 0; t < TOWERS; t++) {
        static struct golden_images g;
        char path[GOLDEN_PATH_BYTES], file[] = "/tmp/wisp-test-XXXXXX";
        read_golden(&g, &towers[t]);
        data_path(towers[t].folder, path);
        check_rows(path, &g, WISP_COMPUTE_F32, 1e-5);
        check_rows(path, &g, WISP_COMPUTE_INT8, 0.09);
        convert_data_or_fail(towers[t].folder, &(wisp_convert_options){.type = "f32"}, file);
        check_rows(file, &g, WISP_COMPUTE_F32, 1e-5);
        unlink(file);
        release_golden(&g);
    }
}

/* The bits of a row depend neither on the threads nor on the other images. */
static void check_bits(const struct tower *tower) {
    static struct golden_images g;
    static float together[MOST_IMAGES * MOST_SIZE], alone[MOST_SIZE];
    static wisp_image many[5 * MOST_IMAGES];
    static float rows[5 * MOST_IMAGES * MOST_SIZE];
    const size_t size = tower->size, bytes = size * sizeof *rows;
    char path[GOLDEN_PATH_BYTES];
    read_golden(&g, tower);
    wisp_model *model = open_model_or_fail(data_path(tower->folder, path), WISP_COMPUTE_INT8, NULL);
    wisp_images *one = open_images(model, 1), *three = open_images(model, 3);
    embed(one, g.images, g.n, together);
    for (size_t i = 0; i < 5 * g.n; i++)
        many[i] = g.images[i % g.n];
    embed(three, many, 5 * g.n, rows); /* more than one pass */
    for (size_t i = 0; i < 5 * g.n; i++)
        assert_memory_equal(rows + i * size, together + i % g.n * size, bytes);
    embed(three, &g.images[3], 1, alone);
    assert_memory_equal(alone, together + 3 * size, bytes);
    wisp_images_close(one);
    wisp_images_close(three);
    wisp_model_close(model);
    release_golden(&g);
}

static void bits_are_the_same(void **state) {
    (void)state;
    for (size_t t = 0; t < TOWERS; t++)
        check_bits(&towers[t]);
}

static void faults_are_refused(void **state) {
    (void)state;
    static const char *const without[] = {"models/cls12", "models/clip-text", "models/siglip-text"};
    const uint8_t pixel[3] = {0};
    const wisp_image flat = {pixel, 1, 0}, wide = {pixel, 70000, 1}, none = {NULL, 1, 1};
    char path[GOLDEN_PATH_BYTES];
    float row[MOST_SIZE];
    wisp_images *images;
    wisp_model *model;
    wisp_error error;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        model = open_model_or_fail(data_path(without[i], path), WISP_COMPUTE_F32, NULL);
        assert_int_equal(wisp_images_open(model, 1, &images, &error), WISP_ERROR_UNSUPPORTED);
        assert_string_equal(error.field, "images");
        assert_null(images);
        wisp_model_close(model);
    }
    const wisp_model_options in_memory = {.in_memory = true};
    data_path("models/clip", path);
    assert_int_equal(wisp_model_open(path, &in_memory, &model, &error), WISP_OK);
    assert_int_equal(wisp_images_open(model, 1, &images, &error), WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "in_memory"));
    wisp_model_close(model);

    model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
    assert_int_equal(wisp_images_open(model, 2000, &images, &error), WISP_ERROR_ARGUMENT);
    images = open_images(model, 1);
    assert_int_equal(wisp_images_embed(images, NULL, 0, NULL, &error), WISP_OK);
    assert_int_equal(wisp_images_embed(images, &flat, 1, row, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "height");
    assert_int_equal(wisp_images_embed(images, &wide, 1, row, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_images_embed(images, &none, 1, row, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "pixels");
    wisp_images_close(images);
    wisp_images_close(NULL);
    wisp_model_close(model);
}

/* The text tower opens whatever the image tower's tensors are, and the image tower says what is
 * wrong with them. */
static void towers_open_apart(void **state) {
    (void)state;
    static const struct {
        const char *folder, *old, *with;
        wisp_status status; /* of opening images; of the first case, the model does not open */
        const char *field;
    } cases[] = {
        {"clip", "vision_model.pre_layrnorm.bias", "vision_model.pre_layrnorm.weigh", WISP_OK,
         NULL},
        {"clip", "\"vision_model.embeddings.class_embedding\"",
         "\"vision_model.embeddings.position_ids___\"", WISP_ERROR_NOT_FOUND, "class_embd"},
        {"siglip", "\"vision_model.embeddings.patch_embedding.weight\"",
         "\"vision_model.embeddings.position_ids__________\"", WISP_ERROR_UNSUPPORTED, "images"},
        {"siglip", "\"vision_model.head.probe\"", "\"logit_bias_of_nothing__\"",
         WISP_ERROR_NOT_FOUND, "pool_probe"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct folder folder;
        wisp_images *images;
        wisp_model *model;
        wisp_error error;
        folder_read_model(&folder, cases[i].folder);
        folder_replace(&folder, "model.safetensors", cases[i].old, cases[i].with);
        const char *path = temporary_path("towers");
        folder_write(&folder, path);
        folder_release(&folder);
        const wisp_status status = wisp_model_open(path, NULL, &model, &error);
        if (!cases[i].field) {
            assert_int_equal(status, WISP_ERROR_UNSUPPORTED);
            assert_non_null(strstr(error.message, "pre_layrnorm.weigh"));
            continue;
        }
        assert_int_equal(status, WISP_OK);
        assert_int_equal(wisp_images_open(model, 1, &images, &error), cases[i].status);
        assert_string_equal(error.field, cases[i].field);
        wisp_model_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squares_are_pillows), cmocka_unit_test(rows_match_transformers),
        cmocka_unit_test(bits_are_the_same),   cmocka_unit_test(faults_are_refused),
        cmocka_unit_test(towers_open_apart),
    };
    return cmocka_run_group_tests_name("images", tests, NULL, tear_down_temporary_folder);
}
