/* SPDX-License-Identifier: Apache-2.0
 * Hugging Face folders with one fault each: a text in one of their files, or the whole file, is
 * replaced. opening.h has the numbers. test_malformed_hf_sweeps.c has the faults that occur at
 * every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/folder.h"
#include "support/opening.h"

struct malformed {
    const char *name;
    const char *file;
    const char *old;  /* NULL: the whole file */
    const char *with; /* NULL: the file is removed */
    wisp_status status;
    const char *field; /* NULL: any */
    const char *says;  /* NULL: anything */
};

#define FORMAT WISP_ERROR_FORMAT
#define UNSUPPORTED WISP_ERROR_UNSUPPORTED
#define NOT_FOUND WISP_ERROR_NOT_FOUND

static const char CONFIG[] = "config.json", WEIGHTS[] = "model.safetensors",
                  TOKENIZER[] = "tokenizer.json", TOKENIZER_CONFIG[] = "tokenizer_config.json",
                  MODULES[] = "modules.json", POOLING[] = "1_Pooling/config.json",
                  LIMITS[] = "sentence_bert_config.json",
                  PROMPTS[] = "config_sentence_transformers.json",
                  NORMALIZE[] = "2_Normalize/config.json", ADAPTER[] = "adapter_config.json",
                  INDEX[] = "model.safetensors.index.json", MAP[] = "special_tokens_map.json",
                  LEGACY[] = "added_tokens.json";

