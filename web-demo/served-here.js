// SPDX-License-Identifier: Apache-2.0
// A file that the page has made, served to itself: requests for its address are answered as a server would, also in parts.

/** Files are told apart by this, as by the ETag of a server. */
let made = 0;

/**
 * Does what fetch does for one file.
 * @param {Blob} file
 * @returns {(...request: Parameters<typeof globalThis.fetch>) => Promise<Response>}
 */
export function serveBlob(file) {
  const tag = `"made-here-${++made}"`;
  return async (_, init) => {
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(new Headers(init?.headers).get('range') ?? '') ?? []; // prettier-ignore
    const headers = { ETag: tag, 'Content-Type': 'application/octet-stream' };
    if (from === undefined) return new Response(file, { headers });
    const [start, end] = [Number(from), Math.min(to ? Number(to) + 1 : file.size, file.size)];
    if (start >= file.size) {
      return new Response(null, {
        status: 416,
        headers: { 'Content-Range': `bytes */${file.size}` },
      });
    }
    const range = `bytes ${start}-${end - 1}/${file.size}`;
    return new Response(file.slice(start, end), {
      status: 206,
      headers: { ...headers, 'Content-Length': String(end - start), 'Content-Range': range },
    });
  };
}
