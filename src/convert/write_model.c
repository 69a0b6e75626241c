/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/write_model.h"

#include "convert/bitnet_keys.h"
#include "convert/hot_tokens.h"
#include "formats/schema.h"

/* The bytes of a chunk, which is the least that is fetched for an absent row; the table has 32
 * bytes for it. With cold neurons a chunk is about what a line of 10 Mbit/s brings in the 40 ms
 * that a request waits: a text needs some neurons of nearly every chunk, however small. Of cold
 * tokens it needs a few rows (bench/RESULTS-cold.md). */
enum { CHUNK_BYTES = 64 * 1024, TOKENS_CHUNK_BYTES = 16 * 1024 };

static wisp_status write_file(struct directory *dir, const struct gguf_plan *plan,
                              const char *output, wisp_error *error) {
    struct file_writer writer;
    TRY(file_writer_open(&writer, output, error));
    wisp_status status = gguf_write(&writer, dir, plan, error);
    if (status == WISP_OK)
        status = file_writer_commit(&writer, error);
    file_writer_discard(&writer);
    return status;
}

/* Writes the file, or measures it if `bytes` is not NULL. */
static wisp_status arrange_and_write(struct directory *dir, const struct gguf_plan *plan,
                                     enum neuron_layout layout, const char *output, uint64_t *bytes,
                                     wisp_error *error) {
    struct neuron_arrangement arrangement;
    struct gguf_plan arranged = *plan;
    directory_drop_metadata(dir, KEY_CHUNKS_PREFIX); /* of the file that was read */
    TRY(directory_finish(dir, error));
    TRY(hot_tokens_arrange(dir, plan->formats, plan->hot_tokens, error));
    wisp_status status = neuron_rows_arrange(&arrangement, dir, plan->formats, layout, error);
    if (arrangement.formats)
        arranged.formats = arrangement.formats;
    if (arrangement.formats || plan->hot_tokens > 0)
        arranged.chunk_bytes = arrangement.formats ? CHUNK_BYTES : TOKENS_CHUNK_BYTES;
    if (status == WISP_OK)
        status = bitnet_put_keys(dir, arranged.formats, error);
    if (status == WISP_OK && bytes)
        *bytes = gguf_file_bytes(dir, &arranged);
    else if (status == WISP_OK)
        status = write_file(dir, &arranged, output, error);
    neuron_rows_release(&arrangement);
    return status;
}

wisp_status write_model(struct directory *dir, const struct gguf_plan *plan,
                        enum neuron_layout layout, const char *output, wisp_error *error) {
    return arrange_and_write(dir, plan, layout, output, NULL, error);
}

wisp_status measure_model(struct directory *dir, const struct gguf_plan *plan, uint64_t *bytes,
                          wisp_error *error) {
    return arrange_and_write(dir, plan, NEURONS_PLAIN, NULL, bytes, error);
}
