/* SPDX-License-Identifier: Apache-2.0
 * Rotary positions in config.json: rope_parameters of transformers 5, or rope_theta and
 * rope_scaling of version 4. */
#ifndef WISP_HUGGINGFACE_ROPE_CONFIG_H
#define WISP_HUGGINGFACE_ROPE_CONFIG_H

#include "huggingface/config.h"

/* The rotary positions of a class of transformers. */
struct hf_rope {
    double usual_theta; /* if config.json has none */
    bool has_factors; /* the architecture has tensors of factors, which llama3 and longrope need */
    /* Local layers have a base of their own, and config.json describes both kinds of layers as
     * Gemma 3's class does: rope_parameters has an object for each kind, and rope_scaling is of
     * global layers. */
    bool by_layers;
    bool between_pairs;    /* YaRN's limits are between pairs: `truncate` is false, which the
                                family's file requires to be given; else true */
    bool may_be_partial;   /* only a part of each head may be rotated */
    double usual_fraction; /* if config.json does not say which part; 0: all of it */
    /* The names of the base and of the part in a config.json of version 4; NULL: rope_theta, and
     * partial_rotary_factor. */
    const char *old_theta, *old_fraction;
    double usual_local_theta;
};

/* The object in config.json that describes the scaling of positions. */
struct hf_rope_scaling {
    struct hf_config own; /* its root is the object; NULL: there is none */
    const char *field;    /* the object's key in config.json */
    const struct json *type;
};

/* Finds the object. transformers 5 takes rope_scaling if both are given, and version 4 knows no
 * rope_parameters. */
wisp_status hf_find_rope_scaling(const struct hf_config *config, struct hf_rope_scaling *s,
                                 wisp_error *error);

/* Adds how many of a head's values are rotated, and the base of the angles, or the bases of both
 * kinds of layers, and the scaling of positions. Refuses types of scaling other than default,
 * linear, llama3, longrope, yarn and dynamic. The last divides no angles within the
 * max_position_embeddings of a model, beyond which no model runs here. */
wisp_status hf_put_rope(struct directory *dir, const struct hf_config *config,
                        const char *architecture, const struct hf_rope *rope, uint32_t head_size,
                        wisp_error *error);

/* Adds the tensors that divide the angles of each pair: rope_freqs.weight if the type is llama3,
 * and rope_factors_short.weight and rope_factors_long.weight if it is longrope. directory_finish
 * must have been called since hf_put_rope. */
wisp_status hf_put_rope_factors(struct directory *dir, const struct hf_config *config,
                                const char *architecture, wisp_error *error);

#endif
