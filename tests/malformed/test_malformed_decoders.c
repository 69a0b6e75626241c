/* SPDX-License-Identifier: Apache-2.0
 * Decoders of every architecture with one fault each: tensors that are missing or do not fit, keys
 * that are missing, of a wrong type or out of range, and what is not computed. opening.h has the
 * promises that hold for all of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#undef fail /* base/status.h has another */

#include "formats/directory.h"
#include "support/allocations.h"
#include "support/decoders.h"
#include "support/opening.h"

static void make_bytes(struct gguf *file, struct bytes *out) {
    gguf_settle(file);
    gguf_write_bytes(file, out);
    gguf_release(file);
}

/* Opens a file in memory, which this function releases. */
static struct opening open_file(struct gguf *file) {
    struct bytes bytes = {0};
    make_bytes(file, &bytes);
    const struct opening opening = open_data(bytes.data, bytes.size);
    bytes_release(&bytes);
    return opening;
}

static void all_open(void **state) {
    (void)state;
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        struct gguf file;
        struct bytes bytes = {0};
        decoder_make(&file, tiny);
        make_bytes(&file, &bytes);
        expect_opening(&bytes, WISP_OK, NULL, NULL);
        bytes_release(&bytes);
    }
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void a_tensor_is_missing(void **state) {
    (void)state;
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        struct gguf whole;
        decoder_make(&whole, tiny);
        for (size_t i = 0; i < whole.n_tensors; i++) {
            struct gguf file;
            char name[80] = "";
            decoder_make(&file, tiny);
            memcpy(name, file.tensors[i].name.data, file.tensors[i].name.size);
            gguf_drop_tensor(&file, name);
            const struct opening opening = open_file(&file);
            expect_outcome(&opening, WISP_ERROR_NOT_FOUND, name, NULL);
        }
        gguf_release(&whole);
    }
}

/* Halves and doubles each dimension of each tensor. The vocabulary's size is that of the token
 * embedding, so that other tensors may be named. */
static void a_tensor_has_another_shape(void **state) {
    (void)state;
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        struct gguf whole;
        decoder_make(&whole, tiny);
        for (size_t i = 0; i < 4 * whole.n_tensors; i++) {
            const size_t at = i / 4, dim = i / 2 % 2;
            struct gguf file;
            decoder_make(&file, tiny);
            struct gguf_tensor *tensor = &file.tensors[at];
            const bool vector = tensor->n_dims == 1;
            if (dim < tensor->n_dims) {
                tensor->dims[dim] = i % 2 ? 2 * tensor->dims[dim] : tensor->dims[dim] / 2;
                if (i % 2)
                    bytes_put(&tensor->data, tensor->data.data, tensor->data.size);
                else
                    tensor->data.size /= 2;
            }
            const struct opening opening = open_file(&file);
            if (dim == 0 || !vector)
                expect_outcome(&opening, WISP_ERROR_FORMAT, NULL, NULL);
        }
        gguf_release(&whole);
    }
}

static void a_weight_is_not_finite(void **state) {
    (void)state;
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        struct gguf whole;
        decoder_make(&whole, tiny);
        for (size_t i = 0; i < whole.n_tensors; i++) {
            struct gguf file;
            decoder_make(&file, tiny);
            bytes_set_f32(&file.tensors[i].data, file.tensors[i].data.size - 4,
                          i % 2 ? NAN : INFINITY);
            const struct opening opening = open_file(&file);
            expect_outcome(&opening, WISP_ERROR_FORMAT, NULL, NULL);
        }
        gguf_release(&whole);
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Every key of the architecture and the vocabulary, dropped and of wrong types: the model opens or
 * an error names something. */
static void any_key_is_spoilt(void **state) {
    static const struct {
        size_t size;
        uint32_t type;
        unsigned char value[12];
    } others[] = {{4, VALUE_U32, {0}},
                  {4, VALUE_U32, {255, 255, 255, 255}},
                  {4, VALUE_I32, {255, 255, 255, 255}},
                  {4, VALUE_F32, {0, 0, 192, 127}}, /* NaN */
                  {4, VALUE_F32, {0, 0, 128, 255}}, /* minus infinity */
                  {4, VALUE_F32, {0, 0, 128, 191}}, /* -1 */
                  {1, VALUE_BOOL, {1}},
                  {8, VALUE_STRING, {0}},
                  {12, VALUE_ARRAY, {VALUE_U32, 0}}};
    enum { OTHERS = sizeof others / sizeof *others };
    (void)state;
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        struct gguf whole;
        decoder_make(&whole, tiny);
        for (size_t i = 0; i < whole.n_keys * (OTHERS + 1); i++) {
            struct gguf file;
            char name[80] = "";
            decoder_make(&file, tiny);
            const struct gguf_key *key = &file.keys[i / (OTHERS + 1)];
            memcpy(name, key->name.data, key->name.size);
            const size_t other = i % (OTHERS + 1);
            if (other == OTHERS)
                gguf_drop_key(&file, name);
            else
                gguf_set(&file, name, others[other].type, others[other].value, others[other].size);
            const struct opening opening = open_file(&file);
            expect_typed(&opening);
        }
        gguf_release(&whole);
    }
}

