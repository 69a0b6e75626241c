/* SPDX-License-Identifier: Apache-2.0
 * Models by URL in the program for Node, which has no connections: JavaScript's own embed and
 * convert fetch models. */
#include "cli/remote.h"

#include "base/status.h"

wisp_status remote_open(const char *url, const struct model_arguments *arguments,
                        const wisp_model_options *options, wisp_model **model, wisp_error *error) {
    (void)url; /* its query may hold a secret */
    (void)arguments;
    (void)options;
    (void)model;
    return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL,
                "--model: this build reads no URLs; wisp-engine convert URL FILE fetches a model");
}
