/* SPDX-License-Identifier: Apache-2.0
 * Builds GGUF files in memory for tests: a tiny valid BERT model, in which a test changes one
 * thing. Contents are held apart from the counts in the header, so that a file can have counts that
 * are wrong.
 *
 * A file of another architecture is made of this one: gguf_set_text(file, "general.architecture",
 * NAME), the same keys again under "NAME.", tensors dropped and added. Keys of "bert." do no harm
 * if nobody reads them. */
#ifndef TESTS_BUILDER_H
#define TESTS_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- bytes ---------------------------------------------------------------------------------- */

struct bytes {
    unsigned char *data;
    size_t size, capacity;
};

void bytes_put(struct bytes *bytes, const void *data, size_t size);
void bytes_put_u32(struct bytes *bytes, uint32_t value);
void bytes_put_u64(struct bytes *bytes, uint64_t value);
void bytes_put_f32s(struct bytes *bytes, const float *values, size_t count);
void bytes_set_u32(struct bytes *bytes, size_t at, uint32_t value);
void bytes_set_u64(struct bytes *bytes, size_t at, uint64_t value);
void bytes_set_f32(struct bytes *bytes, size_t at, float value);
float bytes_get_f32(const struct bytes *bytes, size_t at);
void bytes_release(struct bytes *bytes);

/* ---- GGUF ----------------------------------------------------------------------------------- */

enum { GGUF_MAX_DIMS = 8, GGUF_MAX_KEYS = 64, GGUF_MAX_TENSORS = 80 };

/* Helpers abort the test if they run out of room or memory. */

struct gguf_key {
    struct bytes name;
    uint64_t name_length; /* as the header states it */
    uint32_t type;
    struct bytes value; /* as it is in the file: a string follows its length, and so on */
};

struct gguf_tensor {
    struct bytes name;
    uint64_t name_length; /* as the header states it */
    uint32_t n_dims;      /* as the header states them; up to GGUF_MAX_DIMS of them are written */
    uint64_t dims[GGUF_MAX_DIMS];
    uint32_t type;
    uint64_t offset; /* as the header states it */
    struct bytes data;
};

struct gguf {
    unsigned char magic[4];
    uint32_t version;
    uint64_t written_keys, written_tensors; /* the header's counts */
    size_t alignment;                       /* where the data really is */
    struct gguf_key keys[GGUF_MAX_KEYS];
    struct gguf_tensor tensors[GGUF_MAX_TENSORS];
    size_t n_keys, n_tensors;
};

/* Sizes of a tiny model. Matrices are stored as block type `type`, all else as f32. */
struct tiny_shape {
    uint32_t hidden, wide, layers, heads, positions;
    uint32_t type;
    bool nomic;           /* rotary positions, gated layers and no biases: nomic-bert */
    bool rows;            /* neurons are rows, some of them cold, in the order of tiny_neuron */
    uint32_t chunk_bytes; /* of the chunks whose digests the file has; 0: it has none */
};

/* hidden_size 8, 2 layers, f32: about 12 KB. */
extern const struct tiny_shape tiny_shape;

/* hidden_size 32, so that rows hold whole blocks of 32. */
extern const struct tiny_shape tiny_shape_q8_0;

/* nomic-bert models of these two sizes. */
extern const struct tiny_shape tiny_nomic, tiny_nomic_q8_0;

/* The first and the last of these, with neurons as rows. */
extern const struct tiny_shape tiny_rows, tiny_nomic_rows_q8_0;

/* tiny_rows, with digests of chunks of 4096 bytes. */
extern const struct tiny_shape tiny_chunks;

/* Makes the file of a small LFM2: layers with a convolution, attention, and two more convolutions,
 * all f32, with LFM2_TOKENS tokens, LFM2_HIDDEN values of a token and a context of 1024. */
enum { LFM2_TOKENS = 64, LFM2_HIDDEN = 16, LFM2_LAYERS = 4, LFM2_TAPS = 3 };
void gguf_make_lfm2(struct gguf *file);

/* Makes the file. It is released once, with gguf_release. */
void gguf_make(struct gguf *file, const struct tiny_shape *shape);
void gguf_release(struct gguf *file);

/* Turns the neurons of a plain file into rows. gguf_make does this last if the shape asks for
 * it. */
void gguf_make_rows(struct gguf *file, const struct tiny_shape *shape);

/* Gives the file the digests of its chunks of so many bytes. A later change of tensors makes them
 * wrong. */
void gguf_set_chunks(struct gguf *file, uint32_t chunk_bytes);

/* Return the neuron at a place, and the number of hot neurons of a layer. */
int32_t tiny_neuron(const struct tiny_shape *shape, size_t layer, size_t place);
size_t tiny_hot(const struct tiny_shape *shape);

/* Find an entry by name. Abort if there is none. */
struct gguf_key *gguf_key(struct gguf *file, const char *name);
struct gguf_tensor *gguf_tensor(struct gguf *file, const char *name);

/* Set the value of a key, which is added if it is absent. */
void gguf_set(struct gguf *file, const char *name, uint32_t type, const void *value, size_t size);
void gguf_set_u32(struct gguf *file, const char *name, uint32_t value);
void gguf_set_f32(struct gguf *file, const char *name, float value);
void gguf_set_bool(struct gguf *file, const char *name, unsigned char value);
void gguf_set_text(struct gguf *file, const char *name, const char *value);
void gguf_set_texts(struct gguf *file, const char *name, const char *const *texts, size_t count);
void gguf_set_i32s(struct gguf *file, const char *name, const int32_t *values, size_t count);

void gguf_drop_key(struct gguf *file, const char *name);
void gguf_repeat_key(struct gguf *file, const char *name);
void gguf_drop_tensor(struct gguf *file, const char *name);
void gguf_repeat_tensor(struct gguf *file, const char *name);

/* Makes the header's counts and the tensors' offsets correct again. The functions above call it; a
 * test calls it after other changes. */
void gguf_settle(struct gguf *file);

/* Appends the file to `out`. No padding follows the last tensor's data. */
void gguf_write_bytes(const struct gguf *file, struct bytes *out);

/* ---- the tiny model's contents, for other formats ------------------------------------------- */

enum { TINY_TOKENS = 32, TINY_SPECIAL = 5 };

/* The spellings of vocab.txt. The first TINY_SPECIAL are [PAD] [UNK] [CLS] [SEP] [MASK]. */
extern const char *const tiny_tokens[TINY_TOKENS];

/* Calls the function for each tensor with its GGUF name and dims (dims[1] = 1 for a vector), in
 * file order. */
void tiny_each_tensor(const struct tiny_shape *shape,
                      void (*visit)(void *context, const char *name, uint64_t dim0, uint64_t dim1),
                      void *context);

/* n deterministic values of the tensor `name`, from -1 to 1; those of a name that ends with
 * "norm.weight", from 0 to 2. */
void tiny_values(const char *name, float *values, size_t n);

/* Adds one more tensor, of these values; gguf_settle must follow the last. dim1 is 1 for a vector.
 */
void tiny_add_tensor(struct gguf *file, const char *name, uint64_t dim0, uint64_t dim1,
                     uint32_t type);

#endif
