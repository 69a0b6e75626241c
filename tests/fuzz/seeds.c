/* SPDX-License-Identifier: Apache-2.0
 * Writes a seed corpus for each fuzz target into a folder of its name:
 *     seeds build/fuzz/corpus */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoints.h"
#include "folder_files.h"
#include "support/builder_llama.h"
#include "support/folder.h"
#include "support/sparse_models.h"

static const char *root;

static void put(const char *target, const char *name, const void *data, size_t size) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/seed-%s", root, target, name);
    for (char *at = strrchr(path, '-'); *at; at++)
        if (*at == '/')
            *at = '_';
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size) {
        perror(path);
        exit(1);
    }
    fclose(file);
}

/* Puts a GGUF file for each target that reads one; to calibrate, small ones only, which takes long.
 */
static void put_model(const char *name, const struct bytes *bytes) {
    static const char *const targets[] = {"gguf", "convert", "inspect", "calibrate"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i], "calibrate") != 0 || bytes->size < 12000)
            put(targets[i], name, bytes->data, bytes->size);
}

/* A model with as few weights as possible. */
static void put_one_gguf(uint32_t type, uint32_t size, bool nomic, bool rows) {
    const struct tiny_shape shape = {.hidden = size,
                                     .wide = size,
                                     .layers = 1,
                                     .heads = 1,
                                     .positions = 4,
                                     .type = type,
                                     .nomic = nomic,
                                     .rows = rows};
    struct gguf file;
    struct bytes bytes = {0};
    char name[32];
    snprintf(name, sizeof name, "%u-%u%s%s", (unsigned)type, (unsigned)size, nomic ? "-nomic" : "",
             rows ? "-rows" : "");
    gguf_make(&file, &shape);
    gguf_write_bytes(&file, &bytes);
    put_model(name, &bytes);
    bytes_release(&bytes);
    gguf_release(&file);
}

/* A calibrated model. */
static void put_one_predicting(const char *name, const char *activation, bool shared,
                               bool by_text) {
    const struct tiny_shape shape = {
        .hidden = 4, .wide = 8, .layers = 1, .heads = 1, .positions = 4, .nomic = shared};
    const struct predicting predicting = {.shape = &shape,
                                          .activation = activation,
                                          .rank = 2,
                                          .compensated = true,
                                          .shared = shared,
                                          .by_text = by_text};
    struct gguf file;
    struct bytes bytes = {0};
    make_predicting(&file, &predicting);
    gguf_write_bytes(&file, &bytes);
    put_model(name, &bytes);
    bytes_release(&bytes);
    gguf_release(&file);
}

static void put_gguf(void) {
    enum { F32 = 0, F16 = 1, Q4_0 = 2, Q8_0 = 8, BF16 = 30 };
    static const uint32_t types[] = {F32, F16, Q4_0, Q8_0, BF16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int kind = 0; kind < 4; kind++)
            put_one_gguf(types[i], types[i] == Q4_0 || types[i] == Q8_0 ? 32 : 2, kind % 2 != 0,
                         kind / 2 != 0);
    put_one_gguf(F32, 8, false, false); /* which can be calibrated */
    put_one_gguf(F32, 8, true, true);
    put_one_predicting("gelu", "gelu", false, true);
    put_one_predicting("relu", "relu", false, false);
    put_one_predicting("silu", "silu", true, false);
}

/* Models that generate. */
static void put_decoders(void) {
    for (size_t i = 0; i < LLAMA_SHAPES; i++) {
        struct gguf file;
        struct bytes bytes = {0};
        llama_make(&file, &llama_shapes[i]);
        gguf_write_bytes(&file, &bytes);
        put_model(llama_shapes[i].unigram ? "unigram" : llama_shapes[i].architecture, &bytes);
        bytes_release(&bytes);
        gguf_release(&file);
    }
}

