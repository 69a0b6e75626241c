// SPDX-License-Identifier: Apache-2.0
// The options of texts that are generated, as options.js has those of loading.
import { BULK_OPTIONS } from './options.js';

/**
 * An option with the name that C's errors have of it, if that is another than its own in small letters. Numbers and flags
 * go to C by their own names.
 * @typedef {import('./options.js').Option & { inC?: string }} TextOption
 */

/** @type {TextOption} */
const COUNT = { is: 'whole', least: 0, most: 2 ** 32 - 1 };
/**
 * Counts for which the library takes 0 as "not given".
 * @type {TextOption}
 */
const FROM_1 = { ...COUNT, least: 1 };
/** @type {TextOption} */
const NUMBER = { is: 'number' };
/** @type {TextOption} */
const NONZERO = { is: 'nonzero number' };
/** @type {TextOption} */
const FLAG = { is: 'flag' };

/** Options of a text. @type {Record<string, TextOption>} */
export const TEXT_OPTIONS = {
  maxTokens: FROM_1,
  temperature: NUMBER,
  temperatureLast: FLAG,
  topK: FROM_1,
  topP: NONZERO,
  minP: NUMBER,
  typicalP: NONZERO,
  repetitionPenalty: NONZERO,
  presencePenalty: NUMBER,
  frequencyPenalty: NUMBER,
  penaltyWindow: FROM_1,
  seed: { is: 'whole', least: 0, most: Number.MAX_SAFE_INTEGER },
  logprobs: COUNT,
  drafts: COUNT,
  contextShift: FLAG,
  keep: { ...COUNT, inC: 'keep_tokens' },
  logitBias: { inC: 'bias' },
  stop: {},
  stopTokens: { inC: 'stop_id' },
  grammar: { is: 'text' },
  jsonSchema: {},
};

const { signal } = BULK_OPTIONS;
/** Options of generate. */
export const GENERATE_OPTIONS = { ...TEXT_OPTIONS, signal };
/** Options of generateBatch. */
export const BATCH_OPTIONS = { ...GENERATE_OPTIONS, atOnce: COUNT };
/**
 * The options of a conversation; js/calls/conversation.js checks its messages.
 * @type {Record<string, TextOption>}
 */
export const CONVERSATION_OPTIONS = {
  format: {},
  template: { inC: 'chat_template' },
  tools: { inC: 'variables' },
  documents: { inC: 'variables' },
  variables: {},
  thinking: { ...FLAG, inC: 'no_thinking' },
  date: {},
};
/** Options of chat. @type {Record<string, TextOption>} */
export const CHAT_OPTIONS = { ...GENERATE_OPTIONS, ...CONVERSATION_OPTIONS };
/** Options of beamSearch. @type {Record<string, TextOption>} */
export const BEAM_OPTIONS = { beams: FROM_1, maxTokens: FROM_1, lengthPenalty: NUMBER, stopTokens: {}, signal }; // prettier-ignore

/** Options of detokenize. */
export const DETOKENIZE_OPTIONS = { continues: FLAG, signal };

/** Returns C's name of an option. @param {string} name */
export const nameInC = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
