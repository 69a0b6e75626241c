// SPDX-License-Identifier: Apache-2.0
// A registry of npm that has the package of this checkout, so that `npm install wisp-engine` runs as in the guides.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { ROOT } from '../support.mjs';

/**
 * @param {string} folder where the package is written, as `npm`, and packed
 * @returns {Promise<{ origin: string, close: () => void }>}
 */
export async function serveRegistry(folder) {
  execFileSync(process.execPath, [`${ROOT}tools/pack.mjs`, join(folder, 'npm')]);
  const args = ['pack', '--silent', '--json', '--pack-destination', folder];
  const out = execFileSync('npm', args, { cwd: join(folder, 'npm'), encoding: 'utf8' });
  const [{ filename, integrity }] = JSON.parse(out.replace(/^[^]*?(?=^\[)/m, ''));
  const manifest = JSON.parse(readFileSync(join(folder, 'npm/package.json'), 'utf8'));
  const { name, version } = manifest;
  let origin = '';
  const server = createServer(({ url }, response) => {
    if (url === `/${filename}`) return void response.end(readFileSync(join(folder, filename)));
    if (url !== `/${name}`) return void response.writeHead(404).end('{}');
    const dist = { tarball: `${origin}/${filename}`, integrity };
    const versions = { [version]: { ...manifest, dist } };
    response.end(JSON.stringify({ name, 'dist-tags': { latest: version }, versions }));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  origin = `http://127.0.0.1:${port}`;
  return { origin, close: () => void server.close() };
}
