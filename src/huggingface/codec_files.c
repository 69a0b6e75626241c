#include "huggingface/codec_files.h"
wisp_status hf_read_codec(struct directory *dir, const char *folder, const struct hf_config *config,
                          uint32_t vocabulary_size, wisp_error *error) {
    (void)dir, (void)folder, (void)config, (void)vocabulary_size;
    return fail(error, WISP_ERROR_UNSUPPORTED, 0, 0, "x");
}