static const struct malformed cases[] = {
    {"a folder that is good", CONFIG, "\"bert\"", "\"bert\"", WISP_OK, NULL, NULL},

    /* JSON itself */
    {"an empty config.json", CONFIG, NULL, "", FORMAT, NULL, "line 1, column 1"},
    {"a config.json of white space", CONFIG, NULL, " \n ", FORMAT, NULL, "line 2, column 2"},
    {"a config.json that is not an object", CONFIG, NULL, "[]", FORMAT, NULL, "expected an object"},
    {"a modules.json that is not an array", MODULES, NULL, "{}", FORMAT, NULL, "expected an array"},
    {"text after the end", CONFIG, "\"absolute\"}", "\"absolute\"}x", FORMAT, NULL, "after"},
    {"two values", CONFIG, "\"absolute\"}", "\"absolute\"}{}", FORMAT, NULL, "after"},
    {"a comma too many", CONFIG, "\"absolute\"}", "\"absolute\",}", FORMAT, NULL, "quoted key"},
    {"a comma too few", CONFIG, "\"gelu\",", "\"gelu\"", FORMAT, NULL, "comma"},
    {"a key without quotes", CONFIG, "\"hidden_act\"", "hidden_act", FORMAT, NULL, "quoted key"},
    {"a comment", CONFIG, "{", "{/**/", FORMAT, NULL, NULL},
    {"NaN", CONFIG, "1e-05", "NaN", FORMAT, NULL, "number"},
    {"a number with a zero before it", CONFIG, "1e-05", "01", FORMAT, NULL, "number"},
    {"a number without digits", CONFIG, "1e-05", "-", FORMAT, NULL, "number"},
    {"a number that ends in its point", CONFIG, "1e-05", "1.", FORMAT, NULL, "decimal point"},
    {"a number that ends in its exponent", CONFIG, "1e-05", "1e", FORMAT, NULL, "exponent"},
    {"a hexadecimal number", CONFIG, "1e-05", "0x1", FORMAT, NULL, NULL},
    {"a string without its end", CONFIG, "\"absolute\"}", "\"absolute", FORMAT, NULL, "string"},
    {"a string that ends in a backslash", CONFIG, "\"absolute\"}", "\"absolute\\", FORMAT, NULL,
     "string"},
    {"a line feed in a string", CONFIG, "\"gelu\"", "\"ge\nlu\"", FORMAT, NULL, "control"},
    {"a string that is not UTF-8", CONFIG, "\"gelu\"", "\"ge\xFFlu\"", FORMAT, NULL, "UTF-8"},
    {"a key that is not UTF-8", CONFIG, "hidden_act", "hidden\xC0\x80", FORMAT, NULL, "UTF-8"},
    {"an unknown escape", CONFIG, "\"gelu\"", "\"ge\\x\"", FORMAT, NULL, "escape"},
    {"an escape of three digits", CONFIG, "\"gelu\"", "\"\\u004\"", FORMAT, NULL, "hexadecimal"},
    {"39: a key twice", CONFIG, "{", "{\"hidden_act\":1,", FORMAT, "hidden_act", "twice"},
    {"39: a key twice, once with escapes", CONFIG, "{", "{\"hidden\\u005fact\":1,", FORMAT,
     "hidden_act", "twice"},
    {"40: half a surrogate pair", CONFIG, "\"gelu\"", "\"\\ud83d\"", FORMAT, NULL, "surrogate"},
    {"40: half a pair and a letter", CONFIG, "\"gelu\"", "\"\\ud83dx\"", FORMAT, NULL, "surrogate"},
    {"40: a pair the wrong way round", CONFIG, "\"gelu\"", "\"\\ude00\\ud83d\"", FORMAT, NULL,
     "surrogate"},
    {"40: two first halves", CONFIG, "\"gelu\"", "\"\\ud83d\\ud83d\"", FORMAT, NULL, "surrogate"},
    {"40: half a pair in a key", CONFIG, "hidden_act", "\\udc00", FORMAT, NULL, "surrogate"},
    {"40: half a pair in a token", TOKENIZER, "\"food\"", "\"\\udc00\"", FORMAT, NULL, "surrogate"},

    /* config.json */
    {"no config.json", CONFIG, NULL, NULL, NOT_FOUND, NULL, "No such file"},
    {"a model of another type", CONFIG, "\"bert\"", "\"gpt2\"", UNSUPPORTED, "model_type", "gpt2"},
    {"a model of no type", CONFIG, "\"model_type\"", "\"x\"", UNSUPPORTED, "model_type", NULL},
    {"33: no hidden_size", CONFIG, "\"hidden_size\"", "\"x\"", NOT_FOUND, "hidden_size", "missing"},
    {"33: hidden_size 0", CONFIG, "\"hidden_size\":8", "\"hidden_size\":0", FORMAT, "hidden_size",
     "0 is"},
    {"33: hidden_size -8", CONFIG, "\"hidden_size\":8", "\"hidden_size\":-8", FORMAT, "hidden_size",
     "-8"},
    {"33: hidden_size 8.0", CONFIG, "\"hidden_size\":8", "\"hidden_size\":8.0", FORMAT,
     "hidden_size", "8.0"},
    {"33: hidden_size 2^32", CONFIG, "\"hidden_size\":8", "\"hidden_size\":4294967296", FORMAT,
     "hidden_size", "4294967296"},
    {"33: hidden_size 2^64 + 8", CONFIG, "\"hidden_size\":8",
     "\"hidden_size\":18446744073709551624", FORMAT, "hidden_size", NULL},
    {"33: hidden_size in quotes", CONFIG, "\"hidden_size\":8", "\"hidden_size\":\"8\"", FORMAT,
     "hidden_size", NULL},
    {"33: hidden_size null", CONFIG, "\"hidden_size\":8", "\"hidden_size\":null", FORMAT,
     "hidden_size", "null"},
    {"33: hidden_size an array", CONFIG, "\"hidden_size\":8", "\"hidden_size\":[8]", FORMAT,
     "hidden_size", "array"},
    {"33: no layers", CONFIG, "\"num_hidden_layers\":2", "\"num_hidden_layers\":0", FORMAT,
     "num_hidden_layers", NULL},
    {"33: 2^32 - 1 layers", CONFIG, "\"num_hidden_layers\":2", "\"num_hidden_layers\":4294967295",
     FORMAT, "bert.block_count", "4294967295"},
    {"33: no heads", CONFIG, "\"num_attention_heads\":2", "\"num_attention_heads\":0", FORMAT,
     "num_attention_heads", NULL},
    {"33: 3 heads for 8", CONFIG, "\"num_attention_heads\":2", "\"num_attention_heads\":3", FORMAT,
     "bert.attention.head_count", "divide"},
    {"33: no intermediate_size", CONFIG, "\"intermediate_size\"", "\"x\"", NOT_FOUND,
     "intermediate_size", NULL},
    {"33: no positions", CONFIG, "\"max_position_embeddings\":16", "\"max_position_embeddings\":0",
     FORMAT, "max_position_embeddings", NULL},
    {"33: another activation", CONFIG, "\"gelu\"", "\"silu\"", UNSUPPORTED, "hidden_act", "silu"},
    {"33: an activation that is a number", CONFIG, "\"gelu\"", "1", UNSUPPORTED, "hidden_act", "1"},
    {"33: no activation", CONFIG, "\"hidden_act\"", "\"x\"", UNSUPPORTED, "hidden_act", "none"},
    {"33: other positions", CONFIG, "\"absolute\"", "\"relative_key\"", UNSUPPORTED,
     "position_embedding_type", "relative_key"},
    {"33: a decoder", CONFIG, "{", "{\"is_decoder\":true,", UNSUPPORTED, "is_decoder", NULL},
    {"34: hidden_size 16 for 8", CONFIG, "\"hidden_size\":8", "\"hidden_size\":16", FORMAT, NULL,
     "16"},
    {"34: a layer that is not there", CONFIG, "\"num_hidden_layers\":2", "\"num_hidden_layers\":3",
     NOT_FOUND, "blk.2.attn_q.weight", "missing"},
    {"35: epsilon a string", CONFIG, "1e-05", "\"1e-05\"", FORMAT, "layer_norm_eps", "1e-05"},
    {"35: epsilon infinite", CONFIG, "1e-05", "1e400", FORMAT, NULL, "finite"},
    {"35: epsilon -1", CONFIG, "1e-05", "-1", FORMAT, NULL, "at least 0"},
    {"35: epsilon 0e400 is 0", CONFIG, "1e-05", "0e400", WISP_OK, NULL, NULL},
    {"35: epsilon 1e-400 is 0", CONFIG, "1e-05", "1e-400", WISP_OK, NULL, NULL},

    {"no type_vocab_size is 2", CONFIG, "\"type_vocab_size\":2,", "", WISP_OK, NULL, NULL},
    {"quantised weights", CONFIG, "{", "{\"quantization_config\":{\"quant_method\":\"awq\"},",
     UNSUPPORTED, "quantization_config", "awq"},
    {"a model of a long type, whose name is not cut", CONFIG, "\"bert\"",
     "\"a_model_type_of_more_than_thirty-two_characters\"", UNSUPPORTED, "model_type",
     "more_than_thirty-two_characters are"},

    /* safetensors */
    {"no weights", WEIGHTS, NULL, NULL, NOT_FOUND, NULL, "No such file"},
    {"36: an empty file", WEIGHTS, NULL, "", FORMAT, "header length", NULL},
    {"36: a file of 7 bytes", WEIGHTS, NULL, "\x02", FORMAT, "header length", NULL},
    {"36: a header that is not an object", WEIGHTS, "{\"embeddings.word", "[\"embeddings.word",
     FORMAT, NULL, NULL},
    {"36: a header with text after it", WEIGHTS, "{\"embeddings.word", "{}{\"embeddings.word",
     FORMAT, NULL, "after"},
    {"37: a hole", WEIGHTS, "[0,1024]", "[1,1025]", FORMAT, NULL, NULL},
    {"37: an overlap", WEIGHTS, "[1024,1536]", "[1023,1535]", FORMAT,
     "embeddings.position_embeddings.weight", "overlap"},
    {"37: an overlap of all", WEIGHTS, "[1024,1536]", "[0,512]", FORMAT, NULL, "overlap"},
    {"38: a span too short", WEIGHTS, "[0,1024]", "[0,1020]", FORMAT,
     "embeddings.word_embeddings.weight", "1020"},
    {"38: a span of nothing", WEIGHTS, "[0,1024]", "[0,0]", FORMAT, NULL, NULL},
    {"38: a span backwards", WEIGHTS, "[0,1024]", "[1024,0]", FORMAT, NULL, NULL},
    {"38: another dtype", WEIGHTS, "\"F32\"", "\"F16\"", FORMAT, NULL, "512"},
    {"38: an unknown dtype", WEIGHTS, "\"F32\"", "\"F8_E5M2\"", UNSUPPORTED,
     "embeddings.word_embeddings.weight", "F8_E5M2"},
    {"38: a dtype that is a number", WEIGHTS, "\"F32\"", "32", UNSUPPORTED, NULL, "dtype"},
    {"38: no dtype", WEIGHTS, "\"dtype\"", "\"x\"", UNSUPPORTED, NULL, "dtype"},
    {"38: no shape", WEIGHTS, "\"shape\"", "\"x\"", FORMAT, NULL, "shape"},
    {"38: a shape that is a number", WEIGHTS, "[32,8]", "256", FORMAT, NULL, "shape"},
    {"38: five dimensions", WEIGHTS, "[32,8]", "[1,1,1,32,8]", FORMAT, NULL, "dimensions"},
    {"38: a dimension of 0", WEIGHTS, "[32,8]", "[0,8]", FORMAT, NULL, "0"},
    {"38: a dimension of -1", WEIGHTS, "[32,8]", "[-1,8]", FORMAT, NULL, "dimension"},
    {"38: a dimension of 8.0", WEIGHTS, "[32,8]", "[32,8.0]", FORMAT, NULL, "dimension"},
    {"38: 2^64 elements", WEIGHTS, "[32,8]", "[4294967296,4294967296,1]", FORMAT, NULL, NULL},
    {"38: 2^62 elements of 4 bytes", WEIGHTS, "[32,8]", "[4611686018427387904]", FORMAT, NULL,
     "overflow"},
    {"38: no data_offsets", WEIGHTS, "\"data_offsets\"", "\"x\"", FORMAT, NULL, "data_offsets"},
    {"38: an entry that is not an object", WEIGHTS, "{\"emb", "{\"x\":1,\"emb", UNSUPPORTED, "x",
     NULL},
    {"39: an offset as a float", WEIGHTS, "[0,1024]", "[0,1024.0]", FORMAT, NULL, "whole numbers"},
    {"39: an offset with an exponent", WEIGHTS, "[0,1024]", "[0,1e3]", FORMAT, NULL, NULL},
    {"39: a negative offset", WEIGHTS, "[0,1024]", "[-0,1024]", FORMAT, NULL, "whole numbers"},
    {"39: an offset of 2^53 + 1", WEIGHTS, "[0,1024]", "[0,9007199254740993]", FORMAT, NULL,
     "not within"},
    {"39: an offset of 2^64 + 1024", WEIGHTS, "[0,1024]", "[0,18446744073709552640]", FORMAT, NULL,
     NULL},
    {"39: three offsets", WEIGHTS, "[0,1024]", "[0,512,1024]", FORMAT, NULL, NULL},
    {"39: a tensor twice", WEIGHTS, "embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias",
     FORMAT, "embeddings.LayerNorm.bias", "twice"},
    {"39: a tensor under two names", WEIGHTS, "\"embeddings.LayerNorm.weight",
     "\"bert.embeddings.LayerNorm.bias", FORMAT, "token_embd_norm.bias", "two tensors"},
    {"39: a tensor without a name", WEIGHTS, "embeddings.LayerNorm.weight", "", FORMAT, NULL, NULL},
    {"39: a tensor name with a NUL", WEIGHTS, "LayerNorm.weight", "LayerNorm.weight\\u0000", FORMAT,
     NULL, "NUL"},
    {"34: a tensor that BERT does not have", WEIGHTS, "embeddings.LayerNorm.weight", "extra.weight",
     UNSUPPORTED, "extra.weight", NULL},
    {"34: a tensor missing", WEIGHTS, "encoder.layer.1.output.dense.bias", "pooler.dense.bias",
     NOT_FOUND, "blk.1.ffn_down.bias", "missing"},
    {"34: a layer number of 7 digits", WEIGHTS, "layer.1.output.dense.bias",
     "layer.1000000.output.dense.bias", UNSUPPORTED, NULL, NULL},
    {"34: a layer number with a zero before it", WEIGHTS, "layer.1.output.dense.bias",
     "layer.01.output.dense.bias", UNSUPPORTED, NULL, "blk.01"},
    {"34: layers beyond those of the model are left out", "config.json", "\"num_hidden_layers\":2",
     "\"num_hidden_layers\":1", WISP_OK, NULL, NULL},

    {"34: the head of a reranker", WEIGHTS, "embeddings.LayerNorm.weight", "classifier.weight",
     UNSUPPORTED, "classifier.weight", "reranker"},
    {"an index left beside the weights", INDEX, NULL,
     "{\"weight_map\":{\"x\":\"no-such.safetensors\"}}", WISP_OK, NULL, NULL},

    /* tokenizer.json */
    {"no tokenizer.json, but vocab.txt", TOKENIZER, NULL, NULL, WISP_OK, NULL, NULL},
    {"30: no vocabulary", TOKENIZER, "\"vocab\"", "\"x\"", FORMAT, "model.vocab", NULL},
    {"30: an empty vocabulary", TOKENIZER, "\"vocab\":{", "\"vocab\":{},\"x\":{", FORMAT,
     "model.vocab", NULL},
    {"30: a vocabulary that is an array", TOKENIZER, "\"vocab\":{", "\"vocab\":[],\"x\":{", FORMAT,
     "model.vocab", NULL},
    {"31: an id past the vocabulary", TOKENIZER, "\"food\":12", "\"food\":32", FORMAT,
     "model.vocab", "food"},
    {"31: id -1", TOKENIZER, "\"food\":12", "\"food\":-1", FORMAT, "model.vocab", "food"},
    {"31: an id that is not a number", TOKENIZER, "\"food\":12", "\"food\":\"12\"", FORMAT,
     "model.vocab", "food"},
    {"31: an id twice", TOKENIZER, "\"food\":12", "\"food\":13", FORMAT, "model.vocab", "food"},
    {"31: no unknown token", TOKENIZER, "\"unk_token\":\"[UNK]\"", "\"unk_token\":\"[X]\"", FORMAT,
     "model.unk_token", NULL},
    {"31: an added token without an id", TOKENIZER, "{\"id\":4,", "{", FORMAT, "added_tokens",
     "id"},
    {"31: an added token past the vocabulary", TOKENIZER, "{\"id\":4,", "{\"id\":40,", FORMAT,
     "added_tokens", "40"},
    {"31: an added token of another id", TOKENIZER, "{\"id\":4,", "{\"id\":5,", FORMAT,
     "added_tokens", "[MASK]"},
    {"31: an added token twice", TOKENIZER, "{\"id\":4,\"content\":\"[MASK]\"",
     "{\"id\":3,\"content\":\"[SEP]\"", FORMAT, "added_tokens", "twice"},
    {"31: an added token without a text", TOKENIZER, "\"content\":\"[MASK]\"", "\"content\":\"\"",
     FORMAT, "added_tokens", "text"},
    {"31: a flag that is a number", TOKENIZER, "\"lstrip\":true", "\"lstrip\":1", FORMAT,
     "added_tokens", "true or false"},
    {"31: added tokens that are not an array", TOKENIZER, "\"added_tokens\":[",
     "\"added_tokens\":{},\"x\":[", FORMAT, "added_tokens", "array"},
    {"31: a special token past the vocabulary", TOKENIZER, "\"ids\":[2]", "\"ids\":[32]",
     UNSUPPORTED, "post_processor.special_tokens", NULL},
    {"31: a special token of two ids", TOKENIZER, "\"ids\":[2]", "\"ids\":[2,3]", UNSUPPORTED,
     "post_processor.special_tokens", NULL},
    {"32: a token with a NUL", TOKENIZER, "\"food\"", "\"fo\\u0000d\"", FORMAT, NULL, NULL},
    {"41: a model with merges", TOKENIZER, "\"model\":{\"type\":\"WordPiece\"",
     "\"model\":{\"merges\":[\"x y\"],\"type\":\"BPE\"", UNSUPPORTED, "normalizer",
     "BertNormalizer"},
    {"41: another prefix", TOKENIZER, "\"##\"", "\"@@\"", UNSUPPORTED,
     "model.continuing_subword_prefix", NULL},
    {"41: words of 2^40 characters", TOKENIZER, "_per_word\":100", "_per_word\":1099511627776",
     FORMAT, "model.max_input_chars_per_word", NULL},
    {"41: another normaliser", TOKENIZER, "\"BertNormalizer\"", "\"NFC\"", UNSUPPORTED,
     "normalizer", NULL},
    {"41: a normaliser that is a number", TOKENIZER, "\"normalizer\":{", "\"normalizer\":1,\"x\":{",
     UNSUPPORTED, "normalizer", NULL},
    {"41: a setting that is a number", TOKENIZER, "\"clean_text\":true", "\"clean_text\":1", FORMAT,
     "normalizer.clean_text", NULL},
    {"41: another pre-tokenizer", TOKENIZER, "\"BertPreTokenizer\"", "\"ByteLevel\"", UNSUPPORTED,
     "pre_tokenizer", NULL},
    {"41: another post-processor", TOKENIZER, "\"TemplateProcessing\"", "\"ByteLevel\"",
     UNSUPPORTED, "post_processor", NULL},
    {"41: another template", TOKENIZER, "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}",
     "{\"Sequence\":{\"id\":\"A\",\"type_id\":1}}", UNSUPPORTED, "post_processor.single", NULL},
    {"a setting of tokenizer_config.json", TOKENIZER_CONFIG, "\"do_lower_case\":true",
     "\"do_lower_case\":\"yes\"", FORMAT, "do_lower_case", NULL},

    {"a class with rules of its own", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"tokenizer_class\":\"BertJapaneseTokenizer\"", UNSUPPORTED, "tokenizer_class",
     "BertJapaneseTokenizer"},
    {"a class that no one has", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"tokenizer_class\":\"MyBertTokenizer\"", UNSUPPORTED, "tokenizer_class", "MyBertTokenizer"},
    {"a class that is a number", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"tokenizer_class\":1", UNSUPPORTED, "tokenizer_class", "1"},
    {"a class that is null is BERT's", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"tokenizer_class\":null", WISP_OK, NULL, NULL},
    {"the class of no model", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"sep_token\":\"[SEP]\"", WISP_OK, NULL,
     NULL},
    {"a last token without a name, and prompts left out", TOKENIZER_CONFIG,
     "\"tokenizer_class\":\"BertTokenizer\"", "\"tokenizer_class\":\"PreTrainedTokenizerFast\"",
     UNSUPPORTED, "sep_token", "leaves prompts out"},
    {"a class in config.json", CONFIG, "{", "{\"tokenizer_class\":\"BertJapaneseTokenizer\",",
     WISP_OK, NULL, NULL},
    {"special tokens that are split", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"split_special_tokens\":true,\"tokenizer_class\":\"BertTokenizer\"", UNSUPPORTED,
     "split_special_tokens", "true"},
    {"the end of a text is kept", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"truncation_side\":\"left\",\"tokenizer_class\":\"BertTokenizer\"", UNSUPPORTED,
     "truncation_side", "left"},
    {"padding on the left", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"padding_side\":\"left\",\"tokenizer_class\":\"BertTokenizer\"", UNSUPPORTED, "padding_side",
     "left"},
    {"a tokenizer for each version", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"fast_tokenizer_files\":[\"tokenizer.4.0.0.json\"],\"tokenizer_class\":\"BertTokenizer\"",
     UNSUPPORTED, "fast_tokenizer_files", "tokenizer.4.0.0.json"},
    {"a special token of a name of its own", TOKENIZER_CONFIG,
     "\"tokenizer_class\":\"BertTokenizer\"",
     "\"image_token\":\"the\",\"tokenizer_class\":\"BertTokenizer\"", UNSUPPORTED, "image_token",
     "the"},
    {"a further special token that is not there", TOKENIZER_CONFIG,
     "\"tokenizer_class\":\"BertTokenizer\"",
     "\"additional_special_tokens\":[\"<x>\"],\"tokenizer_class\":\"BertTokenizer\"", FORMAT,
     "additional_special_tokens", "<x>"},
    {"further special tokens that are a text", TOKENIZER_CONFIG,
     "\"tokenizer_class\":\"BertTokenizer\"",
     "\"extra_special_tokens\":\"the\",\"tokenizer_class\":\"BertTokenizer\"", FORMAT,
     "extra_special_tokens", "list"},
    {"further special tokens twice", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"extra_special_tokens\":[\"the\"],\"additional_special_tokens\":[\"food\"],\"tokenizer_"
     "class\":\"BertTokenizer\"",
     UNSUPPORTED, "extra_special_tokens", "differ in which"},
    {"further special tokens", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"additional_special_tokens\":[\"the\"],\"tokenizer_class\":\"BertTokenizer\"", WISP_OK, NULL,
     NULL},
    {"another first token", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"cls_token\":\"the\",\"tokenizer_class\":\"BertTokenizer\"", UNSUPPORTED, "cls_token",
     "differ in which"},
    {"a first token that is not there", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"cls_token\":\"<x>\",\"tokenizer_class\":\"BertTokenizer\"", FORMAT, "cls_token", "<x>"},
    {"a last token that is null", TOKENIZER_CONFIG, "\"tokenizer_class\":\"BertTokenizer\"",
     "\"sep_token\":null,\"tokenizer_class\":\"BertTokenizer\"", UNSUPPORTED, "sep_token", "null"},
    {"a limit that is not a whole number", TOKENIZER_CONFIG,
     "\"tokenizer_class\":\"BertTokenizer\"",
     "\"model_max_length\":7.5,\"tokenizer_class\":\"BertTokenizer\"", WISP_OK, NULL, NULL},
    {"do_lower_case null", TOKENIZER_CONFIG, "\"do_lower_case\":true", "\"do_lower_case\":null",
     FORMAT, "do_lower_case", "true or false"},
    {"a mask that is not there", TOKENIZER_CONFIG, "\"content\":\"[MASK]\"",
     "\"content\":\"<mask>\"", FORMAT, "mask_token", "<mask>"},
    {"special tokens that a map names otherwise", MAP, NULL, "{\"cls_token\":\"the\"}", UNSUPPORTED,
     "cls_token", "differ in which"},
    {"a list of added tokens of its own", LEGACY, NULL, "{\"the\":5}", UNSUPPORTED, "the",
     "store the tokenizer anew"},
    {"a list of added tokens that are known", LEGACY, NULL, "{\"[MASK]\":4}", WISP_OK, NULL, NULL},
    {"a normaliser that does not clean", TOKENIZER, "\"clean_text\":true", "\"clean_text\":false",
     UNSUPPORTED, "normalizer.clean_text", "versions 4 and 5"},
    {"a limit of a word that is not BERT's", TOKENIZER, "_per_word\":100", "_per_word\":7",
     UNSUPPORTED, "model.max_input_chars_per_word", "100"},
    {"a truncation on the left", TOKENIZER, "\"truncation\":null",
     "\"truncation\":{\"direction\":\"Left\"}", UNSUPPORTED, "truncation_side", "left"},
    {"a Lowercase that tokenizer_config.json does not have", TOKENIZER, "\"normalizer\":{",
     "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"},{\"type\":"
     "\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":false,\"strip_accents\":null,"
     "\"lowercase\":true}]},\"x\":{",
     UNSUPPORTED, "normalizer", "Lowercase"},
    {"an added token that the decoder does not have", TOKENIZER_CONFIG, "\"do_lower_case\":true",
     "\"do_lower_case\":true,\"added_tokens_decoder\":{}", UNSUPPORTED, "added_tokens_decoder",
     "[MASK]"},

    /* sentence-transformers */
    {"no modules.json is good", MODULES, NULL, NULL, WISP_OK, NULL, NULL},
    {"an unknown module", MODULES, "models.Normalize", "models.CNN", UNSUPPORTED, "type",
     "models.CNN"},
    {"a module without a type", MODULES, "\"type\"", "\"x\"", FORMAT, NULL, "type, path"},
    {"a module that is a number", MODULES, "[{", "[1,{", FORMAT, NULL, "type, path"},
    {"a path out of the folder", MODULES, "\"path\":\"1_Pooling\"", "\"path\":\"../1_Pooling\"",
     FORMAT, NULL, "without folders"},
    {"an absolute path", MODULES, "\"path\":\"1_Pooling\"", "\"path\":\"/etc\"", FORMAT, NULL,
     "without folders"},
    {"a path with a backslash", MODULES, "\"path\":\"1_Pooling\"", "\"path\":\"a\\\\b\"", FORMAT,
     NULL, "without folders"},
    {"a path that is not there", MODULES, "\"path\":\"1_Pooling\"", "\"path\":\"2_Pooling\"",
     NOT_FOUND, NULL, "2_Pooling/config.json"},
    {"two pooling modules", MODULES, "models.Normalize", "models.Pooling", UNSUPPORTED, "type",
     "second"},
    {"another pooling", POOLING, "cls_token\":false,\"pooling_mode_mean_tokens\":true",
     "max_tokens\":true", UNSUPPORTED, "pooling_mode", NULL},
    {"two ways of pooling", POOLING, "cls_token\":false", "cls_token\":true", UNSUPPORTED,
     "pooling_mode", NULL},
    {"no way of pooling", POOLING, "mean_tokens\":true", "mean_tokens\":1", UNSUPPORTED,
     "pooling_mode_mean_tokens", "1 is neither"},
    {"max_seq_length a string", LIMITS, "12", "\"12\"", FORMAT, "max_seq_length", "whole number"},
    {"max_seq_length -1", LIMITS, "12", "-1", FORMAT, "max_seq_length", NULL},
    {"max_seq_length 2", LIMITS, "12", "2", FORMAT, "wisp.max_seq_length", "3 tokens"},
    {"max_seq_length null is good", LIMITS, "12", "null", WISP_OK, NULL, NULL},
    {"a prompt that is a number", PROMPTS, "\"the: \"", "1", FORMAT, "prompts", NULL},
    {"prompts that are an array", PROMPTS, "{\"query\":\"the: \"}", "[\"the: \"]", FORMAT,
     "prompts", NULL},
    {"prompts that are null are good", PROMPTS, NULL, "{\"prompts\":null}", WISP_OK, NULL, NULL},
    {"a default prompt that is not there", PROMPTS, "_name\":\"query", "_name\":\"passage",
     NOT_FOUND, "wisp.default_prompt_name", "passage"},
    {"a default prompt that is a number", PROMPTS, "_name\":\"query\"", "_name\":1", FORMAT,
     "default_prompt_name", NULL},
    {"a Pooling that is not sentence-transformers'", MODULES,
     "sentence_transformers.models.Pooling", "custom.Pooling", UNSUPPORTED, "type",
     "custom.Pooling"},
    {"a class of sentence-transformers with a like name", MODULES,
     "sentence_transformers.models.Pooling", "sentence_transformers.models.MyPooling", UNSUPPORTED,
     "type", "MyPooling"},
    {"a long class, whose name is not cut", MODULES, "sentence_transformers.models.Normalize",
     "sentence_transformers.sentence_transformer.modules.weighted_layer_pooling."
     "WeightedLayerPooling",
     UNSUPPORTED, "type", "weighted_layer_pooling.WeightedLayerPooling are"},
    {"classes of version 6", MODULES, NULL,
     "[{\"path\":\"\",\"type\":\"sentence_transformers.base.modules.transformer.Transformer\"},{"
     "\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.sentence_transformer.modules.pooling."
     "Pooling\"}]",
     WISP_OK, NULL, NULL},
    {"Model2Vec's module", MODULES, NULL,
     "[{\"path\":\".\",\"type\":\"sentence_transformers.models.StaticEmbedding\"}]", UNSUPPORTED,
     "type", "StaticEmbedding are not supported"},
    {"the path of the folder itself", MODULES, "\"path\":\"\"", "\"path\":\".\"", WISP_OK, NULL,
     NULL},
    {"no modules", MODULES, NULL, "[]", UNSUPPORTED, "type", "no modules"},
    {"no Transformer first", MODULES, NULL,
     "[{\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"}]",
     UNSUPPORTED, "type", "first module"},
    {"two Transformers", MODULES, NULL,
     "[{\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},{"
     "\"name\":\"3\",\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},{"
     "\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"}]",
     UNSUPPORTED, "type", "second Transformer"},
    {"no Pooling", MODULES, NULL,
     "[{\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"}]",
     UNSUPPORTED, "type", "there is no Pooling module"},
    {"Normalize before Pooling", MODULES, NULL,
     "[{\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},{"
     "\"name\":\"2\",\"path\":\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"},"
     "{\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"}]",
     UNSUPPORTED, "type", "before the Pooling"},
    {"two modules of one name", MODULES, NULL,
     "[{\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},{"
     "\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"},{"
     "\"name\":\"1\",\"path\":\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}"
     "]",
     UNSUPPORTED, "type", "one name"},
    {"Normalize of tokens", NORMALIZE, NULL, "{\"module_input_name\":\"token_embeddings\"}",
     UNSUPPORTED, "module_input_name", "token_embeddings"},
    {"Normalize to elsewhere", NORMALIZE, NULL, "{\"module_output_name\":\"other\"}", UNSUPPORTED,
     "module_output_name", "other"},
    {"Normalize as it is stored", NORMALIZE, NULL,
     "{\"module_input_name\":\"sentence_embedding\",\"module_output_name\":null}", WISP_OK, NULL,
     NULL},
    {"a setting of Pooling that is not known", POOLING, "\"include_prompt\"",
     "\"x\":1,\"include_prompt\"", UNSUPPORTED, "x", "does not know"},
    {"pooling by the last token", POOLING, NULL, "{\"pooling_mode\":\"lasttoken\"}", UNSUPPORTED,
     "bert.pooling_type", "pooling type 3"},
    {"pooling by two modes", POOLING, NULL, "{\"pooling_mode\":[\"cls\",\"mean\"]}", UNSUPPORTED,
     "pooling_mode", "an array"},
    {"pooling by a list of one", POOLING, NULL, "{\"pooling_mode\":[\"cls\"]}", WISP_OK, NULL,
     NULL},
    {"pooling without a mode is by mean", POOLING, NULL, "{\"word_embedding_dimension\":8}",
     WISP_OK, NULL, NULL},
    {"include_prompt null", POOLING, "\"include_prompt\":false", "\"include_prompt\":null", FORMAT,
     "include_prompt", "null"},
    {"tokenizer_args", LIMITS, "\"do_lower_case\":false",
     "\"tokenizer_args\":{\"do_lower_case\":false}", UNSUPPORTED, "do_lower_case",
     "does not follow"},
    {"processor_kwargs", LIMITS, "\"do_lower_case\":false",
     "\"processor_kwargs\":{\"model_max_length\":7}", UNSUPPORTED, "model_max_length",
     "does not follow"},
    {"config_kwargs", LIMITS, "\"do_lower_case\":false",
     "\"config_kwargs\":{\"hidden_act\":\"relu\"}", UNSUPPORTED, "hidden_act", "does not follow"},
    {"arguments that are not an object", LIMITS, "\"do_lower_case\":false", "\"model_kwargs\":null",
     FORMAT, "model_kwargs", "an object"},
    {"arguments that change nothing", LIMITS, "\"do_lower_case\":false",
     "\"model_args\":{\"attn_implementation\":\"eager\"},\"tokenizer_args\":{}", WISP_OK, NULL,
     NULL},
    {"processing_kwargs", LIMITS, "\"do_lower_case\":false",
     "\"processing_kwargs\":{\"text\":{\"max_length\":7}}", UNSUPPORTED, "processing_kwargs",
     "only null"},
    {"query_length", LIMITS, "\"do_lower_case\":false", "\"query_length\":7", UNSUPPORTED,
     "query_length", "7"},
    {"another task", LIMITS, "\"do_lower_case\":false", "\"transformer_task\":\"fill-mask\"",
     UNSUPPORTED, "transformer_task", "fill-mask"},
    {"another output", LIMITS, "\"do_lower_case\":false",
     "\"modality_config\":{\"text\":{\"method\":\"forward\",\"method_output_name\":\"pooler_"
     "output\"}}",
     UNSUPPORTED, "modality_config", "last_hidden_state"},
    {"a setting that is not known", LIMITS, "\"do_lower_case\":false", "\"x\":1", UNSUPPORTED, "x",
     "does not know"},
    {"do_lower_case 1", LIMITS, "\"do_lower_case\":false", "\"do_lower_case\":1", FORMAT,
     "do_lower_case", "true or false"},
    {"truncate_dim 0", PROMPTS, "\"prompts\"", "\"truncate_dim\":0,\"prompts\"", FORMAT,
     "truncate_dim", "at least 1"},
    {"truncate_dim as a string", PROMPTS, "\"prompts\"", "\"truncate_dim\":\"8\",\"prompts\"",
     FORMAT, "truncate_dim", "whole number"},
    {"truncate_dim beyond the values there are", PROMPTS, "\"prompts\"",
     "\"truncate_dim\":100,\"x\":null,\"prompts\"", WISP_OK, NULL, NULL},
    {"a model of another kind", PROMPTS, "\"prompts\"",
     "\"model_type\":\"CrossEncoder\",\"prompts\"", UNSUPPORTED, "model_type", "CrossEncoder"},
    {"a prompt that is null is empty", PROMPTS, "\"the: \"", "null", WISP_OK, NULL, NULL},
    {"a default prompt that every model has", PROMPTS, "\"prompts\":{\"query\":\"the: \"}",
     "\"prompts\":{}", WISP_OK, NULL, NULL},
    {"an adapter beside the model", ADAPTER, NULL, "{\"peft_type\":\"LORA\"}", UNSUPPORTED,
     "peft_type", "LORA"},
};

