/* SPDX-License-Identifier: Apache-2.0
 * Sources: the classes ...ForMaskedLM of transformers. */
#include "huggingface/splade.h"

#include <string.h>

#include "formats/schema.h"

#define DENSE TENSOR_SPLADE_DENSE "."
#define NORM TENSOR_SPLADE_NORM "."
#define OUTPUT TENSOR_SPLADE_OUTPUT "."

/* The last entry is the bias of the last layer, which shares its weights with the token embeddings.
 * Copies of both that BERT's and RoBERTa's files may have are dropped. */
static const struct hf_name of_bert[] = {{"cls.predictions.transform.dense.", DENSE, false},
                                         {"cls.predictions.transform.LayerNorm.", NORM, false},
                                         {"cls.predictions.", OUTPUT, false},
                                         {0}};
static const struct hf_name of_roberta[] = {{"lm_head.dense.", DENSE, false},
                                            {"lm_head.layer_norm.", NORM, false},
                                            {"lm_head.", OUTPUT, false},
                                            {0}};
static const struct hf_name of_distilbert[] = {{"vocab_transform.", DENSE, false},
                                               {"vocab_layer_norm.", NORM, false},
                                               {"vocab_projector.", OUTPUT, false},
                                               {0}};
static const struct hf_name of_modern_bert[] = {
    {"head.dense.", DENSE, false}, {"head.norm.", NORM, false}, {"decoder.", OUTPUT, false}, {0}};

static const struct {
    const char *type;
    const struct hf_name *names;
    const char *activation; /* the setting that names the head's; NULL: it is always gelu */
} heads[] = {{"bert", of_bert, "hidden_act"},
             {"distilbert", of_distilbert, "activation"},
             {"roberta", of_roberta, NULL},
             {"xlm-roberta", of_roberta, NULL},
             {"camembert", of_roberta, NULL},
             {"mpnet", of_roberta, NULL},
             {"modernbert", of_modern_bert, "classifier_activation"}};

wisp_status hf_find_splade(const struct hf_config *config, const struct hf_encoder *encoder,
                           const struct hf_name **names, wisp_error *error) {
    static const struct hf_setting tied[] = {{"tie_word_embeddings", JSON_TRUE}, {0}};
    size_t i = 0;
    while (i < sizeof heads / sizeof *heads && strcmp(heads[i].type, encoder->type) != 0)
        i++;
    if (i == sizeof heads / sizeof *heads)
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "model_type",
                    "a SpladePooling behind a %s is not supported", encoder->type);
    TRY(hf_check_settings(config, tied, error));
    const struct json *activation =
        heads[i].activation ? json_get(config->root, heads[i].activation) : NULL;
    if (activation && !json_equals(activation, "gelu"))
        return hf_unsupported_setting(config, heads[i].activation, activation, "gelu", error);
    *names = heads[i].names;
    return WISP_OK;
}
