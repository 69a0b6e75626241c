// SPDX-License-Identifier: Apache-2.0
// Texts shared out among engines that run side by side, each in its own worker.

/**
 * @typedef {(message: object) => Promise<any>} Ask
 */

/**
 * Indices of the texts for each of n workers: the longest first, each to the worker with the
 * fewest characters so far.
 * @param {string[]} texts
 * @param {number} n
 */
function dealOut(texts, n) {
  const order = texts.map((_, i) => i).sort((a, b) => texts[b].length - texts[a].length);
  const shares = Array.from({ length: n }, () => /** @type {number[]} */ ([]));
  const loads = shares.map(() => 0);
  for (const i of order) {
    const least = loads.indexOf(Math.min(...loads));
    shares[least].push(i);
    loads[least] += texts[i].length;
  }
  return shares.filter((share) => share.length > 0);
}

/**
 * @param {Ask[]} asks one of each worker
 * @param {object} setup the worker's first message
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function openShards(asks, setup) {
  const replies = await Promise.all(asks.map((ask) => ask(setup)));
  return {
    about: { ...replies[0].about, instances: asks.length },
    choices: () => [{}],
    async embed(texts) {
      if (asks.length === 1) return (await asks[0]({ texts })).rows;
      const shares = dealOut(texts, asks.length);
      const parts = await Promise.all(
        shares.map((share, i) => asks[i]({ texts: share.map((at) => texts[at]) })),
      );
      return gather(shares, parts, texts.length);
    },
  };
}

/**
 * @param {number[][]} shares
 * @param {{ rows: Float32Array }[]} parts
 * @param {number} n of all texts
 */
function gather(shares, parts, n) {
  const width = parts[0].rows.length / shares[0].length;
  const rows = new Float32Array(n * width);
  shares.forEach((share, s) =>
    share.forEach((at, i) =>
      rows.set(parts[s].rows.subarray(i * width, (i + 1) * width), at * width),
    ),
  );
  return rows;
}
