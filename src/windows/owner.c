/* SPDX-License-Identifier: Apache-2.0 */
#include "windows/owner.h"

#include <aclapi.h>
#include <sddl.h>
#include <stdio.h>

/* Returns the user of this process, for free(), or NULL and errno. */
static TOKEN_USER *find_user(void) {
    HANDLE token;
    DWORD bytes = 0;
    TOKEN_USER *user = NULL;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) {
        windows_fail();
        return NULL;
    }
    GetTokenInformation(token, TokenUser, NULL, 0, &bytes);
    if (bytes == 0)
        windows_fail();
    else if (!(user = malloc(bytes)))
        errno = ENOMEM;
    else if (!GetTokenInformation(token, TokenUser, user, bytes, &bytes)) {
        windows_fail();
        free(user);
        user = NULL;
    }
    CloseHandle(token);
    return user;
}

bool owner_only(SECURITY_ATTRIBUTES *attributes) {
    TOKEN_USER *user = find_user();
    wchar_t *name = NULL, list[512];
    *attributes = (SECURITY_ATTRIBUTES){.nLength = sizeof *attributes};
    if (!user)
        return false;
    bool good = ConvertSidToStringSidW(user->User.Sid, &name);
    /* Nothing comes from the folder above; what is made inside has the same rights. */
    if (good) {
        _snwprintf(list, sizeof list / sizeof *list,
                   L"D:P(A;OICI;FA;;;%ls)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)", name);
        good = ConvertStringSecurityDescriptorToSecurityDescriptorW(
            list, SDDL_REVISION_1, &attributes->lpSecurityDescriptor, NULL);
    }
    if (!good)
        windows_fail();
    LocalFree(name);
    free(user);
    return good;
}

void owner_release(SECURITY_ATTRIBUTES *attributes) {
    LocalFree(attributes->lpSecurityDescriptor);
}

static bool counts_as_user(PSID who, const TOKEN_USER *user) {
    static const WELL_KNOWN_SID_TYPE others[] = {WinLocalSystemSid, WinBuiltinAdministratorsSid,
                                                 WinCreatorOwnerSid, WinCreatorOwnerRightsSid};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (IsWellKnownSid(who, others[i]))
            return true;
    return EqualSid(who, user->User.Sid);
}

/* Returns whether an access list lets others write. A file without a list is open to all. */
static bool lets_others_write(ACL *list, const TOKEN_USER *user) {
    static const DWORD writing = FILE_WRITE_DATA | FILE_APPEND_DATA | FILE_DELETE_CHILD |
                                 WRITE_DAC | WRITE_OWNER | GENERIC_WRITE | GENERIC_ALL;
    for (DWORD i = 0; list && i < list->AceCount; i++) {
        ACCESS_ALLOWED_ACE *entry;
        void *found;
        if (!GetAce(list, i, &found))
            return true;
        entry = found;
        if (entry->Header.AceType == ACCESS_DENIED_ACE_TYPE ||
            (entry->Header.AceFlags & INHERIT_ONLY_ACE) || !(entry->Mask & writing))
            continue;
        /* An entry of another kind may be anybody's. */
        if (entry->Header.AceType != ACCESS_ALLOWED_ACE_TYPE ||
            !counts_as_user((PSID)&entry->SidStart, user))
            return true;
    }
    return !list;
}

bool owner_look(HANDLE handle, struct owner_rights *rights) {
    PSID owner = NULL;
    ACL *list = NULL;
    PSECURITY_DESCRIPTOR descriptor = NULL;
    TOKEN_USER *user = find_user();
    if (!user)
        return false;
    const DWORD failed = GetSecurityInfo(handle, SE_FILE_OBJECT,
                                         OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                                         &owner, NULL, &list, NULL, &descriptor);
    if (failed) {
        SetLastError(failed);
        windows_fail();
    } else {
        rights->is_own = owner && counts_as_user(owner, user);
        rights->others_can_write = lets_others_write(list, user);
    }
    LocalFree(descriptor);
    free(user);
    return failed == 0;
}
