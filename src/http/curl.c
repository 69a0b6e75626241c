/* SPDX-License-Identifier: Apache-2.0 */
#include "http/curl.h"

#ifdef WISP_STATIC

wisp_status curl_load(const char *url, const struct curl **curl, wisp_error *error) {
    *curl = NULL;
    return fail(error, WISP_ERROR_UNSUPPORTED, url, NULL,
                "this program was built without libcurl: it is static, and cannot load libraries");
}

#else

#include <dlfcn.h>
#include <stddef.h>

static const struct {
    const char *name;
    size_t place; /* in struct curl */
} functions[] = {
    {"curl_global_init", offsetof(struct curl, global_init)},
    {"curl_easy_init", offsetof(struct curl, easy_init)},
    {"curl_easy_setopt", offsetof(struct curl, easy_setopt)},
    {"curl_easy_getinfo", offsetof(struct curl, easy_getinfo)},
    {"curl_easy_perform", offsetof(struct curl, easy_perform)},
    {"curl_easy_cleanup", offsetof(struct curl, easy_cleanup)},
    {"curl_easy_strerror", offsetof(struct curl, easy_strerror)},
    {"curl_slist_append", offsetof(struct curl, slist_append)},
    {"curl_slist_free_all", offsetof(struct curl, slist_free_all)},
    {"curl_multi_init", offsetof(struct curl, multi_init)},
    {"curl_multi_add_handle", offsetof(struct curl, multi_add_handle)},
    {"curl_multi_remove_handle", offsetof(struct curl, multi_remove_handle)},
    {"curl_multi_perform", offsetof(struct curl, multi_perform)},
    {"curl_multi_info_read", offsetof(struct curl, multi_info_read)},
    {"curl_multi_poll", offsetof(struct curl, multi_poll)},
    {"curl_multi_cleanup", offsetof(struct curl, multi_cleanup)},
};

/* Fills *found from a library. Returns the name of a function that it lacks, or NULL. */
static const char *find_functions(void *library, struct curl *found) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = dlsym(library, functions[i].name);
        if (!symbol)
            return functions[i].name;
        /* ISO C has no conversion of a pointer to a function pointer; POSIX lets them be copied. */
        memcpy((char *)found + functions[i].place, &symbol, sizeof symbol);
    }
    return NULL;
}

wisp_status curl_load(const char *url, const struct curl **curl, wisp_error *error) {
    /* Debian builds libcurl with two libraries for TLS, and other systems give it other endings. */
    static const char *const libraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4",
                                            "libcurl.4.dylib", "libcurl.so"};
    static struct curl loaded;
    *curl = NULL;
    void *library = NULL;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !library; i++)
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(error, WISP_ERROR_UNSUPPORTED, url, NULL,
                    "this machine has no libcurl, by which models come from servers: install it "
                    "(Debian: libcurl4), or download the file and name that");
    /* The library stays loaded until the process ends: curl_global_init has no counterpart that is
     * safe if other code may use it, too. */
    struct curl found;
    const char *missing = find_functions(library, &found);
    if (missing)
        return fail(error, WISP_ERROR_UNSUPPORTED, url, NULL,
                    "this machine's libcurl has no %s: version 7.66 or later is needed", missing);
    if (!loaded.global_init && found.global_init(CURL_START_ALL) != CURL_OK)
        return fail(error, WISP_ERROR_UNSUPPORTED, url, NULL, "libcurl does not start");
    loaded = found;
    *curl = &loaded;
    return WISP_OK;
}

#endif
