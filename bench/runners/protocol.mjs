// SPDX-License-Identifier: Apache-2.0
// Reads the driver's commands (bench/README.md) for runners in JavaScript.
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

/** Parses the options of a runner and the name of the peer before them. */
export function takeArguments() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      model: { type: 'string', default: '' },
      texts: { type: 'string', default: '' },
      threads: { type: 'string', default: '1' },
      dtype: { type: 'string', default: '' },
      addon: { type: 'string' },
      browser: { type: 'string', default: 'chromium' },
      'js-flags': { type: 'string' },
      isolated: { type: 'boolean', default: false },
      'one-engine': { type: 'boolean', default: false },
    },
  });
  return { ...values, threads: Number(values.threads), peer: positionals[0] };
}

/**
 * Obeys the driver until it says quit. `actions` has a function for each command, which returns the
 * answer.
 * @typedef {{ workload: string, to: string, twice?: string }} Command
 * @param {Record<string, (command: Command) => Promise<object>>} actions
 */
export async function serve(actions) {
  // Libraries print to standard output, which is reserved for answers.
  console.log = console.info = console.debug = console.error;
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    if (command.do === 'quit') break;
    const reply = await actions[command.do](command).catch((/** @type {Error} */ error) => ({
      error: String(error.message ?? error),
    }));
    process.stdout.write(JSON.stringify(reply) + '\n');
  }
}
