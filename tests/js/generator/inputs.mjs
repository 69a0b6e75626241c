// SPDX-License-Identifier: Apache-2.0
// Prompts and options of the cases of a generator. The native program gets them too.

/**
 * The output of the native program.
 * @typedef {object} Native
 * @property {string} grammar under GRAMMAR
 * @property {string} schema under SCHEMA
 * @property {{ text: string, end: string }[]} batch after PROMPTS
 * @property {{ text: string, score: number, logprob: number, tokens: number, end: string }[]} beams
 * @property {string[]} shifted after SHIFTED
 */

export const PROMPT = 'Once upon a time';

export const GRAMMAR = 'root ::= " " name " and " name "."\nname ::= "Lily" | "Tim" | "Spot"\n';

export const SCHEMA = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 8 }, age: { type: 'integer' } },
  required: ['name', 'age'],
  additionalProperties: false,
};

/** Prompts of a batch, of which each has other options. */
export const PROMPTS = [
  { prompt: PROMPT },
  { prompt: 'The cat', maxTokens: 9 },
  { prompt: 'Tim' },
  { prompt: 'Once upon a day', maxTokens: 30 },
];

export const BATCH = { maxTokens: 20, atOnce: 3 };
export const BEAMS = { beams: 3, maxTokens: 12 };

/** A text that outgrows the context of 512 tokens twice, and prompts that are longer than it. */
export const SHIFTED = [
  { prompt: PROMPT, keep: 4, maxTokens: 900 },
  { prompt: 'Tom and Ann went to the park. '.repeat(80), maxTokens: 40 },
  { prompt: 'Tom and Ann went to the park. '.repeat(80), keep: 100, maxTokens: 40 },
];

/** @type {import('../../../types/generate.js').Message[]} */
export const MESSAGES = [
  { role: 'user', content: 'Once upon a time, there was a dog named Tim.' },
  { role: 'assistant', content: 'Tim was happy.' },
  { role: 'user', content: 'He saw a "ball" \u2603.' },
];
