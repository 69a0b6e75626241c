// SPDX-License-Identifier: Apache-2.0
// Serves the files of this checkout, for the demo page.
//
//   node tools/serve.mjs [--port N] [--isolated]
import { parseArgs } from 'node:util';
import { serve } from '../js/program/serve.js';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '8080' },
    isolated: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(`usage: node tools/serve.mjs [--port N] [--isolated]

  --port N     8080 unless given; 0: any that is free
  --isolated   send the headers (COOP, COEP) that give pages shared memory`);
} else {
  try {
    const { origin } = await serve({ port: Number(values.port), isolated: values.isolated });
    console.log(`${origin}/web-demo/${values.isolated ? '  (cross-origin isolated)' : ''}`);
  } catch (error) {
    console.error(`serve: ${/** @type {Error} */ (error).message}`);
    process.exitCode = 1;
  }
}
