/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/hot.h"

#include "base/memory.h"
#include "base/number_text.h"
#include "convert/plan.h"
#include "formats/neurons_read.h"

size_t hot_for_share(const float *frequency, const int32_t *order, size_t n, double share) {
    double all = 0, sum = 0;
    size_t hot = 0;
    for (size_t i = 0; i < n; i++)
        all += (double)frequency[i];
    while (hot < n && sum < share * all)
        sum += (double)frequency[order[hot++]];
    return hot;
}

/* Returns the bytes of a row of a layer's neurons in the file that will be written. */
static uint64_t row_bytes_of(const struct directory *dir, const struct block_format *const *formats,
                             size_t layer) {
    char name[TENSOR_NAME_BYTES];
    const bool gated =
        directory_find_tensor(dir, layer_tensor_name(name, layer, TENSOR_FFN_GATE, TENSOR_WEIGHT));
    const struct tensor *up =
        directory_find_tensor(dir, layer_tensor_name(name, layer, TENSOR_FFN_UP, TENSOR_WEIGHT));
    if (!up || !neurons_have_format(formats[up - dir->tensors]))
        return 0; /* the layer cannot be written as rows, which is reported then */
    struct neuron_shape shape = {.format = formats[up - dir->tensors],
                                 .matrices = gated ? 3 : 2,
                                 .hidden_size = up->dims[0],
                                 .intermediate_size = up->rows};
    neuron_shape_measure(&shape);
    return shape.row_bytes;
}

/* Makes neurons hot until the next one has no room: each time the one that is needed most often
 * among the first cold neurons of all layers. Within a layer they follow the order of the
 * places. */
static void fill_bytes(const struct directory *dir, const struct block_format *const *formats,
                       const int32_t *order, const float *frequency, size_t layers, size_t neurons,
                       uint64_t bytes, int32_t *hot) {
    for (;;) {
        size_t best = layers;
        float most = -1;
        for (size_t l = 0; l < layers; l++) {
            const size_t next = (size_t)hot[l];
            const float value =
                next < neurons ? frequency[l * neurons + (size_t)order[l * neurons + next]] : -1;
            if (value > most) {
                most = value;
                best = l;
            }
        }
        const uint64_t row = best < layers ? row_bytes_of(dir, formats, best) : 0;
        if (best == layers || row > bytes)
            return;
        bytes -= row;
        hot[best]++;
    }
}

wisp_status choose_hot(struct directory *dir, const struct block_format *const *formats,
                       double share, uint64_t bytes, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    const int32_t *order = NULL;
    float *all;
    int32_t *hot;
    size_t layers = 0;
    if (share != 0 && !(share > 0 && share <= 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "hot", "%s is not above 0 and at most 1",
                    number_text(share, 6).text);
    const struct tensor *first =
        directory_find_tensor(dir, layer_tensor_name(name, 0, TENSOR_FREQUENCY, ""));
    while (directory_find_tensor(dir, layer_tensor_name(name, layers, TENSOR_FREQUENCY, "")))
        layers++;
    const size_t neurons = first ? (size_t)first->dims[0] : 0;
    if (first)
        TRY(neurons_read_order(dir, layers, neurons, &order, error));
    if (!order)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, KEY_SPARSE_ORDER,
                    "the model is not calibrated: wisp calibrate does that");
    ARENA_TAKE(&dir->arena, hot, layers, error);
    ARENA_TAKE(&dir->arena, all, layers * neurons, error);
    for (size_t l = 0; l < layers; l++) {
        float *frequency = NULL;
        layer_tensor_name(name, l, TENSOR_FREQUENCY, "");
        const wisp_status status = directory_load_floats(dir, name, 1, neurons, &frequency, error);
        for (size_t i = 0; i < neurons && status == WISP_OK; i++)
            all[l * neurons + i] = frequency[i];
        memory_free(frequency);
        TRY(status);
        hot[l] = share != 0 ? (int32_t)hot_for_share(all + l * neurons, order + l * neurons,
                                                     neurons, share)
                            : 0;
    }
    if (share == 0)
        fill_bytes(dir, formats, order, all, layers, neurons, bytes, hot);
    struct metadata *entry = find_metadata_entry(dir, KEY_SPARSE_HOT);
    if (!entry)
        return directory_put_numbers(dir, KEY_SPARSE_HOT, VALUE_I32, hot, layers, error);
    entry->type = VALUE_ARRAY;
    entry->element = VALUE_I32;
    entry->count = layers;
    entry->as.numbers = hot;
    return WISP_OK;
}