static void put_one_of_folder(int number, const char *file, const struct bytes *content) {
    const unsigned char first = (unsigned char)number;
    struct bytes input = {0};
    bytes_put(&input, &first, 1);
    bytes_put(&input, content->data, content->size);
    put("folder", file, input.data, input.size);
    if (strstr(file, ".json"))
        put("json", file, content->data, content->size);
    else if (strstr(file, ".safetensors"))
        put("safetensors", file, content->data, content->size);
    bytes_release(&input);
}

static void put_folder(void) {
    static const char map[] = "{\"unk_token\":\"[UNK]\",\"cls_token\":{\"content\":\"[CLS]\"}}";
    struct folder folder, shards, nomic;
    folder_make(&nomic, &tiny_nomic);
    put_one_of_folder(0, "nomic-config.json", folder_file(&nomic, "config.json"));
    put("safetensors", "nomic", folder_file(&nomic, "model.safetensors")->data,
        folder_file(&nomic, "model.safetensors")->size);
    folder_release(&nomic);
    folder_make(&folder, &tiny_shape);
    folder_make(&shards, &tiny_shape);
    folder_shard(&shards, &tiny_shape);
    folder_put_text(&folder, "special_tokens_map.json", map);
    for (int i = 0; i < FOLDER_FILES; i++) {
        const bool index = strcmp(folder_files[i], "model.safetensors.index.json") == 0;
        put_one_of_folder(i, folder_files[i],
                          folder_file(index ? &shards : &folder, folder_files[i]));
    }
    folder_replace(&folder, "tokenizer.json", "\"TemplateProcessing\"",
                   "\"BertProcessing\",\"cls\":[\"[CLS]\",2],\"sep\":[\"[SEP]\",3]");
    put_one_of_folder(1, "other-tokenizer.json", folder_file(&folder, "tokenizer.json"));
    put("safetensors", "shard", folder_file(&shards, "a.safetensors")->data,
        folder_file(&shards, "a.safetensors")->size);
    folder_release(&folder);
    folder_release(&shards);
}

/* Each file of the folders of fuzz_decoder.c, with the two bytes that name it. */
static void put_decoder(void) {
    for (int t = 0; t < DECODER_TOKENIZERS; t++) {
        struct folder folder;
        decoder_folder_make(&folder, (enum decoder_tokenizer)t);
        for (size_t i = 0; i < folder.n; i++) {
            const unsigned char start[] = {(unsigned char)t, (unsigned char)i};
            const struct folder_file *file = &folder.files[i];
            struct bytes input = {0};
            char name[128];
            snprintf(name, sizeof name, "%d-%s", t, file->name);
            bytes_put(&input, start, sizeof start);
            bytes_put(&input, file->bytes.data, file->bytes.size);
            put("decoder", name, input.data, input.size);
            bytes_release(&input);
        }
        folder_release(&folder);
    }
}

/* The files of the folders of fuzz_checkpoint.c with the two bytes that name them, safetensors
 * files as headers. Decoders share tokenizers, which fuzz_decoder.c changes. */
static void put_checkpoints(void) {
    for (unsigned c = 0; c < CHECKPOINTS; c++) {
        struct folder folder;
        checkpoint_make(&folder, c);
        for (size_t i = 0; i < folder.n; i++) {
            const unsigned char start[] = {(unsigned char)c, (unsigned char)i};
            const struct folder_file *file = &folder.files[i];
            const size_t header = checkpoint_header(file);
            struct bytes input = {0};
            char name[128];
            if (c >= CHECKPOINT_MODELS && strstr(file->name, "token"))
                continue;
            snprintf(name, sizeof name, "%u-%s", c, file->name);
            bytes_put(&input, start, sizeof start);
            bytes_put(&input, file->bytes.data + (header > 0 ? 8 : 0),
                      header > 0 ? header : file->bytes.size);
            put("checkpoint", name, input.data, input.size);
            bytes_release(&input);
        }
        folder_release(&folder);
    }
}

