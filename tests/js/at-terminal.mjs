// SPDX-License-Identifier: Apache-2.0
// Programs at a pseudo-terminal.
import { spawnSync } from 'node:child_process';
import { DEFAULT_MODEL_PATH } from './support.mjs';

/**
 * Runs a program at a terminal of 80 columns, at which texts are typed.
 * @param {string[]} command
 * @param {string[]} typed
 * @param {string} [prompt] comes before each of them; undefined: they are typed at once
 */
export function atTerminal(command, typed, prompt = '') {
  const script = `
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
out = b""
try:
    for typed in ${JSON.stringify(typed)}:
        seen = len(out)
        while ${JSON.stringify(prompt)}.encode() not in out[seen:]:
            out += os.read(terminal, 65536)
        os.write(terminal, typed.encode())
    while part := os.read(terminal, 65536):
        out += part
except OSError:
    pass  # Linux says so that the other end is closed
sys.stdout.buffer.write(out)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))`;
  const env = { ...process.env, WISP_MODEL: DEFAULT_MODEL_PATH, TERM: 'xterm' };
  const run = spawnSync('python3', ['-c', script, ...command], {
    env,
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { code: run.status, out: run.stdout, err: run.stderr };
}
