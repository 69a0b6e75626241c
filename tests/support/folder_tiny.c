/* SPDX-License-Identifier: Apache-2.0
 * The tiny BERT model as the files of a Hugging Face folder. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"

static void put_text(struct bytes *out, const char *text) {
    bytes_put(out, text, strlen(text));
}

static void put_format(struct bytes *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put_format(struct bytes *out, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_text(out, text);
}

/* ---- weights -------------------------------------------------------------------------------- */

struct name_pair {
    const char *gguf, *hf;
};

static const struct name_pair bert_names[] = {
    {"token_embd_norm.", "embeddings.LayerNorm."},
    {"token_embd.", "embeddings.word_embeddings."},
    {"position_embd.", "embeddings.position_embeddings."},
    {"token_types.", "embeddings.token_type_embeddings."},
    {"attn_q.", "attention.self.query."},
    {"attn_k.", "attention.self.key."},
    {"attn_v.", "attention.self.value."},
    {"attn_output.", "attention.output.dense."},
    {"attn_output_norm.", "attention.output.LayerNorm."},
    {"ffn_up.", "intermediate.dense."},
    {"ffn_down.", "output.dense."},
    {"layer_output_norm.", "output.LayerNorm."},
    {NULL, NULL},
};

static const struct name_pair nomic_names[] = {
    {"token_embd_norm.", "emb_ln."},
    {"token_embd.", "embeddings.word_embeddings."},
    {"token_types.", "embeddings.token_type_embeddings."},
    {"attn_qkv.", "attn.Wqkv."},
    {"attn_output.", "attn.out_proj."},
    {"attn_output_norm.", "norm1."},
    {"ffn_up.", "mlp.fc11."},
    {"ffn_gate.", "mlp.fc12."},
    {"ffn_down.", "mlp.fc2."},
    {"layer_output_norm.", "norm2."},
    {NULL, NULL},
};

static void hf_name(const struct tiny_shape *model, const char *gguf, char *hf, size_t capacity) {
    char prefix[32] = "";
    unsigned layer;
    int length = 0;
    if (sscanf(gguf, "blk.%u.%n", &layer, &length) == 1 && length > 0) {
        snprintf(prefix, sizeof prefix, "encoder.layer%s.%u.", model->nomic ? "s" : "", layer);
        gguf += length;
    }
    for (const struct name_pair *p = model->nomic ? nomic_names : bert_names; p->gguf; p++) {
        const size_t part = strlen(p->gguf);
        if (strncmp(gguf, p->gguf, part) == 0) {
            snprintf(hf, capacity, "%s%s%s", prefix, p->hf, gguf + part);
            return;
        }
    }
    abort();
}

/* Tensors [from, to) of the model, in one safetensors file. */
struct weights {
    const struct tiny_shape *model;
    size_t from, to, at;
    struct bytes header, data;
};

static void put_tensor(void *context, const char *name, uint64_t dim0, uint64_t dim1) {
    struct weights *weights = context;
    const size_t n = (size_t)(dim0 * dim1), start = weights->data.size;
    char hf[96], shape[64];
    const size_t at = weights->at++;
    if (at < weights->from || at >= weights->to)
        return;
    float *values = malloc(n * sizeof *values);
    if (!values)
        abort();
    tiny_values(name, values, n);
    hf_name(weights->model, name, hf, sizeof hf);
    if (dim1 > 1)
        snprintf(shape, sizeof shape, "%u,%u", (unsigned)dim1, (unsigned)dim0);
    else
        snprintf(shape, sizeof shape, "%u", (unsigned)dim0);
    put_format(&weights->header,
               "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
               start ? "," : "", hf, shape, start, start + n * sizeof *values);
    bytes_put_f32s(&weights->data, values, n);
    free(values);
}

void safetensors_put(struct bytes *out, const char *header, size_t length, const void *data,
                     size_t size) {
    bytes_put_u64(out, length);
    bytes_put(out, header, length);
    bytes_put(out, data, size);
}

static void make_weights(struct folder *folder, const struct tiny_shape *shape, const char *name,
                         size_t from, size_t to) {
    struct weights weights = {.model = shape, .from = from, .to = to};
    struct bytes file = {0};
    put_text(&weights.header, "{");
    tiny_each_tensor(shape, put_tensor, &weights);
    put_text(&weights.header, "}");
    safetensors_put(&file, (const char *)weights.header.data, weights.header.size,
                    weights.data.data, weights.data.size);
    folder_put(folder, name, file.data, file.size);
    bytes_release(&weights.header);
    bytes_release(&weights.data);
    bytes_release(&file);
}

void folder_shard(struct folder *folder, const struct tiny_shape *shape) {
    folder_drop(folder, "model.safetensors");
    make_weights(folder, shape, "a.safetensors", 0, 5);
    make_weights(folder, shape, "b.safetensors", 5, SIZE_MAX);
    folder_put_text(folder, "model.safetensors.index.json",
                    "{\"weight_map\":{\"embeddings.LayerNorm.bias\":\"a.safetensors\","
                    "\"embeddings.LayerNorm.weight\":\"a.safetensors\","
                    "\"encoder.layer.0.output.dense.bias\":\"b.safetensors\"}}");
}