/* A key of the architecture with a value that is refused by the key's name. */
struct refused {
    const char *architecture, *key;
    const char *text;
    double number;
    const char *says;
    enum { TEXT, INTEGER, FLOAT, MISSING } kind;
    wisp_status status;
};

static const struct refused all_refused[] = {
    {"llama", "expert_count", NULL, 8, "8 experts", INTEGER, WISP_ERROR_UNSUPPORTED},
    {"gpt2", "expert_count", NULL, 8, "8 experts", INTEGER, WISP_ERROR_UNSUPPORTED},
    {"gemma3", "expert_count", NULL, 8, "8 experts", INTEGER, WISP_ERROR_UNSUPPORTED},
    {"llama", "logit_scale", NULL, 0.5, "only 1", FLOAT, WISP_ERROR_UNSUPPORTED},
    {"llama", "residual_scale", NULL, 0.5, "only 1", FLOAT, WISP_ERROR_UNSUPPORTED},
    {"llama", "embedding_scale", NULL, 12, "only 1", FLOAT, WISP_ERROR_UNSUPPORTED},
    {"llama", "attention.clamp_kqv", NULL, 8, "only 0", FLOAT, WISP_ERROR_UNSUPPORTED},
    {"llama", "attention.max_alibi_bias", NULL, 8, "only 0", FLOAT, WISP_ERROR_UNSUPPORTED},
    {"llama", "attn_logit_softcapping", NULL, 50, "only 0", FLOAT, WISP_ERROR_UNSUPPORTED},
    {"gpt2", "final_logit_softcapping", NULL, 30, "only 0", FLOAT, WISP_ERROR_UNSUPPORTED},
    {"gpt2", "attention.sliding_window", NULL, 30, "only 0", INTEGER, WISP_ERROR_UNSUPPORTED},
    {"gemma2", "attn_logit_softcapping", NULL, -50, "at least 0", FLOAT, WISP_ERROR_FORMAT},
    {"gemma2", "final_logit_softcapping", NULL, NAN, "finite", FLOAT, WISP_ERROR_FORMAT},
    {"gemma3", "attention.scale", NULL, -1, "at least 0", FLOAT, WISP_ERROR_FORMAT},
    {"gemma3", "rope.freq_base_swa", NULL, 0.5, "at least 1", FLOAT, WISP_ERROR_FORMAT},
    {"gemma3", "rope.scaling.factor", NULL, 0.5, "at least 1", FLOAT, WISP_ERROR_FORMAT},
    {"gemma3", "rope.scaling.type", "su", 0, "only none, linear, yarn and longrope", TEXT,
     WISP_ERROR_UNSUPPORTED},
    {"gemma3", "rope.freq_base", NULL, 0, NULL, MISSING, WISP_ERROR_NOT_FOUND},
    {"gpt2", "attention.layer_norm_epsilon", NULL, 0, NULL, MISSING, WISP_ERROR_NOT_FOUND},
    {"gpt2", "context_length", NULL, 0, NULL, MISSING, WISP_ERROR_NOT_FOUND},
    {"gemma2", "attention.layer_norm_rms_epsilon", NULL, 0, NULL, MISSING, WISP_ERROR_NOT_FOUND},
    {"gemma2", "attention.head_count_kv", NULL, 3, "do not divide", INTEGER, WISP_ERROR_FORMAT},
    {"gemma3", "attention.key_length", NULL, 7, NULL, INTEGER, WISP_ERROR_UNSUPPORTED},
    {"llama", "rope.dimension_count", NULL, 3, "not an even number", INTEGER, WISP_ERROR_FORMAT},
    {"llama", "rope.dimension_count", NULL, 10, "10 of a head's 8", INTEGER, WISP_ERROR_FORMAT},
    {"granite", "logit_scale", NULL, -1, "at least 0", FLOAT, WISP_ERROR_FORMAT},
    {"granite", "residual_scale", NULL, NAN, "finite", FLOAT, WISP_ERROR_FORMAT},
    {"olmo2", "residual_scale", NULL, 2, "only 1", FLOAT, WISP_ERROR_UNSUPPORTED},
};

static void bad_values_are_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof all_refused / sizeof *all_refused; i++) {
        const struct refused *r = &all_refused[i];
        const struct tiny_decoder *tiny = tiny_decoders;
        struct gguf file;
        char key[80];
        while (strcmp(tiny->architecture, r->architecture) != 0)
            tiny++;
        decoder_make(&file, tiny);
        snprintf(key, sizeof key, "%s.%s", r->architecture, r->key);
        if (r->kind == TEXT)
            gguf_set_text(&file, key, r->text);
        else if (r->kind == INTEGER)
            gguf_set_u32(&file, key, (uint32_t)r->number);
        else if (r->kind == FLOAT)
            gguf_set_f32(&file, key, (float)r->number);
        else
            gguf_drop_key(&file, key);
        const struct opening opening = open_file(&file);
        expect_outcome(&opening, r->status, key, r->says);
    }
}

