/* SPDX-License-Identifier: Apache-2.0
 * Texts of a session whose model generates on a device: keys and values are there, and a pass is a
 * step of the device. */
#ifndef WISP_ENGINE_DEVICE_TEXTS_H
#define WISP_ENGINE_DEVICE_TEXTS_H

#include "engine/model.h"
#include "engine/sequence.h"

/* Returns whether the texts of the model's sessions are on a device. */
static inline bool texts_on_device(const wisp_model *model) {
    return DEVICES_EXIST && model->device.decoder;
}

/* Fails if they are on a device, with whose keys and values `what` is not possible.
 */
wisp_status texts_need_host(const wisp_model *model, const char *field, const char *what,
                            wisp_error *error);

/* Fails if a device does not compute attention as the options say. */
wisp_status device_texts_check(const wisp_model *model, const wisp_session_options *options,
                               const struct attention_choice *attention, wisp_error *error);

/* Opens a text on the device, and the session's context if *context is NULL. */
wisp_status device_text_open(const wisp_model *model, struct device_context **context,
                             struct sequence *sequence, wisp_error *error);

/* Makes room for n tokens. What the text has stays. */
wisp_status device_text_reserve(const wisp_model *model, struct sequence *sequence, size_t n,
                                wisp_error *error);

/* Copies the keys and values of tokens [first, end), for which `to` has room. */
wisp_status device_text_copy(const wisp_model *model, const struct sequence *to,
                             const struct sequence *from, size_t first, size_t end,
                             wisp_error *error);

/* Runs a step and points *logits to its rows, which stay until
 * the context's next step. */
wisp_status device_texts_step(const wisp_model *model, struct device_context *context,
                              const struct device_step *step, const float **logits,
                              wisp_error *error);

/* Closes the session's context with all its texts. */
void device_texts_close(const wisp_model *model, struct device_context *context);

#endif
