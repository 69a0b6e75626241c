/* SPDX-License-Identifier: Apache-2.0
 * Hugging Face folders of BERT's neighbours: settings that are refused or checked. test_models.c
 * compares the same folders, unchanged, with sentence-transformers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/folder.h"
#include "support/folder_edit.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

enum { FORMAT = WISP_ERROR_FORMAT, UNSUPPORTED = WISP_ERROR_UNSUPPORTED };
enum { NOT_FOUND = WISP_ERROR_NOT_FOUND };

static const char CONFIG[] = "config.json", WEIGHTS[] = "model.safetensors";

static void settings_of_roberta(void **state) {
    static const char m[] = "roberta";
    static const struct model_edit edits[] = {
        {m, CONFIG, "\"roberta\"", "\"xlm-roberta\"", WISP_OK, NULL, NULL},
        {m, CONFIG, "\"roberta\"", "\"camembert\"", WISP_OK, NULL, NULL},
        {m, CONFIG, "\"pad_token_id\": 1,", "", WISP_OK, NULL, NULL},
        {m, CONFIG, "\"pad_token_id\": 1", "\"pad_token_id\": null", FORMAT, "pad_token_id",
         "null"},
        {m, CONFIG, "embeddings\": 50", "embeddings\": 2", FORMAT, "max_position_embeddings",
         "first 2"},
        {m, CONFIG, "embeddings\": 50", "embeddings\": 49", FORMAT, "position_embd.weight", "47"},
        {m, CONFIG, "\"gelu\"", "\"silu\"", UNSUPPORTED, "hidden_act", "only gelu and relu"},
        {m, CONFIG, "\"is_decoder\": false", "\"is_decoder\": true", UNSUPPORTED, "is_decoder",
         NULL},
        {m, CONFIG, "{", "{\"position_embedding_type\":\"relative_key\",", UNSUPPORTED,
         "position_embedding_type", "only absolute"},
        {m, WEIGHTS, "pooler.dense.bias", "classifier.d.bias", UNSUPPORTED, "classifier.d.bias",
         "reranker"},
        {m, WEIGHTS, "pooler.dense.bias", "lm_head.dens.bias", WISP_OK, NULL, NULL},
        {m, WEIGHTS, "[50,24]", "[1200]", FORMAT, "position_embd.weight", NULL},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_distilbert(void **state) {
    static const char m[] = "distilbert";
    static const struct model_edit edits[] = {
        {m, CONFIG, "\"activation\": \"gelu\"", "\"activation\": \"relu\"", WISP_OK, NULL, NULL},
        {m, CONFIG, "\"sinusoidal_pos_embds\": false", "\"sinusoidal_pos_embds\": true", WISP_OK,
         NULL, NULL}, /* the folder has what they are */
        {m, CONFIG, "\"activation\": \"gelu\"", "\"activation\": \"silu\"", UNSUPPORTED,
         "activation", "only gelu and relu"},
        {m, CONFIG, "{", "{\"is_decoder\":true,", UNSUPPORTED, "is_decoder", "only false"},
        {m, CONFIG, "\"dim\": 24,", "", NOT_FOUND, "dim", "missing"},
        {m, CONFIG, "\"n_heads\": 2", "\"n_heads\": 5", FORMAT, "bert.attention.head_count", "5"},
        {m, CONFIG, "embeddings\": 40", "embeddings\": 41", FORMAT, "position_embd.weight", "41"},
        {m, WEIGHTS, "ffn.lin1.bias", "ffn.lin3.bias", UNSUPPORTED,
         "transformer.layer.0.ffn.lin3.bias", "type distilbert does not have"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_mpnet(void **state) {
    static const char m[] = "mpnet", TOKENIZER[] = "tokenizer_config.json";
    static const char BUCKETS[] = "encoder.relative_attention_bias.weight";
    static const struct model_edit edits[] = {
        {m, CONFIG, "\"pad_token_id\": 1", "\"pad_token_id\": 3", WISP_OK, NULL, NULL},
        {m, CONFIG, "\"relative_attention_num_buckets\": 32,", "", WISP_OK, NULL, NULL},
        {m, TOKENIZER, "\"tokenizer_class\": \"MPNetTokenizer\",", "", WISP_OK, NULL, NULL},
        {m, CONFIG, "buckets\": 32", "buckets\": 64", UNSUPPORTED, "relative_attention_num_buckets",
         "only 32"},
        {m, CONFIG, "embeddings\": 202", "embeddings\": 1", FORMAT, "max_position_embeddings",
         "first 2"},
        {m, CONFIG, "{", "{\"is_decoder\":true,", UNSUPPORTED, "is_decoder", NULL},
        {m, CONFIG, "\"gelu\"", "\"gelu_new\"", UNSUPPORTED, "hidden_act", "only gelu and relu"},
        {m, WEIGHTS, "[32,3]", "[48,2]", FORMAT, "attn_rel_b.weight", "[48, 2]"},
        {m, WEIGHTS, BUCKETS, "embeddings.position_ids", NOT_FOUND, "attn_rel_b.weight", NULL},
        {m, WEIGHTS, "layer.0.attention.attn.q.bias", "layer.0.attention.attn.r.bias", UNSUPPORTED,
         "encoder.layer.0.attention.attn.r.bias", "type mpnet does not have"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_modernbert(void **state) {
    static const char m[] = "modernbert";
    static const struct model_edit edits[] = {
        {m, CONFIG, "\"hidden_activation\": \"gelu\"", "\"hidden_activation\": \"relu\"",
         UNSUPPORTED, "hidden_activation", "only gelu"},
        {m, CONFIG, "\"norm_bias\": false", "\"norm_bias\": true", UNSUPPORTED, "norm_bias", NULL},
        {m, CONFIG, "\"mlp_bias\": false", "\"mlp_bias\": true", UNSUPPORTED, "mlp_bias", NULL},
        {m, CONFIG, "\"attention_bias\": false", "\"attention_bias\": true", UNSUPPORTED,
         "attention_bias", NULL},
        {m, CONFIG, "\"global_attn_every_n_layers\": 2,", "", WISP_OK, NULL, NULL},
        {m, CONFIG, "\"global_attn_every_n_layers\": 2", "\"global_attn_every_n_layers\": 3",
         UNSUPPORTED, "layer_types", "layer 2"},
        {m, CONFIG, "\"layer_types\"", "\"other_types\"", WISP_OK, NULL, NULL},
        {m, CONFIG, "\"rope_parameters\"", "\"rope_others\"", WISP_OK, NULL, NULL},
        {m, CONFIG, "\"rope_type\": \"default\"", "\"rope_type\": \"linear\"", UNSUPPORTED,
         "rope_type", "only default"},
        {m, CONFIG, "\"local_attention\": 6", "\"local_attention\": 0", FORMAT, "local_attention",
         NULL},
        {m, CONFIG, "\"intermediate_size\": 36", "\"intermediate_size\": 40", FORMAT, NULL, NULL},
        {m, WEIGHTS, "layers.0.mlp.Wi.weight", "layers.0.mlp.Wj.weight", UNSUPPORTED,
         "layers.0.mlp.Wj.weight", "type modernbert does not have"},
        {m, WEIGHTS, "layers.1.attn_norm.weight", "layers.9.attn_norm.weight", NOT_FOUND,
         "blk.1.attn_norm.weight", "missing"},
        {m, WEIGHTS, "layers.1.attn_norm.weight", "layers.0.attn_norm.weight", UNSUPPORTED,
         "blk.0.attn_norm.weight", "first layer does not have"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_deberta(void **state) {
    static const char m[] = "deberta-v3", own[] = "deberta-v2", ranks[] = "rank-deberta";
    static const char NORM[] = "\"norm_rel_ebd\": \"layer_norm\"";
    static const char EMBEDDINGS[] = "encoder.rel_embeddings.weight";
    static const struct model_edit edits[] = {
        {m, CONFIG, "\"max_relative_positions\": -1", "\"max_relative_positions\": 200", WISP_OK,
         NULL, NULL},
        {m, CONFIG, "\"max_relative_positions\": -1", "\"max_relative_positions\": 9", FORMAT,
         "deberta-v2.attention.max_relative_positions", "up to 9 cannot have 16 buckets"},
        {m, CONFIG, "\"position_buckets\": 16", "\"position_buckets\": 32", FORMAT,
         "attn_rel_embd.weight", "32"},
        {m, CONFIG, "\"position_buckets\": 16", "\"position_buckets\": \"16\"", FORMAT,
         "position_buckets", "not a whole number"},
        {m, CONFIG, "[\n    \"p2c\",\n    \"c2p\"\n  ]", "\" p2c | c2p\"", WISP_OK, NULL, NULL},
        {m, CONFIG, "\"p2c\"", "\"p2p\"", UNSUPPORTED, "pos_att_type", "only c2p and p2c"},
        {m, CONFIG, NORM, "\"norm_rel_ebd\": \"rms_norm\"", UNSUPPORTED, "norm_rel_ebd",
         "only layer_norm and none"},
        {m, CONFIG, "\"share_att_key\": true", "\"share_att_key\": false", NOT_FOUND,
         "blk.0.attn_rel_k.weight", "missing"},
        {m, CONFIG, "\"share_att_key\": true", "\"share_att_key\": 1", FORMAT, NULL,
         "true or false"},
        {m, CONFIG, "\"relative_attention\": true", "\"relative_attention\": false", WISP_OK, NULL,
         NULL},
        {m, CONFIG, "\"layer_norm_eps\": 1e-07,", "", NOT_FOUND, "layer_norm_eps", "missing"},
        {m, CONFIG, "{", "{\"conv_kernel_size\":3,", UNSUPPORTED, "conv_kernel_size",
         "a convolution"},
        {m, CONFIG, "{", "{\"conv_kernel_size\":0,\"embedding_size\":24,", WISP_OK, NULL, NULL},
        {m, CONFIG, "{", "{\"embedding_size\":16,", UNSUPPORTED, "embedding_size", "only 24"},
        {m, CONFIG, "{", "{\"attention_head_size\":16,", UNSUPPORTED, "attention_head_size",
         "only 8"},
        {m, CONFIG, "\"position_biased_input\": false", "\"position_biased_input\": true",
         NOT_FOUND, "position_embd.weight", NULL},
        {own, CONFIG, "\"position_biased_input\": true", "\"position_biased_input\": false",
         WISP_OK, NULL, NULL}, /* as files of pretraining, which have positions */
        {own, WEIGHTS, EMBEDDINGS, "lm_predictions.lm_head.dense.", NOT_FOUND,
         "attn_rel_embd.weight", NULL},
        {own, CONFIG, "\"type_vocab_size\": 2", "\"type_vocab_size\": -1", WISP_OK, NULL, NULL},
        {m, WEIGHTS, "encoder.LayerNorm.bias", "encoder.LayerNurm.bias", UNSUPPORTED,
         "encoder.LayerNurm.bias", "type deberta-v2 does not have"},
        {ranks, CONFIG, "\"pooler_hidden_act\": \"tanh\"", "\"pooler_hidden_act\": \"silu\"",
         UNSUPPORTED, "pooler_hidden_act", "only gelu, tanh and relu"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

/* What spm.model does not say is refused before it is read. */
static void tokenizers_of_deberta(void **state) {
    static const char *const settings[] = {"do_lower_case", "split_by_punct"};
    static struct folder folder;
    const char *path = temporary_path("deberta");
    wisp_model *model = NULL;
    wisp_error error;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char text[64];
        folder_read_model(&folder, "deberta-v3");
        folder_drop(&folder, "tokenizer.json");
        folder_put_text(&folder, "spm.model", "");
        snprintf(text, sizeof text, "{\"%s\": true}", settings[i]);
        folder_put_text(&folder, "tokenizer_config.json", text);
        folder_write(&folder, path);
        assert_int_equal(wisp_model_open(path, NULL, &model, &error), UNSUPPORTED);
        assert_string_equal(error.field, settings[i]);
        folder_put_text(&folder, "tokenizer_config.json", "{}");
        folder_write(&folder, path);
        assert_int_equal(wisp_model_open(path, NULL, &model, &error), FORMAT);
        assert_string_equal(error.field, "pieces");
        folder_release(&folder);
    }
}

static void settings_of_jina_v2(void **state) {
    static const char m[] = "jina-v2", TYPE[] = "\"feed_forward_type\": \"geglu\"";
    static const struct model_edit edits[] = {
        {m, CONFIG, TYPE, "\"feed_forward_type\": \"reglu\"", UNSUPPORTED, "feed_forward_type",
         "only geglu"},
        {m, CONFIG, "\"alibi\"", "\"absolute\"", UNSUPPORTED, NULL, "type bert does not have"},
        {m, CONFIG, "\"gelu\"", "\"silu\"", UNSUPPORTED, "hidden_act", "only gelu and relu"},
        {m, WEIGHTS, "layer.0.mlp.wo.bias", "layer.0.mlp.wi.bias", UNSUPPORTED,
         "encoder.layer.0.mlp.wi.bias", "type bert does not have"},
        {m, WEIGHTS, "[88,30]", "[44,60]", FORMAT, NULL, NULL},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_jina_v3(void **state) {
    static const char m[] = "jina-v3", MODULES[] = "modules.json";
    static const struct model_edit edits[] = {
        {m, CONFIG, "\"rotary_emb_base\": 20000.0", "\"rotary_emb_base\": 0.5", FORMAT,
         "jina-bert-v3.rope.freq_base", "at least 1"},
        {m, MODULES, "custom_st.Transformer", "custom_st.Other", UNSUPPORTED, "type",
         "only sentence-transformers'"},
        {"xlm-roberta", MODULES, "sentence_transformers.base.modules.transformer.Transformer",
         "custom_st.Transformer", UNSUPPORTED, "type", "only sentence-transformers'"},
        {m, WEIGHTS, "emb_ln.bias", "emb_lm.bias", UNSUPPORTED, "roberta.emb_lm.bias",
         "type xlm-roberta does not have"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_nomic_experts(void **state) {
    static const char m[] = "nomic-moe", FIRST[] = "encoder.layers.1.mlp.experts.bias";
    static const struct model_edit edits[] = {
        {m, CONFIG, "\"moe_normalize_expert_weights\": false",
         "\"moe_normalize_expert_weights\": true", UNSUPPORTED, "moe_normalize_expert_weights",
         "only false"},
        {m, CONFIG, "\"num_shared_experts\": 0", "\"num_shared_experts\": 1", UNSUPPORTED,
         "num_shared_experts", "only 0"},
        {m, CONFIG, "\"qkv_proj_bias\": true", "\"qkv_proj_bias\": false", UNSUPPORTED,
         "qkv_proj_bias", "only true"},
        {m, CONFIG, "\"activation_function\": \"gelu\"", "\"activation_function\": \"swiglu\"",
         UNSUPPORTED, "activation_function", "only gelu"},
        {m, CONFIG, "\"num_experts\": 5", "\"num_experts\": 7", FORMAT, NULL,
         "a matrix for each expert"},
        {m, CONFIG, "\"moe_top_k\": 2", "\"moe_top_k\": 6", FORMAT,
         "nomic-bert-moe.expert_used_count", "6 of 5"},
        {m, CONFIG, "\"moe_every_n_layers\": 2", "\"moe_every_n_layers\": 1", FORMAT,
         "nomic-bert-moe.moe_every_n_layers", "not between 2"},
        {m, CONFIG, "\"moe_every_n_layers\": 2", "\"moe_every_n_layers\": 3", NOT_FOUND, NULL,
         NULL},
        {m, WEIGHTS, "layers.3.mlp.experts.bias", "layers.3.mlp.experts.bios", UNSUPPORTED, NULL,
         NULL},
        {m, WEIGHTS, FIRST, "encoder.layers.9.mlp.experts.bias", FORMAT, "ffn_exps.bias",
         "1 layers have it, of 2"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_dense(void **state) {
    static const char m[] = "dense", two[] = "dense-twice", MODULES[] = "modules.json";
    static const char DENSE[] = "2_Dense/config.json", SECOND[] = "2_Dense/model.safetensors";
    static const struct model_edit edits[] = {
        {m, DENSE, "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.ReLU", WISP_OK,
         NULL, NULL},
        {m, DENSE, "{", "{\"use_residual\":false,", WISP_OK, NULL, NULL},
        {m, DENSE, "{", "{\"use_residual\":true,", UNSUPPORTED, "use_residual", "only false"},
        {m, DENSE, "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.GLU",
         UNSUPPORTED, "activation_function", "Identity, Tanh, ReLU"},
        {m, DENSE, "sentence_embedding", "token_embeddings", UNSUPPORTED, "module_input_name",
         "only sentence_embedding"},
        {m, DENSE, "features\": 40", "features\": 41", FORMAT, "out_features", "40 rows"},
        {m, DENSE, "\"bias\": true", "\"bias\": false", FORMAT, "bias", "have one"},
        {two, DENSE, "\"bias\": false", "\"bias\": true", FORMAT, "bias", "have none"},
        {m, SECOND, "linear.bias", "linear.bios", UNSUPPORTED, "linear.bios", "does not have"},
        {m, SECOND, "[40,24]", "[40,12,2]", FORMAT, NULL, NULL},
        {two, MODULES, "sentence_transformer.modules.pooling.Pooling", "base.modules.dense.Dense",
         UNSUPPORTED, "type", "before the Pooling"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_4_bit_matrices(void **state) {
    static const char m[] = "onnx-q4", GRAPH[] = "onnx/model_q4.onnx";
    static const struct model_edit edits[] = {
        {m, GRAPH, "block_size", "block_seze", UNSUPPORTED, NULL, "blocks of an even size"},
        {m, GRAPH, "bits", "bots", UNSUPPORTED, NULL, "only 4-bit weights"},
        {m, GRAPH, "MatMulNBits", "MatMulNBitz", NOT_FOUND, NULL, "missing"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

static void a_bert_without_its_token_types_is_refused(void **state) {
    static const struct model_edit edits[] = {
        {"cls12", WEIGHTS, "embeddings.token_type_embeddings.weight", "embeddings.position_ids",
         NOT_FOUND, "token_types.weight", "2 types"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_of_roberta),
        cmocka_unit_test(settings_of_distilbert),
        cmocka_unit_test(settings_of_mpnet),
        cmocka_unit_test(settings_of_modernbert),
        cmocka_unit_test(settings_of_deberta),
        cmocka_unit_test(tokenizers_of_deberta),
        cmocka_unit_test(settings_of_jina_v2),
        cmocka_unit_test(settings_of_jina_v3),
        cmocka_unit_test(settings_of_nomic_experts),
        cmocka_unit_test(settings_of_dense),
        cmocka_unit_test(settings_of_4_bit_matrices),
        cmocka_unit_test(a_bert_without_its_token_types_is_refused),
    };
    return cmocka_run_group_tests_name("encoders", tests, NULL, tear_down_temporary_folder);
}