/* Folders of nomic_bert. Each setting may have Nomic's name or that of transformers, or both. */
static const struct malformed nomic_cases[] = {
    {"nomic_bert: both spellings", CONFIG, "{",
     "{\"num_attention_heads\":2,\"hidden_size\":8.0,\"layer_norm_eps\":0.00001,"
     "\"hidden_act\":\"silu\",\"rope_parameters\":{\"rope_type\":\"default\","
     "\"rope_theta\":1000.0},",
     WISP_OK, NULL, NULL},
    {"nomic_bert: two numbers of heads", CONFIG, "{", "{\"num_attention_heads\":4,", FORMAT,
     "n_head", "2 disagrees with num_attention_heads = 4"},
    {"nomic_bert: a second number of heads that is null", CONFIG, "{",
     "{\"num_attention_heads\":null,", FORMAT, "n_head", "num_attention_heads = null"},
    {"nomic_bert: two sizes", CONFIG, "{", "{\"hidden_size\":16,", FORMAT, "n_embd",
     "hidden_size = 16"},
    {"nomic_bert: two limits of positions", CONFIG, "{", "{\"max_position_embeddings\":4,", FORMAT,
     "n_positions", "max_position_embeddings = 4"},
    {"nomic_bert: two epsilons", CONFIG, "{", "{\"layer_norm_eps\":0.5,", FORMAT,
     "layer_norm_epsilon", "layer_norm_eps = 0.5"},
    {"nomic_bert: two activations", CONFIG, "{", "{\"hidden_act\":\"gelu\",", UNSUPPORTED,
     "hidden_act", "gelu"},
    {"nomic_bert: two bases", CONFIG, "{",
     "{\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10},", FORMAT,
     "rotary_emb_base", "1000 disagrees with rope_theta = 10"},
};

