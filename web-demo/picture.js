// SPDX-License-Identifier: Apache-2.0
// Draws neurons and files. Colour says where a neuron is, and size whether the last text used it.
import { NEURON } from '../js/cold-browser.js';

/** A neuron takes a square of so many pixels of CSS, by the width of the picture. */
const WIDE_CELL = 5;
const NARROW_CELL = 4;
const NARROW = 400;

const FILE_HEIGHT = 28;

/** @typedef {{ hot: string, fetched: string, coming: string, absent: string, skipped: string, ground: string }} Colours */

/** @returns {Colours} the colours of the style sheet, which depend on the user's scheme */
export function coloursOf(/** @type {Element} */ element) {
  const style = getComputedStyle(element);
  const names = ['hot', 'fetched', 'coming', 'absent', 'skipped', 'ground'];
  const pairs = names.map((name) => [name, style.getPropertyValue(`--${name}`)]);
  return Object.fromEntries(pairs);
}

/**
 * Prepares a canvas whose coordinates are pixels of CSS.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
function prepare(canvas, width, height) {
  const scale = devicePixelRatio;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.height = `${height}px`;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * Draws the neurons of a layer, in the order of the file.
 * @param {HTMLCanvasElement} canvas
 * @param {import('../types/index.js').ColdLayer} layer
 * @param {Colours} colours
 */
export function drawLayer(canvas, { neurons, hot, states }, colours) {
  const width = canvas.clientWidth;
  const cell = width < NARROW ? NARROW_CELL : WIDE_CELL;
  const columns = Math.max(1, Math.floor(width / cell));
  const context = prepare(canvas, width, Math.ceil(neurons / columns) * cell);
  const [large, small] = [cell - 1, Math.ceil(cell / 3)];
  const middle = (large - small) / 2;
  states.forEach((state, i) => {
    const x = (i % columns) * cell;
    const y = Math.floor(i / columns) * cell;
    const isUsed = (state & NEURON.needed) !== 0;
    if (state & NEURON.skipped) {
      // A cross: what the text went without.
      context.strokeStyle = colours.skipped;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(x + large, y + large);
      context.moveTo(x + large, y);
      context.lineTo(x, y + large);
      context.stroke();
    } else if (state & NEURON.here) {
      context.fillStyle = i < hot ? colours.hot : colours.fetched;
      const [at, size] = isUsed ? [0, large] : [middle, small];
      context.fillRect(x + at, y + at, size, size);
    } else {
      const isComing = (state & NEURON.coming) !== 0;
      context.strokeStyle = isComing || isUsed ? colours.coming : colours.absent;
      const [at, size] = isComing || isUsed ? [0.5, large - 1] : [middle, small - 0.5];
      context.strokeRect(x + at, y + at, size, size);
    }
  });
}

/**
 * Draws a file from its first byte to its last: what it opened from, what was fetched since, what is on its way.
 * @param {HTMLCanvasElement} canvas
 * @param {{ size: number, hot: number, absent: [number, number][], coming: [number, number][] }} file
 * @param {Colours} colours
 */
export function drawFile(canvas, { size, hot, absent, coming }, colours) {
  const width = canvas.clientWidth;
  const context = prepare(canvas, width, FILE_HEIGHT);
  /** @param {string} colour @param {number} from @param {number} to */
  const fill = (colour, from, to) => {
    context.fillStyle = colour;
    const x = (from / size) * width;
    context.fillRect(x, 0, Math.max((to / size) * width - x, 0.5), FILE_HEIGHT);
  };
  fill(colours.fetched, hot, size);
  fill(colours.hot, 0, hot);
  for (const [from, to] of absent) fill(colours.ground, from, to);
  for (const [from, to] of coming) {
    for (const [start, end] of absent) {
      if (start < to && from < end) fill(colours.coming, Math.max(start, from), Math.min(end, to));
    }
  }
  context.strokeStyle = colours.absent;
  context.strokeRect(0.5, 0.5, width - 1, FILE_HEIGHT - 1);
}
