/* SPDX-License-Identifier: Apache-2.0
 * Downloads one file of the Hub. */
#ifndef WISP_HTTP_HUB_DOWNLOAD_H
#define WISP_HTTP_HUB_DOWNLOAD_H

#include "http/hub_options.h"
#include "http/hub_request.h"

/* A file, as the server describes it. */
struct hub_about {
    char etag[256];
    uint64_t size; /* 0: unknown */
};

struct hub_wanted {
    const char *url;    /* of the file of a commit: a branch may move while it is read */
    const char *folder; /* of the repository in the cache */
    const char *path;   /* of the file of the commit */
    struct hub_about about;
    uint64_t before, total; /* bytes of other files, of which the progress tells, too */
};

/* Makes the blob of a file, unless it is there or another process makes it. Sets *is_new to whether
 * this one has. */
wisp_status hub_download(struct hub_client *client, const struct hub_options *options,
                         const struct hub_wanted *wanted, bool *is_new, wisp_error *error);

#endif
