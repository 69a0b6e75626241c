// SPDX-License-Identifier: Apache-2.0
// How much of the campaign runs: a sample in `make test`, more in `make test-all`, all in
// `make campaign-js`, which sets WISP_CAMPAIGN.

const CAMPAIGN = Number(process.env.WISP_CAMPAIGN ?? 0);

/**
 * The campaign's random numbers follow from WISP_SEED. Without it, tests use the same numbers each
 * time, and `make campaign-js` others each time.
 */
export const SEED = Number(process.env.WISP_SEED ?? (CAMPAIGN ? Date.now() % 2 ** 32 : 1));

if (CAMPAIGN) console.log(`WISP_SEED=${SEED}`);

/**
 * How many in `make test`, in `make test-all` and in `make campaign-js`.
 * @typedef {{ sample: number, all: number, campaign?: number }} Numbers without `campaign`, the
 *   campaign does as much as `make test-all`
 */

/**
 * Returns how many of something a test does, and says where that is not all of them.
 * WISP_CAMPAIGN=2 makes the campaign twice as long.
 * @param {string} what
 * @param {Numbers} numbers
 */
export function amount(what, { sample, all, campaign }) {
  if (CAMPAIGN && campaign) return Math.ceil(CAMPAIGN * campaign);
  if (process.env.WISP_TEST_ALL || sample === all) return all;
  console.log(`skipped: ${what}, ${all - sample} of ${all}: in make test-all`);
  return sample;
}

/**
 * Prints what a part of the campaign did.
 * @param {string} what
 * @param {Record<string, number>} counts
 */
export function report(what, counts) {
  if (!CAMPAIGN) return;
  const list = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  console.log(`${what}: ${list.join(', ')}`);
}