/* ---- the tokenizer -------------------------------------------------------------------------- */

static void make_tokenizer_json(struct folder *folder) {
    struct bytes out = {0};
    put_text(&out, "{\"version\":\"1.0\",\"truncation\":null,\"added_tokens\":[");
    for (int i = 0; i < TINY_SPECIAL; i++)
        put_format(&out,
                   "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":%s,"
                   "\"rstrip\":false,\"normalized\":false,\"special\":true}",
                   i ? "," : "", i, tiny_tokens[i], i == 4 ? "true" : "false");
    put_text(&out, "],\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
                   "\"handle_chinese_chars\":true,\"strip_accents\":false,\"lowercase\":true},"
                   "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{"
                   "\"type\":\"TemplateProcessing\",\"single\":["
                   "{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"
                   "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
                   "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],\"special_tokens\":{"
                   "\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[2],\"tokens\":[\"[CLS]\"]},"
                   "\"[SEP]\":{\"id\":\"[SEP]\",\"ids\":[3],\"tokens\":[\"[SEP]\"]}}},"
                   "\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\","
                   "\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
                   "\"max_input_chars_per_word\":100,\"vocab\":{");
    for (int i = 0; i < TINY_TOKENS; i++)
        put_format(&out, "%s\"%s\":%d", i ? "," : "", tiny_tokens[i], i);
    put_text(&out, "}}}");
    folder_put(folder, "tokenizer.json", out.data, out.size);
    bytes_release(&out);
}

static void make_vocab_txt(struct folder *folder) {
    struct bytes out = {0};
    for (int i = 0; i < TINY_TOKENS; i++)
        put_format(&out, "%s\n", tiny_tokens[i]);
    folder_put(folder, "vocab.txt", out.data, out.size);
    bytes_release(&out);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void make_config(struct folder *folder, const struct tiny_shape *shape) {
    struct bytes out = {0};
    put_format(&out,
               "{\"architectures\":[\"BertModel\"],\"model_type\":\"bert\",\"hidden_act\":\"gelu\","
               "\"hidden_size\":%u,\"intermediate_size\":%u,\"num_hidden_layers\":%u,",
               shape->hidden, shape->wide, shape->layers);
    put_format(&out,
               "\"num_attention_heads\":%u,\"max_position_embeddings\":%u,\"type_vocab_size\":2,"
               "\"layer_norm_eps\":1e-05,\"vocab_size\":%d,"
               "\"position_embedding_type\":\"absolute\"}",
               shape->heads, shape->positions, TINY_TOKENS);
    folder_put(folder, "config.json", out.data, out.size);
    bytes_release(&out);
}

/* Writes config.json as Nomic spells it. */
static void make_nomic_config(struct folder *folder, const struct tiny_shape *shape) {
    struct bytes out = {0};
    put_format(&out,
               "{\"architectures\":[\"NomicBertModel\"],\"model_type\":\"nomic_bert\","
               "\"activation_function\":\"swiglu\",\"n_embd\":%u,\"n_inner\":%u,\"n_layer\":%u,",
               shape->hidden, shape->wide, shape->layers);
    put_format(&out,
               "\"n_head\":%u,\"n_positions\":%u,\"type_vocab_size\":2,"
               "\"layer_norm_epsilon\":1e-05,\"vocab_size\":%d,\"prenorm\":false,"
               "\"qkv_proj_bias\":false,\"rotary_emb_base\":1000,\"rotary_emb_fraction\":1.0,"
               "\"rotary_emb_scale_base\":null,\"scale_attn_weights\":true}",
               shape->heads, shape->positions, TINY_TOKENS);
    folder_put(folder, "config.json", out.data, out.size);
    bytes_release(&out);
}

void folder_make(struct folder *folder, const struct tiny_shape *shape) {
    *folder = (struct folder){0};
    if (shape->nomic)
        make_nomic_config(folder, shape);
    else
        make_config(folder, shape);
    make_weights(folder, shape, "model.safetensors", 0, SIZE_MAX);
    make_tokenizer_json(folder);
    make_vocab_txt(folder);
    folder_put_text(folder, "tokenizer_config.json",
                    "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":true,"
                    "\"strip_accents\":false,\"mask_token\":{\"content\":\"[MASK]\","
                    "\"lstrip\":true,\"special\":true},\"unk_token\":\"[UNK]\"}");
    folder_put_text(folder, "modules.json",
                    "[{\"idx\":0,\"path\":\"\",\"type\":\"sentence_transformers.models."
                    "Transformer\"},{\"idx\":1,\"path\":\"1_Pooling\",\"type\":"
                    "\"sentence_transformers.models.Pooling\"},{\"idx\":2,\"path\":"
                    "\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}]");
    folder_put_text(folder, "1_Pooling/config.json",
                    "{\"word_embedding_dimension\":8,\"pooling_mode_cls_token\":false,"
                    "\"pooling_mode_mean_tokens\":true,\"include_prompt\":false}");
    folder_put_text(folder, "sentence_bert_config.json",
                    "{\"max_seq_length\":12,\"do_lower_case\":false}");
    folder_put_text(folder, "config_sentence_transformers.json",
                    "{\"prompts\":{\"query\":\"the: \"},\"default_prompt_name\":\"query\"}");
}
