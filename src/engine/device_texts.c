/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/device_texts.h"

static const struct device_decoder_library *library_of(const wisp_model *model) {
    return &model->device.library->decoder;
}

static wisp_status check(const wisp_model *model, enum device_status status, const char *message,
                         wisp_error *error) {
    return device_check(status, model->dir.file, message, error);
}

wisp_status texts_need_host(const wisp_model *model, const char *field, const char *what,
                            wisp_error *error) {
    if (!texts_on_device(model))
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, field,
                "the device %s has the keys and values of texts, and %s is not possible there: use "
                "the device cpu",
                model->device.library->name, what);
}

wisp_status device_texts_check(const wisp_model *model, const wisp_session_options *options,
                               const struct attention_choice *attention, wisp_error *error) {
    const struct attention_choice full = attention_default(true);
    if (!texts_on_device(model))
        return WISP_OK;
    if (attention->prefill != full.prefill || attention->decode != full.decode)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "attention",
                    "the device %s computes full attention only: use the device cpu",
                    model->device.library->name);
    if (options && options->cache_type == WISP_CACHE_INT8)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "cache_type",
                    "the device %s keeps keys and values as f16: use the device cpu for int8",
                    model->device.library->name);
    return WISP_OK;
}

wisp_status device_text_open(const wisp_model *model, struct device_context **context,
                             struct sequence *sequence, wisp_error *error) {
    const struct device_decoder_library *library = library_of(model);
    char message[DEVICE_MESSAGE_BYTES] = "";
    if (!*context)
        TRY(check(model, library->context_open(model->device.decoder, context, message), message,
                  error));
    return check(model, library->sequence_open(*context, &sequence->on_device, message), message,
                 error);
}

wisp_status device_text_reserve(const wisp_model *model, struct sequence *sequence, size_t n,
                                wisp_error *error) {
    char message[DEVICE_MESSAGE_BYTES] = "";
    return check(model, library_of(model)->sequence_reserve(sequence->on_device, n, message),
                 message, error);
}

wisp_status device_text_copy(const wisp_model *model, const struct sequence *to,
                             const struct sequence *from, size_t first, size_t end,
                             wisp_error *error) {
    char message[DEVICE_MESSAGE_BYTES] = "";
    return check(
        model,
        library_of(model)->sequence_copy(to->on_device, from->on_device, first, end, message),
        message, error);
}

wisp_status device_texts_step(const wisp_model *model, struct device_context *context,
                              const struct device_step *step, const float **logits,
                              wisp_error *error) {
    char message[DEVICE_MESSAGE_BYTES] = "";
    return check(model, library_of(model)->step(context, step, logits, message), message, error);
}

void device_texts_close(const wisp_model *model, struct device_context *context) {
    if (context)
        library_of(model)->context_close(context);
}
