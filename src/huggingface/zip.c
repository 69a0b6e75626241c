/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/zip.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"

/* The records of an archive, by their signatures, with their sizes before names and the like. */
enum {
    END = 0x06054b50,
    END_BYTES = 22,
    END_64 = 0x06064b50,
    END_64_BYTES = 56,
    LOCATOR_64 = 0x07064b50,
    LOCATOR_64_BYTES = 20,
    ENTRY = 0x02014b50,
    ENTRY_BYTES = 46,
    LOCAL = 0x04034b50,
    LOCAL_BYTES = 30
};
enum { MOST_COMMENT = 65535, MOST_ENTRIES = 1 << 16, MOST_LIST_BYTES = 1 << 24 };
enum { EXTRA_64 = 1 };

struct reader {
    const wisp_source *source;
    struct arena *arena;
    wisp_error *error;
};

/* The list of members. */
struct list {
    uint64_t offset, bytes, count;
};

static wisp_status malformed(const struct reader *r, const char *field, const char *what) {
    return fail(r->error, WISP_ERROR_FORMAT, r->source->name, field, "%s", what);
}

static wisp_status read(const struct reader *r, uint64_t offset, uint64_t bytes, void *buffer) {
    if (offset > r->source->size || bytes > r->source->size - offset)
        return malformed(r, "zip", "a record is beyond the end of the file");
    return source_read(r->source, "zip", offset, buffer, (size_t)bytes, r->error);
}

/* Reads the list's place from the record of large archives, whose locator is before `end`. */
static wisp_status read_end_64(const struct reader *r, uint64_t end, struct list *list) {
    unsigned char bytes[END_64_BYTES];
    if (end < LOCATOR_64_BYTES)
        return WISP_OK;
    TRY(read(r, end - LOCATOR_64_BYTES, LOCATOR_64_BYTES, bytes));
    if (load_u32(bytes) != LOCATOR_64)
        return WISP_OK;
    TRY(read(r, load_u64(bytes + 8), END_64_BYTES, bytes));
    if (load_u32(bytes) != END_64)
        return malformed(r, "zip", "the end of the list of members is not where it should be");
    *list = (struct list){load_u64(bytes + 48), load_u64(bytes + 40), load_u64(bytes + 32)};
    return WISP_OK;
}

static wisp_status find_list(const struct reader *r, struct list *list) {
    const uint64_t size = r->source->size;
    const size_t tail = size < END_BYTES + MOST_COMMENT ? (size_t)size : END_BYTES + MOST_COMMENT;
    wisp_error *error = r->error;
    unsigned char *bytes;
    if (size < END_BYTES)
        return malformed(r, "zip", "the file ends within it");
    ARENA_TAKE(r->arena, bytes, tail, error);
    TRY(read(r, size - tail, tail, bytes));
    for (size_t at = tail - END_BYTES + 1; at-- > 0;)
        if (load_u32(bytes + at) == END) {
            *list = (struct list){load_u32(bytes + at + 16), load_u32(bytes + at + 12),
                                  load_u16(bytes + at + 10)};
            return read_end_64(r, size - tail + at, list);
        }
    return malformed(r, "zip", "the archive has no end record: it is truncated");
}

/* Replaces the sizes and the place of a member, if they are 0xffffffff, by those of the extra
 * field. */
static wisp_status read_extra(const struct reader *r, const unsigned char *extra, size_t bytes,
                              uint64_t *values, size_t n) {
    while (bytes >= 4) {
        const uint32_t id = load_u16(extra), length = load_u16(extra + 2);
        extra += 4;
        bytes -= 4;
        if (length > bytes)
            break;
        for (size_t i = 0, at = 0; i < n && id == EXTRA_64; i++)
            if (values[i] == UINT32_MAX) {
                if (at + 8 > length)
                    return malformed(r, "zip", "a size of 64 bits is missing");
                values[i] = load_u64(extra + at);
                at += 8;
            }
        extra += length;
        bytes -= length;
    }
    return WISP_OK;
}

/* Finds where the bytes of a member begin: behind its own header. */
static wisp_status find_bytes(const struct reader *r, uint64_t header, struct zip_member *member) {
    unsigned char local[LOCAL_BYTES];
    TRY(read(r, header, LOCAL_BYTES, local));
    if (load_u32(local) != LOCAL)
        return malformed(r, member->name, "its header is not where the list says");
    member->offset = header + LOCAL_BYTES + load_u16(local + 26) + load_u16(local + 28);
    if (member->offset > r->source->size || member->bytes > r->source->size - member->offset)
        return malformed(r, member->name, "it ends beyond the end of the file");
    return WISP_OK;
}

/* Reads the entry at `at` of the list, of which `left` bytes are left, and sets *used. */
static wisp_status read_entry(const struct reader *r, const unsigned char *at, size_t left,
                              struct zip_member *member, size_t *used) {
    if (left < ENTRY_BYTES || load_u32(at) != ENTRY)
        return malformed(r, "zip", "the list of members is malformed");
    const size_t name = load_u16(at + 28), extra = load_u16(at + 30);
    *used = ENTRY_BYTES + name + extra + load_u16(at + 32);
    if (*used > left)
        return malformed(r, "zip", "the list of members is malformed");
    char *text = arena_copy_text(r->arena, (const char *)at + ENTRY_BYTES, name);
    if (!text)
        return fail_memory(r->error, name);
    const char *slash = strchr(text, '/');
    member->name = slash ? slash + 1 : text;
    uint64_t values[] = {load_u32(at + 24), load_u32(at + 20), load_u32(at + 42)};
    TRY(read_extra(r, at + ENTRY_BYTES + name, extra, values, 3));
    if (load_u16(at + 10) != 0 || values[0] != values[1] || (load_u16(at + 8) & 1))
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->source->name, member->name,
                    "compressed or encrypted members of an archive are not supported");
    member->bytes = values[0];
    return find_bytes(r, values[2], member);
}

static int compare_members(const void *a, const void *b) {
    return strcmp(((const struct zip_member *)a)->name, ((const struct zip_member *)b)->name);
}

wisp_status zip_read(const wisp_source *source, struct arena *arena, struct zip_archive *archive,
                     wisp_error *error) {
    const struct reader r = {source, arena, error};
    struct list list = {0};
    unsigned char *bytes;
    size_t at = 0, used = 0;
    *archive = (struct zip_archive){0};
    TRY(find_list(&r, &list));
    if (list.count > MOST_ENTRIES || list.bytes > MOST_LIST_BYTES)
        return malformed(&r, "zip", "more than 65536 members");
    ARENA_TAKE(arena, bytes, (size_t)list.bytes + 1, error);
    TRY(read(&r, list.offset, list.bytes, bytes));
    ARENA_TAKE(arena, archive->members, (size_t)list.count + 1, error);
    for (; archive->count < list.count; archive->count++, at += used)
        TRY(read_entry(&r, bytes + at, (size_t)list.bytes - at, &archive->members[archive->count],
                       &used));
    if (archive->count > 1)
        qsort(archive->members, archive->count, sizeof *archive->members, compare_members);
    return WISP_OK;
}

const struct zip_member *zip_find(const struct zip_archive *archive, const char *name) {
    const struct zip_member wanted = {.name = name};
    return bsearch(&wanted, archive->members, archive->count, sizeof wanted, compare_members);
}