static void put_tokenizer(void) {
    static const char *const texts[] = {
        "the man is eating a red guitar, and so on.",
        "\xC3\x89t\xC3\xA9 e\xCC\x81\xCC\xA7 \xE4\xB8\xAD\xE6\x96\x87 \xED\x95\x9C\xEA\xB8\x80",
        "\xCE\xA3\xCE\x91\xCE\xA3 \xC4\xB0stanbul [CLS] [MASK]x [SEP]\t\r\n\v\x01\x7F",
        "\xF0\x9F\x98\x80 \xE2\x80\x8B \xFF\xC0\x80\xED\xA0\x80 \xE2\x96\x81the"};
    for (unsigned i = 0; i < 4 * 6; i++) {
        const unsigned char head[2] = {(unsigned char)(i * 41), (unsigned char)(i * 37)};
        struct bytes input = {0};
        char name[8];
        bytes_put(&input, head, 2);
        for (int token = TINY_SPECIAL; token < TINY_TOKENS; token++) {
            bytes_put(&input, tiny_tokens[token], strlen(tiny_tokens[token]));
            bytes_put(&input, "\n", 1);
        }
        bytes_put(&input, "\n", 1);
        bytes_put(&input, texts[i % 4], strlen(texts[i % 4]));
        snprintf(name, sizeof name, "%u", i);
        put("tokenizer", name, input.data, input.size);
        bytes_release(&input);
    }
}

/* Two bytes of settings, tokens, merges and a text. */
static void put_codec(void) {
    static const char byte_level[] = "1he\n1ll\n1hell\n4<tool>\n3<|end|>\n\nh e\nl l\nhe ll\n\n"
                                     "hell <tool> <|end|>\xC3\xA9\xFF 12",
                      pieces[] = "1the\n1\xE2\x96\x81"
                                 "the\n1th\n1t\n1h\n2<unk>\n3<s>\n4<b>\n\n\n"
                                 "the <b> the <s> \xE6\x97\xA5",
                      odd[] = "1\xC4\xA0"
                              "a\n5x\n4\n\n\xC4\xA0 a\n\n a e\xCC\x81 \n\n's";
    static const char *const rest[] = {byte_level, pieces, odd};
    for (unsigned i = 0; i < 24; i++) {
        const unsigned char head[2] = {(unsigned char)(i < 16 ? i * 5 : 128 + i), (unsigned char)i};
        struct bytes input = {0};
        char name[8];
        bytes_put(&input, head, 2);
        bytes_put(&input, rest[i % 3], strlen(rest[i % 3]));
        snprintf(name, sizeof name, "%u", i);
        put("codec", name, input.data, input.size);
        bytes_release(&input);
    }
}

/* The type of marks; a template; contents. */
static void put_chats(void) {
    static const char contents[] =
        "\0<|a|> Hi </s>\0<think>\nhm</think>\n\nso<|x \xE3\x80\x80why?\xFF";
    static const char *const templates[] = {
        "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content | trim }}</s>\n{% endfor %}"
        "{% if add_generation_prompt %}<|a|>{% endif %}",
        "{%- set ns = namespace(x='', n=0) -%}\n{%- for m in messages if m.content %}\n"
        "  {%- set ns.x = ns.x + m.content[::-1] %}{% set ns.n = ns.n + loop.index0 %}\n"
        "{%- endfor -%}\n{{ ns.x.split('<') | join('<|') }}{{ ns.n // 2 - 1.5 }}",
        "{% macro f(a, b='<') %}{{ b + a }}{% endmacro %}{{ f('|a|>') }}{{ f(messages[0].content, "
        "b=1) }}",
        "{{ messages | tojson(indent=2) | indent(3, true) }}{# c #}{{ messages[-2]['content'] | "
        "upper }}",
        "{{ messages | map(attribute='content') | join('|') | replace('|', '||') | e }}{{ 1 / 0 }}",
        "{% if messages[0].content is string and 'a' in messages[0].content %}{{ strftime_now('%d "
        "%B') }}"
        "{% elif enable_thinking is false %}{{ raise_exception('no') }}{% endif %}{% raw %}{{{% "
        "endraw %}",
        "{% set x %}a{{ messages | length }}{% endset %}{{ '%s %d' % (x, 3) }}{{ '{} {}'.format(x, "
        "1.0e3) }}",
        "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ dict(a=[1, (2, "
        "3)]) }}"};
    for (unsigned char i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct bytes input = {0};
        char name[8];
        bytes_put(&input, &i, 1);
        bytes_put(&input, templates[i], strlen(templates[i]));
        bytes_put(&input, contents, sizeof contents - 1);
        snprintf(name, sizeof name, "%u", i);
        put("chat", name, input.data, input.size);
        bytes_release(&input);
    }
}

