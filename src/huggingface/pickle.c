/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"

enum { MOST_MARKS = 64 };

struct machine {
    struct arena *arena;
    const unsigned char *at, *end;
    const char *file;
    struct pickle_items stack, memo;
    size_t marks[MOST_MARKS];
    size_t n_marks;
    bool stopped;
    wisp_error *error;
};

static wisp_status malformed(const struct machine *m, const char *what) {
    return fail(m->error, WISP_ERROR_FORMAT, m->file, "pickle", "%s", what);
}

/* ---- values --------------------------------------------------------------------------------- */

/* Appends a value. Arrays that grow leave the smaller ones in the arena. */
static wisp_status append(struct machine *m, struct pickle_items *items,
                          struct pickle_value value) {
    wisp_error *error = m->error;
    if (items->count == items->capacity) {
        const size_t capacity = items->capacity ? 2 * items->capacity : 8;
        struct pickle_value *moved;
        ARENA_TAKE(m->arena, moved, capacity, error);
        if (items->count > 0)
            memcpy(moved, items->values, items->count * sizeof *moved);
        items->values = moved;
        items->capacity = capacity;
    }
    items->values[items->count++] = value;
    return WISP_OK;
}

static wisp_status push(struct machine *m, struct pickle_value value) {
    return append(m, &m->stack, value);
}

/* The values that are on the stack above the last mark. */
static size_t floor_of(const struct machine *m) {
    return m->n_marks > 0 ? m->marks[m->n_marks - 1] : 0;
}

static wisp_status pop(struct machine *m, struct pickle_value *value) {
    if (m->stack.count <= floor_of(m))
        return malformed(m, "a value is missing on the stack");
    *value = m->stack.values[--m->stack.count];
    return WISP_OK;
}

static wisp_status push_items(struct machine *m, enum pickle_kind kind, size_t from) {
    wisp_error *error = m->error;
    struct pickle_value value = {.kind = kind};
    ARENA_TAKE(m->arena, value.as.items, 1, error);
    for (size_t i = from; i < m->stack.count; i++)
        TRY(append(m, value.as.items, m->stack.values[i]));
    m->stack.count = from;
    return push(m, value);
}

/* Makes a tuple of the n values at the top. */
static wisp_status push_tuple(struct machine *m, size_t n) {
    if (m->stack.count < floor_of(m) + n)
        return malformed(m, "a value is missing on the stack");
    return push_items(m, PICKLE_TUPLE, m->stack.count - n);
}

static wisp_status pop_mark(struct machine *m, size_t *mark) {
    if (m->n_marks == 0)
        return malformed(m, "a mark is missing on the stack");
    *mark = m->marks[--m->n_marks];
    return WISP_OK;
}

/* Moves the values from `from` on to the list or dict below them. */
static wisp_status add_to(struct machine *m, size_t from, bool pairs) {
    const size_t n = m->stack.count - from;
    if (from <= floor_of(m) || (pairs && n % 2 != 0))
        return malformed(m, "items without what they belong to");
    const struct pickle_value *target = &m->stack.values[from - 1];
    /* An object of an unknown class keeps no items. */
    const bool takes = target->kind == (pairs ? PICKLE_DICT : PICKLE_LIST);
    if (!takes && target->kind != PICKLE_OTHER)
        return malformed(m, "items of what is not a list or dict");
    for (size_t i = from; i < m->stack.count && takes; i++)
        TRY(append(m, target->as.items, m->stack.values[i]));
    m->stack.count = from;
    return WISP_OK;
}

/* ---- what is read from the program ---------------------------------------------------------- */

static wisp_status take(struct machine *m, uint64_t n, const unsigned char **bytes) {
    if (n > (uint64_t)(m->end - m->at))
        return malformed(m, "the file ends within it");
    *bytes = m->at;
    m->at += n;
    return WISP_OK;
}

