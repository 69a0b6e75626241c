/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/write_model.h"

#include "convert/bitnet_keys.h"

static wisp_status write_file(const struct directory *dir, const struct gguf_plan *plan,
                              const char *output, wisp_error *error) {
    struct file_writer writer;
    TRY(file_writer_open(&writer, output, error));
    wisp_status status = gguf_write(&writer, dir, plan, error);
    if (status == WISP_OK)
        status = file_writer_commit(&writer, error);
    file_writer_discard(&writer);
    return status;
}

wisp_status write_model(struct directory *dir, const struct gguf_plan *plan,
                        enum neuron_layout layout, const char *output, wisp_error *error) {
    struct neuron_arrangement arrangement;
    struct gguf_plan arranged = *plan;
    wisp_status status = neuron_rows_arrange(&arrangement, dir, plan->formats, layout, error);
    if (arrangement.formats)
        arranged.formats = arrangement.formats;
    if (status == WISP_OK)
        status = bitnet_put_keys(dir, arranged.formats, error);
    if (status == WISP_OK)
        status = write_file(dir, &arranged, output, error);
    neuron_rows_release(&arrangement);
    return status;
}
