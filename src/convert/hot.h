/* SPDX-License-Identifier: Apache-2.0
 * Chooses which neurons of a calibrated model are hot. */
#ifndef WISP_CONVERT_HOT_H
#define WISP_CONVERT_HOT_H

#include "formats/directory.h"

/* Returns how many neurons are hot: the fewest, from the first in the order on, to which `share` of
 * all needed (token, neuron) pairs belong. */
size_t hot_for_share(const float *frequency, const int32_t *order, size_t n, double share);

/* Sets the key wisp.sparse.hot of a calibrated model. In each layer hot_for_share(share) neurons
 * are hot. If share is 0, those neurons of all layers are hot that are needed most often and
 * whose rows together take at most `bytes` of the file. `formats` [dir->n_tensors] are those in
 * which the tensors are to be written. directory_finish must follow. Fails with
 * WISP_ERROR_NOT_FOUND if the model is not calibrated, and with WISP_ERROR_ARGUMENT if the
 * share is not from above 0 to 1. */
wisp_status choose_hot(struct directory *dir, const struct block_format *const *formats,
                       double share, uint64_t bytes, wisp_error *error);

#endif
