/* SPDX-License-Identifier: Apache-2.0
 * RobertaModel, XLMRobertaModel and CamembertModel: BERT, whose positions begin after the one of
 * the padding token. */
#include "huggingface/encoders.h"

enum { USUAL_PADDING = 1, MAX_PADDING = 1 << 20 };

/* The positions up to that of the padding token, which no token of a text has. */
static wisp_status skipped_positions(const struct hf_config *config, uint32_t *skipped,
                                     wisp_error *error) {
    static const char field[] = "pad_token_id";
    const struct json *given = json_get(config->root, field);
    uint64_t padding = USUAL_PADDING;
    if (given && (!json_to_u64(given, &padding) || padding > MAX_PADDING))
        return fail(error, WISP_ERROR_FORMAT, config->file, field,
                    "%.32s is not a whole number from 0 to %u", hf_shown(given), MAX_PADDING);
    *skipped = (uint32_t)padding + 1;
    return WISP_OK;
}

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    uint32_t skipped;
    TRY(skipped_positions(config, &skipped, error));
    TRY(hf_put_token_types(dir, config, error));
    return hf_put_bert(dir, config, "bert", "absolute", skipped, error);
}

static wisp_status adapt(struct directory *dir, struct tensor *tensor,
                         const struct hf_config *config, wisp_error *error) {
    uint32_t skipped;
    TRY(skipped_positions(config, &skipped, error));
    return hf_skip_positions(dir, tensor, skipped, error);
}

#define ROBERTA(its_type)                                                                          \
    {.type = (its_type),                                                                           \
     .prefixes = {"roberta."},                                                                     \
     .architecture = "bert",                                                                       \
     .tensors = {"encoder.layer.", hf_bert_names, hf_bert_layer_names},                            \
     .read_config = read_config,                                                                   \
     .adapt = adapt}

const struct hf_encoder hf_roberta = ROBERTA("roberta");
const struct hf_encoder hf_xlm_roberta = ROBERTA("xlm-roberta");
const struct hf_encoder hf_camembert = ROBERTA("camembert");
