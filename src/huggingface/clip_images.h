/* SPDX-License-Identifier: Apache-2.0
 * The image tower of CLIPModel. */
#ifndef WISP_HUGGINGFACE_CLIP_IMAGES_H
#define WISP_HUGGINGFACE_CLIP_IMAGES_H

#include "huggingface/config.h"
#include "huggingface/tensor_names.h"

/* The activations of both towers; the first is that of files that name none. */
enum { HF_CLIP_ACTIVATIONS = 3 };
extern const char *const hf_clip_activations[HF_CLIP_ACTIVATIONS];

extern const struct hf_names hf_clip_images;

/* Adds the metadata of vision_config and preprocessor_config.json, which is CLIPImageProcessor's
 * defaults if it is absent. Refuses what is computed otherwise. */
wisp_status hf_read_clip_images(struct directory *dir, const char *folder,
                                const struct hf_config *config, wisp_error *error);

#endif
