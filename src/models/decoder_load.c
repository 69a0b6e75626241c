/* SPDX-License-Identifier: Apache-2.0 */
#include "models/decoder_load.h"

#include <math.h>

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

/* Reads a tensor of factors [head_size / 2], by which the angles of pairs are divided. */
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

/* Returns the index of the pair that turns `turns` times in the context. It is a fraction where the
 * number of turns lies between those of two pairs. */
static double pair_of_turns(const struct model_config *c, double turns) {
    static const double pi = 3.14159265358979323846;
    return (double)c->head_size * log((double)c->yarn.context / (turns * 2 * pi)) /
           (2 * log((double)c->rope_theta));
}

/* Divides the angles of each pair by c->rope_divisor, or by the share of it that YaRN gives the
 * pair. */
static void scale_pairs(const struct model_config *c, float *factors) {
    const double divisor = (double)c->rope_divisor;
    double first = -2, last = -1; /* pairs up to `first` keep their angles, and those from `last` on
                                     have them divided */
    if (c->yarn.context > 0) {
        first = fmax(floor(pair_of_turns(c, (double)c->yarn.beta_fast)), 0);
        last = fmin(ceil(pair_of_turns(c, (double)c->yarn.beta_slow)), (double)c->head_size - 1);
        if (first == last)
            last += 0.001;
    }
    for (size_t i = 0; i < c->head_size / 2; i++) {
        const double share = fmin(fmax(((double)i - first) / (last - first), 0), 1);
        factors[i] *= share == 1 ? c->rope_divisor : (float)(1 / (share / divisor + 1 - share));
    }
}

/* Sets the rotations of the model, whose factors struct decoder_weights owns. */
static wisp_status load_rope(const struct network *network, struct decoder_weights *weights,
                             wisp_error *error) {
    static const char all[] = "rope_freqs.weight", of_short[] = "rope_factors_short.weight",
                      of_long[] = "rope_factors_long.weight";
    const struct model_config *c = &network->config;
    const size_t pairs = c->head_size / 2;
    const char *other = c->long_after > 0 ? all : of_short;
    float **factors = &weights->rope_factors;
    if (directory_find_tensor(network->dir, other))
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file, other,
                    "factors that do not go with the type of rope.scaling");
    if (c->long_after > 0) {
        TRY(read_factors(network, of_short, factors, error));
        TRY(read_factors(network, of_long, &weights->long_factors, error));
    } else if (directory_find_tensor(network->dir, all)) {
        TRY(read_factors(network, all, factors, error));
    } else if (c->rope_divisor != 1) {
        *factors = memory_allocate(pairs * sizeof **factors);
        if (!*factors)
            return fail_memory(error, pairs * sizeof **factors);
        for (size_t i = 0; i < pairs; i++)
            (*factors)[i] = 1;
    }
    if (*factors && c->long_after == 0)
        scale_pairs(c, *factors);
    weights->rope = (struct rope){.theta = c->rope_theta,
                                  .factors = *factors,
                                  .long_factors = weights->long_factors,
                                  .pairs = c->rope_pairs,
                                  .attention_factor = c->rope_length,
                                  .local_theta = c->local_rope_theta};
    return WISP_OK;
}

wisp_status decoder_weights_load(struct network *network, const char *output_norm,
                                 struct decoder_weights *weights, wisp_error *error) {
    TRY(load_rope(network, weights, error));
    TRY(load_rms_norm(network, output_norm, network->config.hidden_size, &weights->output_norm,
                      error));
    return decoder_load_logits(network, &weights->logits, error);
}

void decoder_weights_release(struct decoder_weights *weights) {
    linear_release(&weights->logits);
    memory_free(weights->output_norm);
    memory_free(weights->rope_factors);
    memory_free(weights->long_factors);
}

void decoder_rope(const struct network *network, struct rope *rope) {
    *rope = ((const struct decoder_weights *)network->weights)->rope;
}
