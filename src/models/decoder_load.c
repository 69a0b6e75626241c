/* SPDX-License-Identifier: Apache-2.0 */
#include "models/decoder_load.h"

#include "base/memory.h"
#include "base/number_text.h"
#include "models/layer_load.h"

wisp_status decoder_load_logits(struct network *network, struct linear *logits, wisp_error *error) {
    const bool tied = !directory_find_tensor(network->dir, "output.weight");
    const char *const names[] = {tied ? "token_embd" : "output"};
    const struct linear_source source = {.dir = network->dir,
                                         .names = names,
                                         .unbiased = true,
                                         .parts = 1,
                                         .n = network->config.vocabulary_size,
                                         .k = network->config.hidden_size};
    TRY(linear_load(logits, &source, network->kernels, network->int8, error));
    network->resident_bytes += logits->bytes;
    tally_weights(network, logits);
    return WISP_OK;
}

/* Reads the factors by which Llama 3.1 and later divide the angles of slow pairs. */
static wisp_status read_factors(const struct network *network, const char *name, float **factors,
                                wisp_error *error) {
    const size_t pairs = network->config.head_size / 2;
    TRY(directory_load_floats(network->dir, name, 1, pairs, factors, error));
    for (size_t i = 0; i < pairs; i++)
        if (!((*factors)[i] >= 1))
            return fail(error, WISP_ERROR_FORMAT, network->dir->file, name,
                        "factor %zu is %s, which is not at least 1", i,
                        number_text((double)(*factors)[i], 6).text);
    return WISP_OK;
}

/* Sets the rotations of the model, and *factors as struct decoder_weights says. */
static wisp_status load_rope(const struct network *network, struct rope *rope, float **factors,
                             wisp_error *error) {
    static const char name[] = "rope_freqs.weight";
    const struct model_config *c = &network->config;
    const size_t pairs = c->head_size / 2;
    *rope = (struct rope){
        .theta = c->rope_theta, .pairs = c->rope_pairs, .local_theta = c->local_rope_theta};
    if (directory_find_tensor(network->dir, name)) {
        TRY(read_factors(network, name, factors, error));
    } else if (c->rope_divisor != 1) {
        *factors = memory_allocate(pairs * sizeof **factors);
        if (!*factors)
            return fail_memory(error, pairs * sizeof **factors);
        for (size_t i = 0; i < pairs; i++)
            (*factors)[i] = 1;
    }
    for (size_t i = 0; *factors && i < pairs; i++)
        (*factors)[i] *= c->rope_divisor;
    rope->factors = *factors;
    return WISP_OK;
}

wisp_status decoder_weights_load(struct network *network, const char *output_norm,
                                 struct decoder_weights *weights, wisp_error *error) {
    TRY(load_rope(network, &weights->rope, &weights->rope_factors, error));
    TRY(load_rms_norm(network, output_norm, network->config.hidden_size, &weights->output_norm,
                      error));
    return decoder_load_logits(network, &weights->logits, error);
}

void decoder_weights_release(struct decoder_weights *weights) {
    linear_release(&weights->logits);
    memory_free(weights->output_norm);
    memory_free(weights->rope_factors);
}

void decoder_rope(const struct network *network, struct rope *rope) {
    *rope = ((const struct decoder_weights *)network->weights)->rope;
}
