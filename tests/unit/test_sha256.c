/* SPDX-License-Identifier: Apache-2.0
 * SHA-256 against examples of FIPS 180-4 (in NIST's "SHA_All.pdf") and of RFC 6234, added in one
 * piece and in pieces of every length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sha256.h"

static void expect_digest(struct sha256 *hash, const char *wanted) {
    unsigned char digest[32];
    char text[65];
    sha256_finish(hash, digest);
    sha256_text(digest, text);
    assert_string_equal(text, wanted);
}

static void examples_have_their_digests(void **state) {
    static const struct {
        const char *text, *digest;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "mnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (size_t piece = 1; piece <= 130; piece++) {
            const size_t length = strlen(examples[i].text);
            struct sha256 hash;
            sha256_start(&hash);
            for (size_t at = 0; at < length; at += piece)
                sha256_add(&hash, examples[i].text + at, length - at < piece ? length - at : piece);
            expect_digest(&hash, examples[i].digest);
        }
}

static void a_million_letters_have_their_digest(void **state) {
    enum { LETTERS = 1000000 };
    char *letters = malloc(LETTERS);
    (void)state;
    assert_non_null(letters);
    memset(letters, 'a', LETTERS);
    for (size_t piece = 1; piece <= LETTERS; piece = piece * 7 + 1) {
        struct sha256 hash;
        sha256_start(&hash);
        for (size_t at = 0; at < LETTERS; at += piece)
            sha256_add(&hash, letters + at, LETTERS - at < piece ? LETTERS - at : piece);
        expect_digest(&hash, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
    free(letters);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_have_their_digests),
        cmocka_unit_test(a_million_letters_have_their_digest),
    };
    return cmocka_run_group_tests_name("SHA-256", tests, NULL, NULL);
}
