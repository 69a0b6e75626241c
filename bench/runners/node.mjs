// SPDX-License-Identifier: Apache-2.0
// Runs a peer in Node: node node.mjs PEER --model PATH --texts FOLDER [--threads N] [--dtype TYPE] [--one-engine]
import { readFile, writeFile } from 'node:fs/promises';
import { Bench } from './measure.mjs';
import { serve, takeArguments } from './protocol.mjs';

const options = takeArguments();
const { open } = await import(`./peers/${options.peer}_node.mjs`);
const bench = new Bench(
  () => open(options),
  (workload) => readFile(`${options.texts}/${workload}.txt`, 'utf8'),
);

await serve({
  async load() {
    const { seconds, about } = await bench.load();
    return { seconds, about: { node: process.version, ...about } };
  },
  warm: ({ workload }) => bench.warm(workload),
  run: ({ workload }) => bench.run(workload),
  async embed({ workload, to }) {
    await writeFile(to, await bench.rows(workload));
    return {};
  },
});
process.exit(0);