/* Returns the path that errors begin with: the file's, or the folder's if only the folder is
 * known. */
static void expect_file(const struct opening *opening, const char *path, const char *file) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", path, file);
    if (strcmp(opening->error.file, full) != 0)
        assert_string_equal(opening->error.file, path);
}

static void run(const struct malformed *c, const struct tiny_shape *shape) {
    struct folder folder;
    folder_make(&folder, shape);
    if (!c->with)
        folder_drop(&folder, c->file);
    else if (!c->old)
        folder_put_text(&folder, c->file, c->with);
    else
        folder_replace(&folder, c->file, c->old, c->with);
    const char *path = temporary_path("model");
    folder_write(&folder, path);
    const struct opening opening = open_path(path, folder_size(&folder));
    expect_outcome(&opening, c->status, c->field, c->says);
    if (c->status == FORMAT)
        expect_file(&opening, path, c->file);
    folder_release(&folder);
}

static void run_case(void **state) {
    run(*state, &tiny_shape);
}

static void run_nomic_case(void **state) {
    run(*state, &tiny_nomic);
}

int main(void) {
    enum {
        CASES = sizeof cases / sizeof *cases,
        NOMIC_CASES = sizeof nomic_cases / sizeof *nomic_cases
    };
    static struct CMUnitTest tests[CASES + NOMIC_CASES];
    for (size_t i = 0; i < CASES; i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = run_case,
                                       .initial_state = (void *)(uintptr_t)&cases[i]};
    for (size_t i = 0; i < NOMIC_CASES; i++)
        tests[CASES + i] = (struct CMUnitTest){.name = nomic_cases[i].name,
                                               .test_func = run_nomic_case,
                                               .initial_state = (void *)(uintptr_t)&nomic_cases[i]};
    return cmocka_run_group_tests(tests, NULL, tear_down_temporary_folder);
}
