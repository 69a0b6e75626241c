/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.model: SentencePiece's ModelProto, a message of Protocol Buffers.
 * Source: sentencepiece_model.proto. */
#include <stdlib.h>
#include <string.h>

#include "formats/protobuf.h"
#include "host/input_file.h"
#include "huggingface/codec_sources.h"

/* ---- the model ------------------------------------------------------------------------------ */

/* Numbers of fields. */
enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum {
    TRAINER_TYPE = 3,
    TRAINER_SPACE_AS_SUFFIX = 24,
    TRAINER_UNKNOWN = 40,
    TRAINER_BOS = 41,
    TRAINER_EOS = 42
};
enum {
    NORMALIZER_CHARSMAP = 2,
    NORMALIZER_PREFIX = 3,
    NORMALIZER_SQUEEZE = 4,
    NORMALIZER_ESCAPE = 5
};
enum { TYPE_UNIGRAM = 1, TYPE_BPE = 2 };

/* The settings that count, with SentencePiece's defaults. */
struct settings {
    uint64_t type;
    bool space_as_suffix, prefix, squeeze, escape;
    int64_t unknown, bos, eos;
};

/* Returns the bytes of a part of the file, which is in memory. */
static wisp_text text_of(const struct protobuf *p, struct protobuf_part part) {
    return (wisp_text){(const char *)p->source->data + part.at, (size_t)protobuf_length(part)};
}

static wisp_status read_piece(struct codec_reading *r, struct protobuf *p,
                              struct protobuf_part piece, uint64_t id) {
    wisp_text text = {"", 0};
    uint64_t type = TOKEN_NORMAL;
    float score = 0;
    p->field = "pieces";
    for (struct protobuf_field f; protobuf_next(p, &piece, &f);) {
        const uint32_t bits = (uint32_t)f.value;
        if (f.number == PIECE_TEXT && f.kind == PROTOBUF_PART)
            text = text_of(p, f.part);
        if (f.number == PIECE_SCORE)
            memcpy(&score, &bits, sizeof score);
        if (f.number == PIECE_TYPE)
            type = f.value;
    }
    TRY(p->status);
    if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
        return codec_fail_format(r, "pieces", "a type that is not one of 1 to 6");
    char *copy = arena_copy_text(&r->dir->arena, text.bytes, text.length);
    if (!copy)
        return fail_memory(r->error, text.length);
    TRY(codec_put_token(r, id, (wisp_text){copy, text.length}));
    r->types[id] = (int32_t)type;
    r->scores[id] = score;
    return WISP_OK;
}

static wisp_status read_trainer(struct protobuf *p, struct protobuf_part m, struct settings *s) {
    p->field = "trainer_spec";
    for (struct protobuf_field f; protobuf_next(p, &m, &f);) {
        switch (f.number) {
        case TRAINER_TYPE:
            s->type = f.value;
            break;
        case TRAINER_SPACE_AS_SUFFIX:
            s->space_as_suffix = f.value != 0;
            break;
        case TRAINER_UNKNOWN:
            s->unknown = (int64_t)f.value;
            break;
        case TRAINER_BOS:
            s->bos = (int64_t)f.value;
            break;
        case TRAINER_EOS:
            s->eos = (int64_t)f.value;
            break;
        default:
            break;
        }
    }
    return p->status;
}

static wisp_status read_normalizer(struct codec_reading *r, struct protobuf *p,
                                   struct protobuf_part m, struct settings *s) {
    p->field = "normalizer_spec";
    for (struct protobuf_field f; protobuf_next(p, &m, &f);) {
        if (f.number == NORMALIZER_CHARSMAP && f.kind == PROTOBUF_PART)
            r->charsmap = text_of(p, f.part);
        if (f.number == NORMALIZER_PREFIX)
            s->prefix = f.value != 0;
        if (f.number == NORMALIZER_SQUEEZE)
            s->squeeze = f.value != 0;
        if (f.number == NORMALIZER_ESCAPE)
            s->escape = f.value != 0;
    }
    return p->status;
}

/* Returns an id of a special token, or -1 if the model has no token of it. */
static int32_t special(const struct codec_reading *r, int64_t id) {
    return id >= 0 && id < (int64_t)r->next_id ? (int32_t)id : -1;
}

static wisp_status read_model(struct codec_reading *r, struct protobuf *p) {
    struct protobuf_part m = {0, p->source->size};
    struct settings s = {
        .type = TYPE_UNIGRAM, .prefix = true, .squeeze = true, .escape = true, .bos = 1, .eos = 2};
    ARENA_TAKE(&r->dir->arena, r->scores, (size_t)r->capacity, r->error);
    for (struct protobuf_field f; protobuf_next(p, &m, &f); p->field = NULL) {
        if (f.number == MODEL_PIECES && f.kind == PROTOBUF_PART)
            TRY(read_piece(r, p, f.part, r->next_id++));
        if (f.number == MODEL_TRAINER && f.kind == PROTOBUF_PART)
            TRY(read_trainer(p, f.part, &s));
        if (f.number == MODEL_NORMALIZER && f.kind == PROTOBUF_PART)
            TRY(read_normalizer(r, p, f.part, &s));
    }
    TRY(p->status);
    if (r->next_id == 0)
        return codec_fail_format(r, "pieces", "there are none");
    if (s.type != TYPE_UNIGRAM && s.type != TYPE_BPE)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, "model_type",
                    "%llu is not supported, only 1 (UNIGRAM) and 2 (BPE)",
                    (unsigned long long)s.type);
    if (s.space_as_suffix || !s.escape)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file,
                    s.escape ? "treat_whitespace_as_suffix" : "escape_whitespaces",
                    "%s is not supported", s.escape ? "true" : "false");
    r->model = s.type == TYPE_BPE ? "llama" : "t5";
    r->prefix = "each";
    r->adds_space = s.prefix;
    r->model_count = r->next_id;
    r->squeezes_spaces = s.squeeze;
    r->unknown = special(r, s.unknown);
    r->bos = special(r, s.bos);
    r->eos = special(r, s.eos);
    r->add_bos = s.type == TYPE_BPE && r->bos >= 0; /* as LlamaTokenizer does */
    return codec_sort_tokens(r);
}

wisp_status codec_read_sentencepiece(struct codec_reading *r) {
    struct file_bytes file;
    TRY(file_read(r->file, &file, r->error));
    const wisp_source source = {.size = file.size, .data = file.data, .name = r->file};
    struct protobuf reader = {.source = &source, .error = r->error};
    wisp_status status = read_model(r, &reader);
    if (status == WISP_OK && r->charsmap.length > 0) {
        r->charsmap.bytes = arena_copy_text(&r->dir->arena, r->charsmap.bytes, r->charsmap.length);
        status = r->charsmap.bytes ? WISP_OK : fail_memory(r->error, r->charsmap.length);
    }
    free(file.data);
    return status;
}