static void put_input(void) {
    static const char *const texts[] = {
        "\1\3{\"id\": 7, \"text\": \"a \\u00e9 man\", \"x\": [1, {}]}\n\"a string\"\r\n",
        "\1\xFF\xEF\xBB\xBF\"x\"\n{\"text\":1}", "\2\2one line\r\n\nand the last"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char name[2] = {(char)('0' + i), '\0'};
        put("input", name, texts[i], strlen(texts[i]));
    }
}

/* Calls of fuzz_api.c: open a model in a way, open a session, embed texts, and more. */
static void put_calls(void) {
    for (unsigned char file = 0; file < 8; file++)
        for (unsigned char way = 0; way < 4; way++) {
            unsigned char calls[64];
            size_t n = 0;
            const unsigned char open[] = {0, 0, file, way, (unsigned char)(file * 4 + way), way};
            const unsigned char of_source[] = {0, file == 2 ? 9 : 0, file == 3 ? 5 : 0};
            const unsigned char use[] = {2,    0,
                                         0,    (unsigned char)(4 * way + file % 4),
                                         3,    way,
                                         0,    2,
                                         file, 1,
                                         2,    6,
                                         0,    way,
                                         3,    0,
                                         0,    5,
                                         0,    3,
                                         1,    2,
                                         3,    3,
                                         8,    0,
                                         0,    7,
                                         0,    4,
                                         0,    0,
                                         1,    200,
                                         1,    137,
                                         0,    (unsigned char)(16 * way + 7),
                                         file, 1,
                                         2,    137,
                                         0,    81,
                                         2,    3,
                                         1,    11,
                                         0,    9,
                                         1,    9,
                                         0,    10,
                                         0};
            memcpy(calls, open, sizeof open);
            n += sizeof open;
            if (way < 3) {
                memcpy(calls + n, of_source, sizeof of_source);
                n += sizeof of_source;
            }
            memcpy(calls + n, use, sizeof use);
            n += sizeof use;
            char name[8];
            snprintf(name, sizeof name, "%u-%u", file, way);
            put("api", name, calls, n);
        }
}

static void put_grammars(void) {
    static const char *const inputs[] = {
        "Groot ::= (a | \"\\u00e9\"{2,3})* [^x-z]\na ::= \"(\" a? \")\" # c\n",
        "Groot ::= \"a\"+ . [\\x20-\\U0010FFFF]{1,}\n  | \"\"\n",
        "H{\"properties\": {\"a\": {\"type\": [\"integer\", \"null\"]}, \"b\": {}}}",
        "H{\"items\": {\"$ref\": \"#\"}, \"minItems\": 1, \"maxItems\": 3}",
        "H{\"anyOf\": [{\"enum\": [1, \"x\"]}, {\"type\": \"string\", \"maxLength\": 3}]}"};
    static const char text[] = "(())\xC3\xA9\xC3\xA9q";
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        char input[300];
        const size_t n = strlen(inputs[i]) + 1;
        memcpy(input, inputs[i], n);
        memcpy(input + n, text, sizeof text - 1);
        put("grammar", (const char[]){(char)('0' + i), '\0'}, input, n + sizeof text - 1);
    }
}

