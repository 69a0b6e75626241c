// SPDX-License-Identifier: Apache-2.0
// Pictures of these benchmarks as SVG, whose colours follow the reader's light or dark setting. Draws the results of
// visit.mjs: node bench/cold/plot.mjs VISITS.json BASE
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const COLOURS = ['#4269d0', '#c8740a', '#2f8f46', '#d6453d', '#8f52d1', '#8a5a3c'];
const STYLE = `text { font: 12px system-ui, sans-serif; fill: #1f2328; } .grid { stroke: #d0d7de; } .ground { fill: #fff; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .grid { stroke: #3d444d; } .ground { fill: #0d1117; } }`;
const [WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM] = [760, 400, 60, 40, 210, 46];

/**
 * Draws lines.
 * @param {object} what
 * @param {string} what.title
 * @param {string} what.below
 * @param {{ name: string, points: [number, number][] }[]} what.lines
 * @param {boolean} [what.logarithmic] the horizontal axis
 * @param {number[]} what.xs the marks of the horizontal axis, from the least to the most
 * @param {number[]} what.ys
 */
export function lines({ title, below, lines: all, logarithmic, xs, ys }) {
  const scale = (/** @type {number} */ x) => (logarithmic ? Math.log(x) : x);
  const [least, most] = [scale(xs[0]), scale(xs[xs.length - 1])];
  const x = (/** @type {number} */ value) =>
    LEFT + ((scale(value) - least) / (most - least)) * (WIDTH - LEFT - RIGHT);
  const y = (/** @type {number} */ value) =>
    HEIGHT - BOTTOM - ((value - ys[0]) / (ys[ys.length - 1] - ys[0])) * (HEIGHT - BOTTOM - TOP);
  const parts = [
    ...ys.map((value) => `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value).toFixed(1)}" y2="${y(value).toFixed(1)}"/><text x="${LEFT - 6}" y="${(y(value) + 4).toFixed(1)}" text-anchor="end">${value}</text>`), // prettier-ignore
    ...xs.map((value) => `<text x="${x(value).toFixed(1)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${value}</text>`), // prettier-ignore
    ...all.map(({ name, points }, i) => {
      const colour = COLOURS[i % COLOURS.length];
      const dashes = i >= COLOURS.length ? ' stroke-dasharray="5 3"' : '';
      const at = points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(' ');
      const row = TOP + 18 * i;
      return `<polyline fill="none" stroke="${colour}" stroke-width="2"${dashes} points="${at}"/>
<line x1="${WIDTH - RIGHT + 12}" x2="${WIDTH - RIGHT + 34}" y1="${row}" y2="${row}" stroke="${colour}" stroke-width="2"${dashes}/><text x="${WIDTH - RIGHT + 40}" y="${row + 4}">${name}</text>`;
    }),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img">
<title>${title}</title>
<style>
${STYLE}
</style>
<rect class="ground" width="${WIDTH}" height="${HEIGHT}"/>
<text x="${LEFT}" y="22">${title}</text>
${parts.join('\n')}
<text x="${LEFT}" y="${HEIGHT - 10}">${below}</text>
</svg>
`;
}

/**
 * Draws bars, each of which has a number.
 * @param {object} what
 * @param {string} what.title
 * @param {string} what.below
 * @param {{ name: string, value: number, label: string }[]} what.bars
 * @param {{ value: number, label: string }} [what.goal] a line across
 */
function bars({ title, below, bars: all, goal }) {
  const [names, row] = [230, 24];
  const height = TOP + all.length * row + 30;
  const most = Math.max(...all.map(({ value }) => value));
  const x = (/** @type {number} */ value) => names + (value / most) * (WIDTH - names - 90);
  const parts = all.map(({ name, value, label }, i) => {
    const y = TOP + row * i;
    return `<text x="${names - 8}" y="${y + 13}" text-anchor="end">${name}</text><rect x="${names}" y="${y}" width="${(x(value) - names).toFixed(1)}" height="17" fill="${name.startsWith('wisp') ? COLOURS[0] : '#9aa4af'}"/><text x="${(x(value) + 6).toFixed(1)}" y="${y + 13}">${label}</text>`;
  });
  const mark = goal
    ? `<line x1="${x(goal.value).toFixed(1)}" x2="${x(goal.value).toFixed(1)}" y1="${TOP - 6}" y2="${height - 28}" stroke="${COLOURS[3]}" stroke-dasharray="4 3"/><text x="${(x(goal.value) + 4).toFixed(1)}" y="${TOP - 8}">${goal.label}</text>`
    : '';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img">
<title>${title}</title>
<style>
${STYLE}
</style>
<rect class="ground" width="${WIDTH}" height="${height}"/>
<text x="16" y="22">${title}</text>
${parts.join('\n')}
${mark}
<text x="16" y="${height - 8}">${below}</text>
</svg>
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [from, base] = process.argv.slice(2);
  /** @type {{ megabits: string, 'round-trip': string, browser: string, results: { name: string, peer: string, bytes: number, seconds: number }[] }} */
  const report = JSON.parse(readFileSync(from, 'utf8'));
  const { results, megabits, browser } = report;
  const peer = results.find((each) => each.peer === 'transformers');
  const goal = (/** @type {number} */ of) => ({ value: 0.4 * of, label: '0.4' });
  const below = `${megabits} Mbit/s, round trips of ${report['round-trip']} ms, ${browser}; medians`;
  const [bytes, seconds] = [peer?.bytes ?? 0, peer?.seconds ?? 0];
  writeFileSync(
    `${base}-bytes.svg`,
    bars({
      title: 'First visit: megabytes before the first embedding',
      below,
      goal: goal(bytes / 1e6),
      bars: results.map(({ name, bytes: value }) => ({
        name,
        value: value / 1e6,
        label: (value / 1e6).toFixed(1),
      })),
    }),
  );
  writeFileSync(
    `${base}-seconds.svg`,
    bars({
      title: 'First visit: seconds to the first embedding',
      below,
      goal: goal(seconds),
      bars: results.map(({ name, seconds: value }) => ({ name, value, label: value.toFixed(1) })),
    }),
  );
}
