/* SPDX-License-Identifier: Apache-2.0
 * Usage: in_files OUTPUT PROGRAM [ARGUMENT]... Runs a program with nothing as its input, and a file
 * as its output and its errors. Python for Windows asks for the names of these, and Wine knows none
 * for files that a program of Linux has opened. Ends as the program does. */
#include <stdio.h>
#include <windows.h>

enum { LINE = 32767 };

/* Appends an argument in quotation marks, in which it must not end with a backslash. */
static int append(wchar_t line[LINE], const wchar_t *argument) {
    const size_t length = wcslen(line);
    return _snwprintf(line + length, LINE - length, L"\"%ls\" ", argument) > 0;
}

int wmain(int argc, wchar_t **argv) {
    static wchar_t line[LINE];
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    PROCESS_INFORMATION process;
    DWORD code = 1;
    if (argc < 3)
        return 2;
    for (int i = 2; i < argc; i++)
        if (!append(line, argv[i]))
            return 2;
    STARTUPINFOW start = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES};
    start.hStdInput =
        CreateFileW(L"NUL", GENERIC_READ, FILE_SHARE_READ, &inherited, OPEN_EXISTING, 0, NULL);
    start.hStdOutput = start.hStdError =
        CreateFileW(argv[1], GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited,
                    CREATE_ALWAYS, 0, NULL);
    if (start.hStdOutput == INVALID_HANDLE_VALUE ||
        !CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &process)) {
        fprintf(stderr, "in_files: cannot run the program: error %lu\n", GetLastError());
        return 2;
    }
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &code);
    return (int)code;
}
