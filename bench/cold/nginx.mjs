// SPDX-License-Identifier: Apache-2.0
// A site of files, and an nginx of its own that serves it: apt-get install nginx-core libnginx-mod-http-brotli-static
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { copyFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const MODULE = '/usr/lib/nginx/modules/ngx_http_brotli_static_module.so';

/** Files that servers pack. Models have types of their own, which servers send as they are. */
const PACKED = ['.html', '.js', '.mjs', '.json', '.wasm'];

/**
 * Puts a file into a site, packed as for a server that packs once and with care.
 * @param {string} path
 * @param {string} place
 */
export function publish(path, place) {
  const { mtimeMs, size } = statSync(path);
  const found = existsSync(place) && statSync(place);
  if (found && found.size === size && found.mtimeMs >= mtimeMs) return;
  mkdirSync(dirname(place), { recursive: true });
  if (PACKED.includes(extname(path))) {
    const bytes = readFileSync(path);
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: 11,
      [constants.BROTLI_PARAM_LGWIN]: 24,
      [constants.BROTLI_PARAM_SIZE_HINT]: size,
    };
    writeFileSync(`${place}.br`, brotliCompressSync(bytes, { params }));
    writeFileSync(`${place}.gz`, gzipSync(bytes, { level: 9 }));
  }
  copyFileSync(path, place);
}

/** @param {string} folder @param {string} root @param {number} port */
const config = (folder, root, port) => `
${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off;
worker_processes 1;
error_log ${folder}/error.log;
pid ${folder}/pid;
load_module ${MODULE};
events { worker_connections 256; }
http {
  types {
    text/html html;
    text/javascript js mjs;
    application/json json;
    application/wasm wasm;
  }
  default_type application/octet-stream;
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 65;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port};
    root ${root};
    gzip_static on;
    brotli_static on;
    location / { add_header Cache-Control "public, max-age=31536000, immutable"; }
  }
}
`;

/**
 * Starts nginx on a free port.
 * @param {string} root
 */
export async function startNginx(root) {
  if (!existsSync(MODULE))
    throw new Error('apt-get install nginx-core libnginx-mod-http-brotli-static');
  const port = await new Promise((done) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (probe.address());
      probe.close(() => done(port));
    });
  });
  const folder = mkdtempSync(join(tmpdir(), 'wisp-nginx-'));
  writeFileSync(`${folder}/nginx.conf`, `${config(folder, root, port)}`);
  const child = spawn('/usr/sbin/nginx', ['-c', `${folder}/nginx.conf`, '-p', folder], {
    stdio: 'inherit',
  });
  for (let tries = 0; ; tries++) {
    const answer = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined);
    if (answer) break;
    if (tries === 100 || child.exitCode !== null) throw new Error('nginx does not answer');
    await new Promise((done) => setTimeout(done, 50));
  }
  return {
    port,
    version: execFileSync('/bin/sh', ['-c', '/usr/sbin/nginx -v 2>&1'], { encoding: 'utf8' })
      .trim()
      .replace('nginx version: ', ''),
    async close() {
      child.kill('SIGQUIT');
      await new Promise((done) => child.once('exit', done));
      rmSync(folder, { recursive: true });
    },
  };
}
