/* SPDX-License-Identifier: Apache-2.0
 * A gated feed-forward layer that reads the gates of all neurons, and of W_up and W_down only what
 * belongs to the neurons that these open:
 *
 *   y = sum over the computed neurons of f(w_gate x) (w_up x) w_down
 *
 * A neuron's score is |f(w_gate x)| times its weight, which is the length of its column of W_down
 * or, in a calibrated file, that times the root mean square of w_up x: then it estimates what the
 * layer's output loses without the neuron. Neurons with large scores are computed.
 *
 * Sources: the gate as a predictor, Lee et al., CATS (2024); weights in the score, Liu et al., TEAL
 * (2024), and Chen et al., WINA (2025). docs/sparse.md says what was measured. */
#ifndef WISP_SPARSE_GATHERED_H
#define WISP_SPARSE_GATHERED_H

#include "base/workspace.h"
#include "formats/directory.h"
#include "kernels/gather.h"
#include "kernels/kernels.h"
#include "sparse/plan.h"

struct gathered_ffn;
struct gathered_frames;

/* Products with neurons of which some may be absent. */
struct gathered_products {
    /* Does the work of gather_kernels.rows for neurons list [n], rising. */
    void (*rows)(const struct gathered_ffn *ffn, const struct gather_input *x, const uint16_t *list,
                 size_t n, struct workspace space, float *y);

    /* Does the work of gather_kernels.columns for all groups. */
    void (*columns)(const struct gathered_ffn *ffn, const struct gather_active *active,
                    size_t first, size_t end, float *y);
};

/* W_up and W_down by neuron, and what scores are computed with. */
struct gathered_ffn {
    const struct gather_kernels *kernels;
    size_t hidden_size, intermediate_size;
    enum gather_code gate_code, up_code, down_code;
    unsigned char *gate;      /* packed rows (kernels/gather.h); NULL unless the plan predicts whose
                                 gates are computed */
    unsigned char *up, *down; /* packed rows, and groups of columns */
    float *weights;           /* [intermediate_size]: of scores */
    float *levels; /* [plan->levels]: the least score of a computed neuron at each level of the
                      plan; NULL if there are no levels */
    struct gathered_frames *frames; /* gathered_frames.h; NULL: `up` and `down` have all neurons */
    const struct gathered_products *products; /* of frames */
    size_t bytes;
};

/* Returns whether layers of these sizes can be gathered. */
bool gathered_sizes_fit(size_t hidden_size, size_t intermediate_size);

/* Reads the weights of layer `index`. Matrices of Q4_0, Q4_1 and Q8_0 keep their numbers; others
 * are quantised to Q8_0. `cache` serves matrices that are made of other tensors. Fails if a tensor
 * is missing or has another shape, or cannot be read; the layer is then to be released. */
wisp_status gathered_load(struct gathered_ffn *ffn, const struct directory *dir,
                          const struct sparse_plan *plan, const struct kernels *kernels,
                          size_t hidden_size, size_t intermediate_size, size_t index,
                          struct tensor_cache *cache, wisp_error *error);

/* Frees all but the frames. */
void gathered_release(struct gathered_ffn *ffn);

/* Says which neurons of a layer are computed: those whose score is above 0 and at least `least`
 * and, unless `most` is 0, among the `most` largest; all that are as large as the last of these are
 * computed. */
struct gate_limit {
    float least;
    uint32_t most;
};

/* Returns the limit at which about `share` of the layer's neurons are computed. With `by_number` it
 * is their number, and else the score, interpolated between the levels of the plan, which has some.
 */
struct gate_limit gathered_limit(const struct gathered_ffn *ffn, const struct sparse_plan *plan,
                                 float share, bool by_number);

/* Returns the least score of the neurons that the limit lets be computed. values
 * [intermediate_size] are f(w_gate x); scores [intermediate_size] is overwritten. */
float gathered_least(const struct gathered_ffn *ffn, struct gate_limit limit, const float *values,
                     float *scores);

/* Returns the `most`-th largest, from 1 to n, of n values that are not negative. */
float gathered_select(const float *values, size_t n, size_t most);

/* Returns the bytes of working memory that gathered_apply and gathered_gates need. */
size_t gathered_workspace_bytes(size_t hidden_size, size_t intermediate_size);

/* Computes gates[i] = w_gate x of neuron list[i], for i < n, of a layer that has rows of gates. */
void gathered_gates(const struct gathered_ffn *ffn, const float *x, const uint16_t *list, size_t n,
                    float *gates, struct workspace space);

/* Computes neurons [first, first + n), in whole groups, of those whose score is at least `least`,
 * of one token x [hidden_size]. values [intermediate_size] are f(w_gate x). Writes the values of
 * the groups to active [intermediate_size / GATHER_BLOCK]. Returns the number of neurons. */
size_t gathered_apply(const struct gathered_ffn *ffn, const float *x, const float *values,
                      float least, size_t first, size_t n, struct gather_active *active,
                      struct workspace space);

/* Computes the outputs y [first, end) of all groups. `first` is a multiple of GATHER_STRIP. */
void gathered_outputs(const struct gathered_ffn *ffn, const struct gather_active *active,
                      size_t first, size_t end, float *y);

#endif
