/* SPDX-License-Identifier: Apache-2.0
 * Who owns files and who may change them, by their access lists. This user, the system and the
 * machine's administrators count as one, because the latter may do all that the user may. */
#ifndef WISP_WINDOWS_OWNER_H
#define WISP_WINDOWS_OWNER_H

#include "windows/system.h"

/* Makes what describes a new file or folder that is for this user alone. Returns false, and errno,
 * if it cannot. The caller calls owner_release. */
bool owner_only(SECURITY_ATTRIBUTES *attributes);
void owner_release(SECURITY_ATTRIBUTES *attributes);

/* Who may do what with an open file or folder, as far as caches ask. */
struct owner_rights {
    bool is_own;           /* this user owns it */
    bool others_can_write; /* others may write to it, or change who may */
};

/* Returns false, and errno, if the system does not say. */
bool owner_look(HANDLE handle, struct owner_rights *rights);

#endif