/* Reads a number of `bytes` bytes, 1, 2, 4 or 8. */
static wisp_status take_number(struct machine *m, size_t bytes, uint64_t *number) {
    const unsigned char *data;
    TRY(take(m, bytes, &data));
    *number = 0;
    for (size_t i = 0; i < bytes; i++)
        *number |= (uint64_t)data[i] << 8 * i;
    return WISP_OK;
}

static wisp_status push_text(struct machine *m, enum pickle_kind kind, const void *bytes,
                             size_t length) {
    char *copy = arena_copy_text(m->arena, bytes, length);
    if (!copy)
        return fail_memory(m->error, length);
    if (strlen(copy) != length)
        kind = PICKLE_OTHER;
    return push(m, (struct pickle_value){.kind = kind, .as.text = copy});
}

/* Pushes a text whose length has `bytes` bytes. */
static wisp_status read_text(struct machine *m, size_t bytes) {
    const unsigned char *text;
    uint64_t length;
    TRY(take_number(m, bytes, &length));
    TRY(take(m, length, &text));
    return push_text(m, PICKLE_TEXT, text, (size_t)length);
}

static wisp_status take_line(struct machine *m, wisp_text *line) {
    const unsigned char *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!end)
        return malformed(m, "the file ends within it");
    *line = (wisp_text){(const char *)m->at, (size_t)(end - m->at)};
    m->at = end + 1;
    return WISP_OK;
}

static wisp_status push_global(struct machine *m, wisp_text module, wisp_text name) {
    char *text = arena_allocate(m->arena, module.length + name.length + 2);
    if (!text)
        return fail_memory(m->error, module.length + name.length + 2);
    memcpy(text, module.bytes, module.length);
    text[module.length] = ' ';
    memcpy(text + module.length + 1, name.bytes, name.length);
    return push(m, (struct pickle_value){.kind = PICKLE_GLOBAL, .as.text = text});
}

static wisp_status read_global(struct machine *m) {
    wisp_text module, name;
    TRY(take_line(m, &module));
    TRY(take_line(m, &name));
    return push_global(m, module, name);
}

static wisp_status read_stack_global(struct machine *m) {
    struct pickle_value module, name;
    TRY(pop(m, &name));
    TRY(pop(m, &module));
    if (module.kind != PICKLE_TEXT || name.kind != PICKLE_TEXT)
        return malformed(m, "a class without a name");
    return push_global(m, wisp_text_of(module.as.text), wisp_text_of(name.as.text));
}

static wisp_status push_integer(struct machine *m, enum pickle_kind kind, int64_t value) {
    return push(m, (struct pickle_value){.kind = kind, .as.integer = value});
}

/* Pushes an integer of `bytes` bytes. */
static wisp_status read_integer(struct machine *m, size_t bytes) {
    uint64_t number;
    TRY(take_number(m, bytes, &number));
    const int64_t value = bytes == 4 ? (int32_t)(uint32_t)number : (int64_t)number;
    return push_integer(m, PICKLE_INTEGER, value);
}

/* Pushes an integer of any length. One of more than 8 bytes is not a size. */
static wisp_status read_long(struct machine *m) {
    const unsigned char *bytes;
    uint64_t length, number = 0;
    TRY(take_number(m, 1, &length));
    TRY(take(m, length, &bytes));
    if (length > 8)
        return push(m, (struct pickle_value){.kind = PICKLE_OTHER});
    for (size_t i = 0; i < 8; i++) {
        const bool negative = length > 0 && bytes[length - 1] > 127;
        const unsigned byte = i < length ? bytes[i] : negative ? 0xff : 0;
        number |= (uint64_t)byte << 8 * i;
    }
    return push_integer(m, PICKLE_INTEGER, (int64_t)number);
}

/* Keeps the value at the top under an index. Python counts them. */
static wisp_status remember(struct machine *m, uint64_t index) {
    if (m->stack.count <= floor_of(m) || index > m->memo.count)
        return malformed(m, "a value is kept under an index that is not the next one");
    const struct pickle_value value = m->stack.values[m->stack.count - 1];
    if (index == m->memo.count)
        return append(m, &m->memo, value);
    m->memo.values[index] = value;
    return WISP_OK;
}

