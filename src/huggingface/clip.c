/* SPDX-License-Identifier: Apache-2.0
 * The text towers of CLIPModel and SiglipModel, and the classes that are those towers alone. */
#include "formats/schema.h"
#include "huggingface/clip_images.h"
#include "huggingface/decoders.h"

static bool is_bidirectional(const struct hf_config *config) {
    (void)config;
    return true; /* both only embed: attention.causal says what tokens see */
}

const char *const hf_clip_activations[HF_CLIP_ACTIVATIONS] = {"quick_gelu", "gelu",
                                                              "gelu_pytorch_tanh"};
const char *const hf_siglip_activations[HF_CLIP_ACTIVATIONS] = {"gelu_pytorch_tanh", "gelu",
                                                                "quick_gelu"};

/* Checks that the token whose hidden state is pooled is the last of a text. transformers takes the
 * first one of the highest id if eos_token_id is 2, as older configurations say, and else the first
 * one of that id. */
static wisp_status check_end(const struct hf_config *config, uint32_t words, wisp_error *error) {
    static const char field[] = "eos_token_id";
    const struct json *given = json_get(config->root, field);
    uint64_t id = 49407; /* CLIPTextConfig's default */
    if (given && !json_to_u64(given, &id))
        return fail(error, WISP_ERROR_FORMAT, config->file, field, "expected the id of a token");
    if (id != 2 && id + 1 != words)
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, field,
                    "%llu is not supported, only 2 and vocab_size - 1 = %u", (unsigned long long)id,
                    words - 1);
    return WISP_OK;
}

/* Reads what both families have. */
static wisp_status read_tower(struct directory *dir, const struct hf_decoder *decoder,
                              const struct hf_config *config, const char *const *activations,
                              const struct hf_size *sizes, size_t n, double usual_epsilon,
                              wisp_error *error) {
    char key[HF_KEY_BYTES];
    TRY(hf_put_activation(dir, config, "hidden_act", activations, HF_CLIP_ACTIVATIONS, error));
    TRY(hf_put_sizes(dir, decoder, config, sizes, n, error));
    const struct hf_field epsilon = {"layer_norm_eps", NULL,
                                     hf_key(decoder, "attention.layer_norm_epsilon", key)};
    return hf_put_number(dir, config, &epsilon, &usual_epsilon, error);
}

static wisp_status read_clip(struct directory *dir, const struct hf_decoder *decoder,
                             const struct hf_config *config, wisp_error *error) {
    static const struct hf_size sizes[] = {{"hidden_size", NULL, "embedding_length", 512},
                                           {"intermediate_size", NULL, "feed_forward_length", 2048},
                                           {"num_hidden_layers", NULL, "block_count", 12},
                                           {"num_attention_heads", NULL, "attention.head_count", 8},
                                           {"max_position_embeddings", NULL, "context_length", 77}};
    static const struct hf_field words = {"vocab_size", NULL, NULL};
    char key[HF_KEY_BYTES];
    uint32_t vocabulary_size;
    TRY(hf_read_size_or(config, &words, decoder->usual.vocabulary_size, &vocabulary_size, error));
    TRY(check_end(config, vocabulary_size, error));
    TRY(directory_put_bool(dir, hf_key(decoder, "attention.causal", key), true, error));
    return read_tower(dir, decoder, config, hf_clip_activations, sizes,
                      sizeof sizes / sizeof *sizes, 1e-5, error);
}

/* The token that is pooled is the last one whatever it is: texts are filled up. */
static wisp_status read_siglip(struct directory *dir, const struct hf_decoder *decoder,
                               const struct hf_config *config, wisp_error *error) {
    static const struct hf_size sizes[] = {
        {"hidden_size", NULL, "embedding_length", 768},
        {"intermediate_size", NULL, "feed_forward_length", 3072},
        {"num_hidden_layers", NULL, "block_count", 12},
        {"num_attention_heads", NULL, "attention.head_count", 12},
        {"max_position_embeddings", NULL, "context_length", 64}};
    static const struct hf_field positions = {"max_position_embeddings", NULL, KEY_TOKENIZER_FILLS};
    TRY(hf_put_size_or(dir, config, &positions, 64, error));
    return read_tower(dir, decoder, config, hf_siglip_activations, sizes,
                      sizeof sizes / sizeof *sizes, 1e-6, error);
}

static const struct hf_name names[] = {
    {"embeddings.token_embedding.", "token_embd.", true},
    {"embeddings.position_embedding.", "position_embd.", true},
    {"final_layer_norm.", "output_norm.", false},
    {"text_projection.", TENSOR_DENSE_2 ".", true}, /* of CLIP */
    {"head.", TENSOR_DENSE_2 ".", false},           /* of SigLIP */
    {0},
};

static const struct hf_name layer_names[] = {
    {"layer_norm1.", "attn_norm.", false},
    {"self_attn.q_proj.", "attn_q.", false},
    {"self_attn.k_proj.", "attn_k.", false},
    {"self_attn.v_proj.", "attn_v.", false},
    {"self_attn.out_proj.", "attn_output.", false},
    {"layer_norm2.", "ffn_norm.", false},
    {"mlp.fc1.", TENSOR_FFN_UP ".", false},
    {"mlp.fc2.", TENSOR_FFN_DOWN ".", false},
    {0},
};

static const char *const others[] = {"logit_scale", "logit_bias", "embeddings.position_ids",
                                     "vision_model.embeddings.position_ids", NULL};

/* The members that all of them share. */
#define TEXT_TOWER                                                                                 \
    .is_bidirectional = is_bidirectional, .pools_last = true, .prefixes = {"text_model."},         \
    .others = others, .tensors = {"encoder.layers.", names, layer_names}

const struct hf_decoder hf_clip = {TEXT_TOWER,
                                   .type = "clip",
                                   .class = "CLIPModel",
                                   .bare = "CLIPModel",
                                   .architecture = "clip",
                                   .part = "text_config",
                                   .images = &hf_clip_images,
                                   .usual.vocabulary_size = 49408,
                                   .read_config = read_clip};

const struct hf_decoder hf_clip_text = {TEXT_TOWER,
                                        .type = "clip_text_model",
                                        .class = "CLIPTextModelWithProjection",
                                        .bare = "CLIPTextModelWithProjection",
                                        .architecture = "clip",
                                        .usual.vocabulary_size = 49408,
                                        .read_config = read_clip};

const struct hf_decoder hf_siglip = {TEXT_TOWER,
                                     .type = "siglip",
                                     .class = "SiglipModel",
                                     .bare = "SiglipModel",
                                     .architecture = "siglip",
                                     .part = "text_config",
                                     .fills = true,
                                     .images = &hf_siglip_images,
                                     .usual.vocabulary_size = 32000,
                                     .read_config = read_siglip};

const struct hf_decoder hf_siglip_text = {TEXT_TOWER,
                                          .type = "siglip_text_model",
                                          .class = "SiglipTextModel",
                                          .bare = "SiglipTextModel",
                                          .architecture = "siglip",
                                          .fills = true,
                                          .usual.vocabulary_size = 32000,
                                          .read_config = read_siglip};
