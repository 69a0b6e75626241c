/* SPDX-License-Identifier: Apache-2.0
 * The image towers of CLIPModel and SiglipModel. */
#ifndef WISP_HUGGINGFACE_CLIP_IMAGES_H
#define WISP_HUGGINGFACE_CLIP_IMAGES_H

#include "huggingface/config.h"
#include "huggingface/tensor_names.h"

/* The activations of both towers. */
enum { HF_CLIP_ACTIVATIONS = 3 };

/* What the families have otherwise. */
struct hf_images {
    struct hf_names tensors;
    const char *const *activations; /* [HF_CLIP_ACTIVATIONS]: the first is that of files that name
                                       none */
    const struct hf_setting *settings; /* of vision_config */
    uint32_t patch;                    /* pixels, and */
    double epsilon;                    /* of norms, of files that do not say it */
    bool has_class;                    /* a token before the patches */
    bool crops;                        /* images are cropped unless do_center_crop says no */
    double mean[3], std[3];            /* of files that do not say them */
};

extern const char *const hf_clip_activations[HF_CLIP_ACTIVATIONS];
extern const char *const hf_siglip_activations[HF_CLIP_ACTIVATIONS];

extern const struct hf_images hf_clip_images, hf_siglip_images;

/* Adds the metadata of vision_config and preprocessor_config.json, which has the defaults of the
 * family's image processor if it is absent. Refuses what is computed otherwise. */
wisp_status hf_read_images(struct directory *dir, const char *folder,
                           const struct hf_images *family, const struct hf_config *config,
                           wisp_error *error);

#endif