static wisp_status read_remember(struct machine *m, size_t bytes) {
    uint64_t index;
    TRY(take_number(m, bytes, &index));
    return remember(m, index);
}

static wisp_status read_recall(struct machine *m, size_t bytes) {
    uint64_t index;
    TRY(take_number(m, bytes, &index));
    if (index >= m->memo.count)
        return malformed(m, "a value that was not kept");
    return push(m, m->memo.values[index]);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Returns item i of a tuple, or NULL. */
static const struct pickle_value *item(const struct pickle_value *tuple, size_t i,
                                       enum pickle_kind kind) {
    const bool found = tuple && tuple->kind == PICKLE_TUPLE && i < tuple->as.items->count &&
                       tuple->as.items->values[i].kind == kind;
    return found ? &tuple->as.items->values[i] : NULL;
}

/* Pushes the storage that ("storage", class, key, place, elements) stands for. */
static wisp_status push_storage(struct machine *m) {
    wisp_error *error = m->error;
    struct pickle_value id, value = {.kind = PICKLE_STORAGE};
    struct pickle_storage *storage;
    TRY(pop(m, &id));
    const struct pickle_value *tag = item(&id, 0, PICKLE_TEXT);
    const struct pickle_value *class = item(&id, 1, PICKLE_GLOBAL);
    const struct pickle_value *key = item(&id, 2, PICKLE_TEXT);
    const struct pickle_value *elements = item(&id, 4, PICKLE_INTEGER);
    if (!tag || strcmp(tag->as.text, "storage") != 0 || !class || !key || !elements ||
        elements->as.integer < 0)
        return malformed(m, "data outside the pickle that are not a storage");
    if (id.as.items->count > 5 && !item(&id, 5, PICKLE_NONE))
        return malformed(m, "a storage that is a part of another one");
    ARENA_TAKE(m->arena, storage, 1, error);
    *storage = (struct pickle_storage){.class = strchr(class->as.text, ' ') + 1,
                                       .key = key->as.text,
                                       .elements = (uint64_t)elements->as.integer};
    value.as.storage = storage;
    return push(m, value);
}

static wisp_status read_shape(const struct machine *m, const struct pickle_value *sizes,
                              const struct pickle_value *strides, struct pickle_tensor *tensor) {
    const size_t n = sizes->as.items->count;
    uint64_t step = 1;
    if (n > PICKLE_MAX_DIMS || strides->as.items->count != n)
        return malformed(m, "a tensor with more than 4 dimensions, or without a stride for each");
    tensor->n_dims = (uint32_t)n;
    for (size_t i = n; i-- > 0;) {
        const struct pickle_value *size = item(sizes, i, PICKLE_INTEGER);
        const struct pickle_value *stride = item(strides, i, PICKLE_INTEGER);
        if (!size || !stride || size->as.integer < 0)
            return malformed(m, "a tensor whose shape is not made of whole numbers");
        tensor->sizes[i] = (uint64_t)size->as.integer;
        if (tensor->sizes[i] > 1 && (uint64_t)stride->as.integer != step)
            return fail(m->error, WISP_ERROR_UNSUPPORTED, m->file, "pickle",
                        "a tensor whose elements do not follow each other");
        if (!checked_multiply(step, tensor->sizes[i], &step))
            return malformed(m, "a tensor whose size overflows");
    }
    if (tensor->offset > tensor->storage->elements ||
        step > tensor->storage->elements - tensor->offset)
        return malformed(m, "a tensor beyond the end of its storage");
    return WISP_OK;
}

/* (storage, offset, sizes, strides, ...) */
static wisp_status push_tensor(struct machine *m, const struct pickle_value *arguments) {
    wisp_error *error = m->error;
    struct pickle_value value = {.kind = PICKLE_TENSOR};
    struct pickle_tensor *tensor;
    const struct pickle_value *storage = item(arguments, 0, PICKLE_STORAGE);
    const struct pickle_value *offset = item(arguments, 1, PICKLE_INTEGER);
    const struct pickle_value *sizes = item(arguments, 2, PICKLE_TUPLE);
    const struct pickle_value *strides = item(arguments, 3, PICKLE_TUPLE);
    if (!storage || !offset || offset->as.integer < 0 || !sizes || !strides)
        return malformed(m, "a tensor without storage, offset, sizes and strides");
    ARENA_TAKE(m->arena, tensor, 1, error);
    *tensor = (struct pickle_tensor){.storage = storage->as.storage,
                                     .offset = (uint64_t)offset->as.integer};
    TRY(read_shape(m, sizes, strides, tensor));
    value.as.tensor = tensor;
    return push(m, value);
}

static wisp_status push_first(struct machine *m, const struct pickle_value *arguments) {
    const struct pickle_value *data = item(arguments, 0, PICKLE_TENSOR);
    return data ? push(m, *data) : malformed(m, "a parameter without a tensor");
}

static wisp_status push_dict(struct machine *m, const struct pickle_value *arguments) {
    if (arguments->as.items->count > 0)
        return malformed(m, "an OrderedDict that begins with items");
    return push_items(m, PICKLE_DICT, m->stack.count);
}

/* The only calls that are known. */
static const struct {
    const char *name;
    wisp_status (*make)(struct machine *m, const struct pickle_value *arguments);
} calls[] = {{"collections OrderedDict", push_dict},
             {"torch._utils _rebuild_tensor", push_tensor},
             {"torch._utils _rebuild_tensor_v2", push_tensor},
             {"torch._utils _rebuild_parameter", push_first}};

static wisp_status call(struct machine *m) {
    struct pickle_value arguments, function;
    TRY(pop(m, &arguments));
    TRY(pop(m, &function));
    if (arguments.kind != PICKLE_TUPLE || function.kind != PICKLE_GLOBAL)
        return malformed(m, "a call of what is not a function");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(function.as.text, calls[i].name) == 0)
            return calls[i].make(m, &arguments);
    return fail(m->error, WISP_ERROR_UNSUPPORTED, m->file, "pickle",
                "it calls %.96s, and no code of a file is run: store the model with "
                "save_pretrained, which writes safetensors",
                function.as.text);
}