/* States of texts of two lengths, in caches of each type. */
static void put_states(void) {
    static const char *const prompts[] = {"Once", "Once upon a time there was a dog"};
    static const wisp_cache_type types[] = {WISP_CACHE_F32, WISP_CACHE_F16, WISP_CACHE_INT8};
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
    if (wisp_model_open("models/wisp-stories.gguf", NULL, &model, &error) != WISP_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    for (int type = 0; type < 3; type++)
        for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
            const wisp_session_options options = {.cache_type = types[type]};
            const wisp_generate_options generate = {.max_tokens = 1};
            unsigned char bytes[65536];
            size_t size;
            char name[8];
            if (wisp_session_open(model, &options, &session, NULL) != WISP_OK ||
                wisp_generate(session, wisp_text_of(prompts[i]), &generate, NULL, NULL) !=
                    WISP_OK ||
                wisp_session_save_bytes(session, bytes + 1, sizeof bytes - 1, &size, NULL) !=
                    WISP_OK ||
                size > sizeof bytes - 1)
                exit(1);
            bytes[0] = (unsigned char)(type + (i == 0 ? 4 : 0)); /* as fuzz_state.c reads it */
            snprintf(name, sizeof name, "%d-%zu", type, i);
            put("state", name, bytes, size + 1);
            wisp_session_close(session);
        }
    wisp_model_close(model);
}

/* Indexes of both kinds, empty, and with a removed row. */
static void put_indexes(void) {
    static const float rows[4 * 5] = {1, -2, 0.5f, 3, 4, 0, 0, 0, 0, 0, 7};
    const wisp_text ids[4] = {wisp_text_of("a"), wisp_text_of("b\xC3\xA9"), wisp_text_of("c"),
                              wisp_text_of("d")};
    const wisp_text metadata[4] = {wisp_text_of("{\"text\": \"x\"}"), wisp_text_of(""),
                                   wisp_text_of("[]"), wisp_text_of("1")};
    for (int kind = WISP_INDEX_INT8; kind <= WISP_INDEX_F32; kind++)
        for (size_t n = 0; n <= 4; n += 2) {
            unsigned char bytes[2048] = {1}; /* as fuzz_index.c reads it */
            wisp_index *index;
            size_t size;
            char name[8];
            if (wisp_index_create(NULL, 5, (wisp_index_kind)kind, &index, NULL) != WISP_OK ||
                wisp_index_add(index, ids, metadata, rows, n, NULL) != WISP_OK ||
                wisp_index_remove(index, ids + 1, n > 2, NULL, NULL) != WISP_OK ||
                wisp_index_save_bytes(index, bytes + 1, sizeof bytes - 1, &size, NULL) != WISP_OK ||
                size > sizeof bytes - 1)
                exit(1);
            snprintf(name, sizeof name, "%d-%zu", kind, n);
            put("index", name, bytes, size + 1);
            wisp_index_close(index);
        }
}

/* The beginnings of a JPEG and a PNG file with EXIF data, in both orders of bytes. */
static void put_orientations(void) {
    static const char little[] = "II*\0\x08\0\0\0\x02\0\0\x01\x03\0\x01\0\0\0\x63\0\0\0"
                                 "\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    static const char big[] = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0";
    char jpeg[128] = "\xFF\xD8\xFF\xE0\0\x04xx\xFF\xE1\0\x32"
                     "Exif\0";
    char png[128] = "\x89PNG\r\n\x1A\n\0\0\0\x02tEXtab\0\0\0\0\0\0\0\x1A"
                    "eXIf";
    const size_t before_little = 18, before_big = 30;
    memcpy(jpeg + before_little, little, sizeof little);
    memcpy(png + before_big, big, sizeof big);
    put("orientation", "jpeg", jpeg, before_little + sizeof little);
    put("orientation", "png", png, before_big + sizeof big);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: seeds FOLDER\n");
        return 2;
    }
    root = argv[1];
    mkdir(root, 0777);
    put_gguf();
    put_decoders();
    put_folder();
    put_decoder();
    put_checkpoints();
    put_tokenizer();
    put_codec();
    put_chats();
    put_input();
    put_calls();
    put_grammars();
    put_states();
    put_indexes();
    put_orientations();
    return 0;
}
