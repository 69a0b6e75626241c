/* SPDX-License-Identifier: Apache-2.0 */
#include "images/library.h"

#ifdef WISP_IMAGES

wisp_status image_decoder_load(const struct image_decoder **decoder, wisp_error *error) {
    (void)error;
    *decoder = wisp_image_decoder();
    return WISP_OK;
}

#elif defined(WISP_STATIC)

wisp_status image_decoder_load(const struct image_decoder **decoder, wisp_error *error) {
    *decoder = NULL;
    return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL,
                "images: this program was built without a decoder: it is static, and cannot load "
                "libraries");
}

#else

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char file[] = "libwisp-images.so";

/* Opens the file that $WISP_IMAGES_LIBRARY names, or else the one beside the program, as in build/,
 * or in an installation's lib/, or where the system looks for libraries. */
static void *open_library(void) {
    enum { PATH_BYTES = 4096 };
    static const char *const folders[] = {"", "../lib/"}; /* from that of the program */
    char path[PATH_BYTES];
    Dl_info own;
    void *library = NULL;
    const char *chosen = getenv("WISP_IMAGES_LIBRARY");
    if (chosen)
        return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    const char *slash = dladdr(file, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    for (size_t i = 0; slash && !library && i < sizeof folders / sizeof *folders; i++) {
        const int length = snprintf(path, sizeof path, "%.*s/%s%s", (int)(slash - own.dli_fname),
                                    own.dli_fname, folders[i], file);
        if (length < PATH_BYTES)
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library ? library : dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

wisp_status image_decoder_load(const struct image_decoder **decoder, wisp_error *error) {
    *decoder = NULL;
    void *opened = open_library();
    if (!opened) {
        const char *why = dlerror();
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL,
                    "images need %s, which make images builds, beside the program or where "
                    "libraries are: %.200s",
                    file, why ? why : "it cannot be opened");
    }
    void *symbol = dlsym(opened, IMAGE_DECODER_FUNCTION);
    image_decoder_function *function = NULL;
    /* ISO C has no conversion of a pointer to a function pointer; POSIX lets them be copied. */
    memcpy(&function, &symbol, sizeof symbol);
    const struct image_decoder *found = function ? function() : NULL;
    if (!found || found->version != IMAGE_DECODER_VERSION)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL, "%s is that of another version",
                    file);
    *decoder = found;
    return WISP_OK;
}

#endif
