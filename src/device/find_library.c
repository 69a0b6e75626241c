/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/device.h"

const char *const device_names[] = {"cpu", "auto", "cuda", NULL};

/* Fails if no library computes for a device of this name. */
static wisp_status check_name(const char *name, wisp_error *error) {
    char names[128] = "";
    size_t length = 0;
    for (size_t i = 0; device_names[i]; i++) {
        if (i >= DEVICES_WITHOUT_LIBRARY && strcmp(name, device_names[i]) == 0)
            return WISP_OK;
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "",
                                   device_names[i]);
    }
    return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "device", "there is no device %.40s, only %s",
                name, names);
}

#if defined(WISP_STATIC) || defined(__wasm__) || defined(_WIN32)

wisp_status device_find_library(const char *name, const struct device_library **library,
                                wisp_error *error) {
    *library = NULL;
    TRY(check_name(name, error));
    return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "device",
                "this build of wisp is static, and cannot open the library of %s", name);
}

#else

#include <dlfcn.h>

enum { PATH_BYTES = 4096 };

/* Opens "libwisp-NAME.so": the file that $WISP_NAME_LIBRARY names, or else the one beside this
 * code's own file, or where the system looks for libraries. */
static void *open_library(const char *name) {
    char variable[64], file[64], path[PATH_BYTES];
    Dl_info own;
    snprintf(file, sizeof file, "libwisp-%s.so", name);
    int length = snprintf(variable, sizeof variable, "WISP_%s_LIBRARY", name);
    for (int i = 5; i < length; i++)
        if (variable[i] >= 'a' && variable[i] <= 'z')
            variable[i] = (char)(variable[i] - 'a' + 'A');
    const char *chosen = getenv(variable);
    if (chosen)
        return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    void *library = NULL;
    const char *slash =
        dladdr(device_names, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    if (slash) {
        length = snprintf(path, sizeof path, "%.*s/%s", (int)(slash - own.dli_fname), own.dli_fname,
                          file);
        if (length < PATH_BYTES)
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library ? library : dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

wisp_status device_find_library(const char *name, const struct device_library **library,
                                wisp_error *error) {
    *library = NULL;
    TRY(check_name(name, error));
    /* The library stays loaded until the process ends, as drivers expect. */
    void *opened = open_library(name);
    if (!opened) {
        const char *why = dlerror();
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "device",
                    "%s needs libwisp-%s.so, which make %s builds, beside the program or where "
                    "libraries are: %.200s",
                    name, name, name, why ? why : "it cannot be opened");
    }
    void *symbol = dlsym(opened, DEVICE_LIBRARY_FUNCTION);
    device_library_function *function = NULL;
    /* ISO C has no conversion of a pointer to a function pointer; POSIX lets them be copied. */
    memcpy(&function, &symbol, sizeof symbol);
    const struct device_library *found = function ? function() : NULL;
    if (!found || found->version != DEVICE_VERSION)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "device",
                    "libwisp-%s.so is that of another version of wisp", name);
    *library = found;
    return WISP_OK;
}

#endif
