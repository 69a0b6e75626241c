// SPDX-License-Identifier: Apache-2.0
// `wisp-engine serve-demo`: the pages of web-demo, with the package's own scripts and models.
import { realpath, stat } from 'node:fs/promises';
import { Complaint, EXIT, parse, print, wholeNumber } from './cli-console.js';
import { reasonOf } from '../base/system-error.js';
import { serve } from './serve.js';

const HELP = `usage: wisp-engine serve-demo [--port N] [--plain] [--cold FILE]

Serves pages that search lines and documents by meaning, write texts, and draw a model's neurons
and weights, for this machine only, until it is interrupted. The pages compute everything
themselves.

      --port N     the port; 0: any free port (default: 8080)
      --plain      omit the headers (COOP, COEP) that allow pages shared memory
      --cold FILE  a model of "wisp calibrate --hot 0.8" for the page that draws neurons, which
                   fetches it in parts; without one the page makes its own
  -h, --help       this text
`;

/** Where the file of --cold is. */
const COLD_MODEL = '/models/wisp-cold.gguf';

/** What the pages load or link to: folders, and files beside them. */
const FOLDERS = [
  ...['web-demo', 'js', 'models', 'types', 'docs', 'bench'],
  ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'],
];

/** The page that "/" redirects to. */
const HOME = '/web-demo/';
const START = `<!doctype html><meta http-equiv="refresh" content="0; url=${HOME}" />`;

/** @param {string[]} args @returns {Promise<number>} */
export async function run(args) {
  const { values, positionals } = parse('serve-demo', args, {
    port: { type: 'string', default: '8080' },
    plain: { type: 'boolean', default: false },
    cold: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  });
  if (values.help) return (await print(HELP), EXIT.good);
  if (positionals.length > 0) {
    throw new Complaint(EXIT.usage, `serve-demo takes no arguments: ${positionals[0]}`);
  }
  const port = wholeNumber('port', values.port, 0, 65535);
  const page = (/** @type {string} */ path) => (path === '/' ? { body: START } : undefined);
  const isolated = !values.plain;
  const files = await filesOf(values.cold);
  const { origin } = await serve({ port, isolated, page, files, folders: FOLDERS }).catch(
    (error) => {
      const more = error.code === 'EADDRINUSE' ? '; --port 0 takes any that is free' : '';
      throw new Complaint(EXIT.failed, `--port ${port}: ${reasonOf(error)}${more}`);
    },
  );
  await print(`${origin}${HOME}  (Ctrl-C ends it)\n`);
  if (values.cold !== undefined)
    await print(`${origin}${HOME}neurons.html?model=${COLD_MODEL}  (the neurons of the file)\n`);
  return new Promise(() => {}); // the server keeps Node running
}

/** @param {string} [cold] @returns {Promise<Record<string, string>>} */
async function filesOf(cold) {
  if (cold === undefined) return {};
  try {
    if (!(await stat(cold)).isFile()) throw new Error('no file');
    return { [COLD_MODEL]: await realpath(cold) };
  } catch (error) {
    throw new Complaint(EXIT.model, `--cold ${cold}: ${reasonOf(error)}`);
  }
}
