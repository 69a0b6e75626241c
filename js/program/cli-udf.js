// SPDX-License-Identifier: Apache-2.0
// `wisp-engine udf`: writes one WebAssembly module that holds a model and imports nothing, for databases.
import { readFile } from 'node:fs/promises';
import { convert } from '../convert-node.js';
import { WispError } from '../base/errors.js';
import { writeWhole, onlyKind } from '../files/output-node.js';
import { Complaint, EXIT, parse, print, wrongUsage } from './cli-console.js';
import { udfModule } from './udf-module.js';

const HELP = `usage: wisp-engine udf [OPTION]... MODEL OUTPUT

Writes a WebAssembly module that contains a model and imports nothing, and prints the SQL with which
ClickHouse runs it: embed(text), embed_prompt(text, prompt) and similarity(a, b). MODEL is a path,
a URL, or hf:owner/name[@revision] on the Hugging Face Hub. Embeddings have the bits of
"wisp embed --portable". docs/scale.md has more.

      --relaxed    use relaxed SIMD, which is faster, but missing in some engines
      --name NAME  the module's name in the SQL (default: wisp)
  -f, --force      replace an existing file that is not a WebAssembly module
  -h, --help       this text

Exit codes: see wisp-engine embed --help.
`;

/**
 * Embeds a text as a database does, so that a model that cannot do it is refused here.
 * @param {Uint8Array} bytes of the module
 */
async function tryOut(bytes) {
  const module = await WebAssembly.compile(/** @type {BufferSource} */ (bytes));
  const { exports } = /** @type {any} */ (await WebAssembly.instantiate(module, {}));
  const text = 'The cat sat on the mat.';
  const argument = exports.clickhouse_create_buffer(text.length + 1);
  const start = new DataView(exports.memory.buffer).getUint32(argument, true);
  new Uint8Array(exports.memory.buffer).set([text.length, ...Buffer.from(text)], start);
  try {
    exports.embed(argument, 1);
  } catch (cause) {
    throw new WispError('unsupported', 'the model makes no portable embeddings in WebAssembly', { cause }); // prettier-ignore
  }
}

/** @param {string[]} args @returns {Promise<number>} the exit code */
export async function run(args) {
  const { values, positionals } = parse('udf', args, {
    relaxed: { type: 'boolean', default: false },
    name: { type: 'string', default: 'wisp' },
    force: { type: 'boolean', short: 'f' },
    help: { type: 'boolean', short: 'h' },
  });
  if (values.help) return (await print(HELP), EXIT.good);
  if (positionals.length !== 2) throw wrongUsage('udf: give one model and one output (see --help)');
  const [input, output] = positionals;
  if (input === '' || output === '') throw wrongUsage('udf: the path is empty');
  if (!/^\w+$/.test(values.name)) {
    throw wrongUsage(`--name ${values.name}: expected letters, digits and _`);
  }
  const read = (/** @type {string} */ build) =>
    readFile(new URL(`../wisp-udf-${build}.wasm`, import.meta.url));
  const [model, module] = await Promise.all([convert(input), read('simd128')]);
  const { parts, sql } = udfModule(module, model);
  let bytes = Buffer.concat(parts);
  await tryOut(bytes); // Node may not have relaxed SIMD, and what else the modules do is the same
  if (values.relaxed) bytes = Buffer.concat(udfModule(await read('relaxed'), model).parts);
  const check = values.force ? undefined : onlyKind(output, 'output', 'a WebAssembly module', '\0asm'); // prettier-ignore
  await writeWhole(output, 'output', bytes, check).catch((error) => {
    throw error instanceof WispError ? error : new Complaint(EXIT.failed, error.message);
  });
  const file = output.replaceAll(/['\\]/g, '\\$&');
  await print(sql.replaceAll('{name}', values.name).replace('{file}', () => file));
  return EXIT.good;
}