/* ---- the program ---------------------------------------------------------------------------- */

static wisp_status add_items(struct machine *m, bool pairs) {
    size_t mark = 0;
    TRY(pop_mark(m, &mark));
    return add_to(m, mark, pairs);
}

static wisp_status push_mark(struct machine *m) {
    if (m->n_marks == MOST_MARKS)
        return malformed(m, "more than 64 marks on the stack");
    m->marks[m->n_marks++] = m->stack.count;
    return WISP_OK;
}

static wisp_status push_marked(struct machine *m) {
    size_t mark = 0;
    TRY(pop_mark(m, &mark));
    return push_items(m, PICKLE_TUPLE, mark);
}

static wisp_status skip(struct machine *m, uint64_t bytes) {
    const unsigned char *data;
    return take(m, bytes, &data);
}

static wisp_status read_double(struct machine *m) {
    TRY(skip(m, 8));
    return push(m, (struct pickle_value){.kind = PICKLE_OTHER});
}

static wisp_status pop_state(struct machine *m) {
    struct pickle_value state;
    return pop(m, &state); /* of an OrderedDict: versions of modules */
}

/* Opcodes, by the names that pickletools has for them. */
enum opcode {
    MARK = '(',
    STOP = '.',
    BINFLOAT = 'G',
    BININT = 'J',
    BININT1 = 'K',
    BININT2 = 'M',
    NONE = 'N',
    BINPERSID = 'Q',
    REDUCE = 'R',
    SHORT_BINSTRING = 'U',
    BINUNICODE = 'X',
    EMPTY_LIST = ']',
    APPEND = 'a',
    BUILD = 'b',
    GLOBAL = 'c',
    APPENDS = 'e',
    BINGET = 'h',
    LONG_BINGET = 'j',
    BINPUT = 'q',
    LONG_BINPUT = 'r',
    SETITEM = 's',
    TUPLE = 't',
    SETITEMS = 'u',
    EMPTY_DICT = '}',
    EMPTY_TUPLE = ')',
    PROTO = 0x80,
    TUPLE1 = 0x85,
    TUPLE2 = 0x86,
    TUPLE3 = 0x87,
    NEWTRUE = 0x88,
    NEWFALSE = 0x89,
    LONG1 = 0x8a,
    SHORT_BINUNICODE = 0x8c,
    STACK_GLOBAL = 0x93,
    MEMOIZE = 0x94,
    FRAME = 0x95
};

