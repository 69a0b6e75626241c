// SPDX-License-Identifier: Apache-2.0
// Pictures of weights: how the values of a tensor are distributed, and what types cost.

const SVG = 'http://www.w3.org/2000/svg';

const HISTOGRAM_HEIGHT = 8;

const CHART = { width: 480, height: 300, left: 52, right: 56, top: 12, bottom: 34 };
const LABEL_HEIGHT = 11;
const LETTER_WIDTH = 7;
const RADIUS = 5;
/** Between a point and its name. */
const GAP = 8;

/** @param {string} name @param {Record<string, string | number>} attributes @param {(Element | string)[]} children */
function element(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/**
 * Returns the picture of a tensor's values.
 * @param {{ name: string, bins: number[], least: number, most: number }} tensor
 */
export function histogramOf({ name, bins, least, most }) {
  const largest = Math.max(...bins, 1);
  const bars = bins.map((n, i) => {
    const height = n === 0 ? 0 : Math.max(0.3, (HISTOGRAM_HEIGHT * n) / largest);
    return `M${i} ${HISTOGRAM_HEIGHT}v${-height}h0.9v${height}z`;
  });
  const picture = element(
    'svg',
    { viewBox: `0 0 ${bins.length} ${HISTOGRAM_HEIGHT}`, preserveAspectRatio: 'none', role: 'img' },
    element('path', { d: bars.join('') }),
  );
  picture.setAttribute('aria-label', `${name}: from ${least.toPrecision(3)} to ${most.toPrecision(3)}`); // prettier-ignore
  return picture;
}

/**
 * Draws types by their bits a weight, and by their loss: 1 less the cosine, in powers of ten.
 * @param {HTMLElement} figure
 * @param {{ type: string, bits: number, cosine: number }[]} costs
 * @param {string} chosen a type
 */
export function drawCosts(figure, costs, chosen) {
  const { width, height, left, right, top, bottom } = CHART;
  const leastLoss = 1e-7;
  const decades = -Math.log10(leastLoss);
  const mostBits = Math.max(...costs.map(({ bits }) => bits), 8);
  const x = (/** @type {number} */ bits) => left + ((width - left - right) * bits) / mostBits;
  const y = (/** @type {number} */ loss) =>
    top - ((height - top - bottom) * Math.log10(Math.max(loss, leastLoss))) / decades;
  const rules = Array.from({ length: decades + 1 }, (_, power) => [
    element('path', { class: 'rule', d: `M${left} ${y(10 ** -power)}H${width - right}` }),
    element(
      'text',
      { x: left - 6, y: y(10 ** -power) + 4, 'text-anchor': 'end' },
      power === 0 ? '1' : `10${superscript(-power)}`,
    ),
  ]);
  const ticks = [2, 4, 6, 8, 10, 12, 14, 16].filter((bits) => bits <= mostBits);
  const axis = ticks.map((bits) =>
    element('text', { x: x(bits), y: height - bottom + 16, 'text-anchor': 'middle' }, String(bits)),
  );
  const names = [
    element('text', { x: width - right, y: height - 4, 'text-anchor': 'end' }, 'bits a weight'),
    element('text', { x: left + 4, y: top + 12 }, '1 - cosine'),
  ];
  const picture = element(
    'svg',
    { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-labelledby': 'chart-text' },
    ...rules.flat(),
    ...axis,
    ...names,
    ...pointsOf(
      costs.map(({ type, bits, cosine }) => ({ type, x: x(bits), y: y(1 - cosine) })),
      chosen,
    ),
  );
  figure.querySelector('svg')?.remove();
  figure.prepend(picture);
}

/** @typedef {{ left: number, right: number, top: number, bottom: number }} Box */

/** @param {Box} a @param {Box} b */
const overlap = (a, b) =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/** How far a name is moved up or down from its point, the first first. */
const SHIFTS = [0, ...Array.from({ length: 12 }, (_, i) => [11 * (i + 1), -11 * (i + 1)]).flat()];

/**
 * Returns points with their names, which lie on no point and on no other name; a line leads to those that had to move.
 * @param {{ type: string, x: number, y: number }[]} points
 * @param {string} chosen
 */
function pointsOf(points, chosen) {
  /** @type {Box[]} */
  const taken = points.map(({ x, y }) => ({
    left: x - RADIUS,
    right: x + RADIUS,
    top: y - RADIUS,
    bottom: y + RADIUS,
  }));
  const isFree = (/** @type {Box} */ box) =>
    box.right < CHART.width && box.top > 0 && box.bottom < CHART.height - CHART.bottom && !taken.some((other) => overlap(box, other)); // prettier-ignore
  return [...points]
    .sort((a, b) => a.y - b.y)
    .map(({ type, x, y }) => {
      const wide = LETTER_WIDTH * type.length;
      const places = SHIFTS.flatMap((shift) => {
        const [top, bottom] = [y + shift - LABEL_HEIGHT / 2, y + shift + LABEL_HEIGHT / 2];
        return [
          { left: x + GAP, right: x + GAP + wide, top, bottom, shift },
          { left: x - GAP - wide, right: x - GAP, top, bottom, shift },
        ];
      });
      const place = places.find(isFree) ?? places[0];
      taken.push(place);
      const near = place.left > x ? place.left - 1 : place.right + 1;
      const line = element('path', { class: 'rule', d: `M${x} ${y}L${near} ${y + place.shift}` });
      return element(
        'g',
        type === chosen ? { class: 'chosen' } : {},
        ...(place.shift === 0 ? [] : [line]),
        element('circle', { class: 'point', cx: x, cy: y, r: type === chosen ? RADIUS : 3.5 }),
        element('text', { x: place.left, y: y + place.shift + 4 }, type),
      );
    });
}

/** @param {number} power */
const superscript = (power) =>
  String(power).replace(/./g, (digit) => (digit === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(digit)]));
