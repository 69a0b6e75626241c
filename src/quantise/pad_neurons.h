/* SPDX-License-Identifier: Apache-2.0
 * Adds neurons of zeros to the feed-forward layers of a model, so that the rows of W_down are whole
 * blocks. They change no result, as their outputs are 0 with every activation. Native only. */
#ifndef WISP_QUANTISE_PAD_NEURONS_H
#define WISP_QUANTISE_PAD_NEURONS_H

#include "formats/directory.h"

enum { PADDED_NEURONS = 32 }; /* the elements of most blocks */

/* Makes the number of neurons a multiple of `multiple`. The layers' tensors become F32, and the key
 * of that number is changed. Does nothing if it is such a multiple already. Fails for models
 * whose neurons are calibrated or stored as rows. */
wisp_status neurons_pad(struct directory *dir, uint32_t multiple, wisp_error *error);

#endif