static wisp_status run_values(struct machine *m, enum opcode opcode) {
    switch (opcode) {
    case NONE:
        return push(m, (struct pickle_value){.kind = PICKLE_NONE});
    case NEWTRUE:
    case NEWFALSE:
        return push_integer(m, PICKLE_BOOL, opcode == NEWTRUE);
    case BININT:
        return read_integer(m, 4);
    case BININT1:
        return read_integer(m, 1);
    case BININT2:
        return read_integer(m, 2);
    case LONG1:
        return read_long(m);
    case BINFLOAT:
        return read_double(m);
    case BINUNICODE:
        return read_text(m, 4);
    case SHORT_BINUNICODE:
    case SHORT_BINSTRING:
        return read_text(m, 1);
    case GLOBAL:
        return read_global(m);
    case STACK_GLOBAL:
        return read_stack_global(m);
    default:
        return fail(m->error, WISP_ERROR_UNSUPPORTED, m->file, "pickle",
                    "opcode %u, which no checkpoint of PyTorch has", (unsigned)opcode);
    }
}

static wisp_status run(struct machine *m, enum opcode opcode) {
    switch (opcode) {
    case PROTO:
        return skip(m, 1);
    case FRAME:
        return skip(m, 8);
    case STOP:
        m->stopped = true;
        return WISP_OK;
    case MARK:
        return push_mark(m);
    case EMPTY_DICT:
        return push_items(m, PICKLE_DICT, m->stack.count);
    case EMPTY_LIST:
        return push_items(m, PICKLE_LIST, m->stack.count);
    case EMPTY_TUPLE:
        return push_tuple(m, 0);
    case TUPLE1:
    case TUPLE2:
    case TUPLE3:
        return push_tuple(m, (size_t)(opcode - TUPLE1) + 1);
    case TUPLE:
        return push_marked(m);
    case BINPUT:
        return read_remember(m, 1);
    case LONG_BINPUT:
        return read_remember(m, 4);
    case MEMOIZE:
        return remember(m, m->memo.count);
    case BINGET:
        return read_recall(m, 1);
    case LONG_BINGET:
        return read_recall(m, 4);
    case BINPERSID:
        return push_storage(m);
    case REDUCE:
        return call(m);
    case BUILD:
        return pop_state(m);
    case SETITEM:
        return m->stack.count < 2 ? malformed(m, "a value is missing on the stack")
                                  : add_to(m, m->stack.count - 2, true);
    case APPEND:
        return m->stack.count < 1 ? malformed(m, "a value is missing on the stack")
                                  : add_to(m, m->stack.count - 1, false);
    case SETITEMS:
    case APPENDS:
        return add_items(m, opcode == SETITEMS);
    default:
        return run_values(m, opcode);
    }
}

wisp_status pickle_read(struct arena *arena, const void *bytes, size_t size, const char *file,
                        struct pickle_value *value, size_t *used, wisp_error *error) {
    const unsigned char *start = bytes;
    struct machine m = {
        .arena = arena, .at = start, .end = start + size, .file = file, .error = error};
    while (!m.stopped) {
        const unsigned char *opcode;
        TRY(take(&m, 1, &opcode));
        TRY(run(&m, (enum opcode) * opcode));
    }
    *used = (size_t)(m.at - start);
    return pop(&m, value);
}
