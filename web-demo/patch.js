// SPDX-License-Identifier: Apache-2.0
// Makes a file of another one and of a patch, which tools/make_patch.mjs has written.

/** What the next bytes of the file are: a part of the other file, bytes of the patch, or elements at equal distances. */
export const STEP = Object.freeze({ end: 0, copy: 1, literal: 2, spread: 3 });

/**
 * @param {Uint8Array} from
 * @param {Uint8Array} patch
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function applyPatch(from, patch) {
  let at = 0;
  const number = () => {
    let [value, scale] = [0, 1];
    for (;;) {
      const byte = patch[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  };
  const made = new Uint8Array(number());
  let end = 0;
  for (;;) {
    const step = number();
    if (step === STEP.end) break;
    if (step === STEP.copy) {
      const [start, length] = [number(), number()];
      made.set(from.subarray(start, start + length), end);
      end += length;
    } else if (step === STEP.literal) {
      const length = number();
      made.set(patch.subarray(at, at + length), end);
      at += length;
      end += length;
    } else if (step === STEP.spread) {
      const [start, stride, size, count] = [number(), number(), number(), number()];
      for (let i = 0; i < count; i++)
        for (let k = 0; k < size; k++) made[end++] = from[start + i * stride + k];
    } else {
      throw new Error(`the patch has a step ${step}, which is unknown`);
    }
  }
  if (end !== made.length) throw new Error(`the patch makes ${end} bytes of ${made.length}`);
  return made;
}

/** @param {Blob} blob that gzip has compressed @returns {Promise<Uint8Array>} */
export async function decompress(blob) {
  const stream = blob.stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