/* Activations that an architecture does not have, and architectures that there are not. */
static void names_are_refused(void **state) {
    static const struct {
        const char *architecture, *key, *value, *says;
    } names[] = {{"llama", "wisp.hidden_act", "fatrelu", "only silu, relu and relu2"},
                 {"llama", "wisp.hidden_act", "gelu", "only silu, relu and relu2"},
                 {"gpt2", "wisp.hidden_act", "silu", "only gelu_new, gelu, relu and relu2"},
                 {"gemma3", "wisp.hidden_act", "silu", "only gelu_pytorch_tanh and relu"},
                 {"llama", "general.architecture", "llama4", "llama4"},
                 {"llama", "general.architecture", "gemma3n", "gemma3n"},
                 {"llama", "general.architecture", "qwen2moe", "qwen2moe"}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct tiny_decoder *tiny = tiny_decoders;
        struct gguf file;
        while (strcmp(tiny->architecture, names[i].architecture) != 0)
            tiny++;
        decoder_make(&file, tiny);
        gguf_set_text(&file, names[i].key, names[i].value);
        const struct opening opening = open_file(&file);
        expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, names[i].key, names[i].says);
    }
}

/* ---- sliding windows ------------------------------------------------------------------------ */

static void set_pattern(struct gguf *file, uint32_t element, size_t count, unsigned char value) {
    struct bytes array = {0};
    const size_t size = element == VALUE_BOOL ? 1 : 4;
    const unsigned char bytes[4] = {value};
    bytes_put_u32(&array, element);
    bytes_put_u64(&array, count);
    for (size_t i = 0; i < count; i++)
        bytes_put(&array, bytes, size);
    gguf_set(file, "gemma3.attention.sliding_window_pattern", VALUE_ARRAY, array.data, array.size);
    bytes_release(&array);
}

static void patterns_fit_the_layers(void **state) {
    static const struct {
        uint32_t element;
        size_t count;
        unsigned char value;
        wisp_status status;
    } patterns[] = {{VALUE_BOOL, DECODER_LAYERS, 1, WISP_OK},
                    {VALUE_U32, DECODER_LAYERS, 0, WISP_OK},
                    {VALUE_BOOL, DECODER_LAYERS - 1, 1, WISP_ERROR_FORMAT},
                    {VALUE_BOOL, DECODER_LAYERS + 1, 1, WISP_ERROR_FORMAT},
                    {VALUE_I32, DECODER_LAYERS, 2, WISP_ERROR_FORMAT},
                    {VALUE_F32, DECODER_LAYERS, 0, WISP_ERROR_FORMAT}};
    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const struct tiny_decoder *tiny = tiny_decoders;
        struct gguf file;
        while (strcmp(tiny->architecture, "gemma3") != 0)
            tiny++;
        decoder_make(&file, tiny);
        set_pattern(&file, patterns[i].element, patterns[i].count, patterns[i].value);
        const struct opening opening = open_file(&file);
        expect_outcome(&opening, patterns[i].status,
                       patterns[i].status ? "gemma3.attention.sliding_window_pattern" : NULL, NULL);
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

static wisp_status open_and_read(const struct bytes *file, wisp_error *error) {
    static const int32_t ids[] = {1, 5, 9};
    static float logits[3 * DECODER_VOCABULARY];
    const wisp_source source = {.size = file->size, .data = file->data, .name = "tiny"};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    wisp_status status = wisp_model_open_source(&source, NULL, &model, error);
    if (status == WISP_OK)
        status = wisp_session_open(model, NULL, &session, error);
    if (status == WISP_OK)
        status = wisp_logits(session, ids, 3, logits, error);
    wisp_session_close(session);
    wisp_model_close(model);
    return status;
}

/* Each allocation of opening a model and of a pass fails once. */
static void memory_runs_out(void **state) {
    (void)state;
    assert_true(allocations_are_watched());
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        struct gguf file;
        struct bytes bytes = {0};
        bool failed = true;
        decoder_make(&file, tiny);
        make_bytes(&file, &bytes);
        for (uint64_t n = 0; failed; n++) {
            wisp_error error = {0};
            allocations_watch();
            allocations_fail_after(n, n % 2);
            const wisp_status status = open_and_read(&bytes, &error);
            allocations_succeed();
            failed = allocations_seen().failed;
            assert_int_equal(status, failed ? WISP_ERROR_MEMORY : WISP_OK);
            assert_int_equal(error.status, status);
            assert_int_equal(allocations_seen().live, 0);
        }
        bytes_release(&bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_open),
        cmocka_unit_test(a_tensor_is_missing),
        cmocka_unit_test(a_tensor_has_another_shape),
        cmocka_unit_test(a_weight_is_not_finite),
        cmocka_unit_test(any_key_is_spoilt),
        cmocka_unit_test(bad_values_are_named),
        cmocka_unit_test(names_are_refused),
        cmocka_unit_test(patterns_fit_the_layers),
        cmocka_unit_test(memory_runs_out),
    };
    const int failed = cmocka_run_group_tests_name("malformed_decoders", tests, NULL, NULL);
    remove_temporary_folder();
    return failed;
}
