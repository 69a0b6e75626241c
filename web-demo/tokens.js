// SPDX-License-Identifier: Apache-2.0
// The tokens of a text, of which one is chosen, and the neurons that it needs.
import { NEURON } from '../js/cold-browser.js';
import { at } from './page.js';

/** @typedef {import('../types/index.js').ColdLayer} ColdLayer */

const percent = (/** @type {number} */ part, /** @type {number} */ whole) =>
  `${((100 * part) / whole).toFixed(0)} %`;

/** Buttons show so many letters of a word. */
const MOST_LETTERS = 14;

/** @param {Uint8Array} mask */
const countOf = (mask) => mask.reduce((sum, bit) => sum + bit, 0);

/**
 * Names the tokens of a text: words, and parts of words that have several.
 * @param {Pick<import('../js/browser.js').Embedder, 'countTokens'>} embedder
 * @param {string} text
 */
async function namesOf(embedder, text) {
  const words = text.match(/[\p{L}\p{M}\p{N}]+|[^\s\p{L}\p{M}\p{N}]/gu) ?? [];
  const [special, ...counts] = await embedder.countTokens(['', ...words]);
  const names = words.flatMap((whole, i) => {
    const parts = counts[i] - special;
    const word = whole.length > MOST_LETTERS ? `${whole.slice(0, MOST_LETTERS)}…` : whole;
    return Array.from({ length: parts }, (_, part) =>
      parts === 1 ? word : `${word} ${part + 1}/${parts}`,
    );
  });
  return ['[begin]', ...names, '[end]'];
}

/** Buttons for the tokens of a text. */
export class Tokens {
  /** The neurons of each layer. @type {ColdLayer[]} */
  #layers = [];
  #chosen = 0;
  #group;
  #onChoice;

  /** @param {HTMLElement} group @param {() => void} onChoice */
  constructor(group, onChoice) {
    this.#group = group;
    this.#onChoice = onChoice;
    group.addEventListener('click', ({ target }) => {
      const token = target instanceof HTMLElement ? target.closest('button')?.dataset.token : '';
      if (token) this.#choose(Number(token));
    });
  }

  clear() {
    this.#layers = [];
    this.#group.replaceChildren();
    at('all-share').textContent = at('one-share').textContent = '';
  }

  /**
   * Shows the tokens of a text that was just read.
   * @param {Pick<import('../js/browser.js').Embedder, 'countTokens'>} embedder
   * @param {string} text
   * @param {ColdLayer[]} layers
   */
  async show(embedder, text, layers) {
    this.#layers = layers;
    const names = await namesOf(embedder, text);
    const tokens = layers[0]?.tokens.length ?? 0;
    // A cut text has the last token at another place, and so do words that the tokenizer divides otherwise.
    const isNamed = names.length === tokens;
    this.#group.replaceChildren(
      ...Array.from({ length: tokens }, (_, i) => {
        const button = document.createElement('button');
        button.type = 'button';
        button.dataset.token = String(i);
        button.textContent = isNamed ? names[i] : `token ${i + 1}`;
        return button;
      }),
    );
    const neurons = layers.reduce((sum, layer) => sum + layer.neurons, 0);
    const needed = layers.reduce(
      (sum, { states }) =>
        sum + states.reduce((n, state) => n + (state & NEURON.needed ? 1 : 0), 0),
      0,
    );
    at('all-share').textContent = tokens > 0 ? `: ${percent(needed, neurons)}` : '';
    this.#choose(Math.min(1, tokens - 1));
  }

  /** @param {number} token */
  #choose(token) {
    this.#chosen = token;
    for (const [i, button] of [...this.#group.children].entries())
      button.setAttribute('aria-pressed', String(i === token));
    const neurons = this.#layers.reduce((sum, layer) => sum + layer.neurons, 0);
    const needed = this.#layers.reduce(
      (sum, { tokens }) => sum + (tokens[token] ? countOf(tokens[token]) : 0),
      0,
    );
    at('one-share').textContent = token >= 0 ? `: ${percent(needed, neurons)}` : '';
    this.#onChoice();
  }

  /**
   * Returns what is drawn of a layer for the chosen token.
   * @param {number} layer
   * @param {Uint8Array} states of the whole text
   */
  statesOf(layer, states) {
    const mask = this.#layers[layer]?.tokens[this.#chosen];
    const there = NEURON.here | NEURON.coming;
    return states.map((state, i) => (state & there) | (mask?.[i] ? state & ~there : 0));
  }
}
