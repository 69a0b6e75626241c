// SPDX-License-Identifier: Apache-2.0
// chunk, in Node and in pages: limits, borders, offsets, overlap.
import { chunk } from '../../../js/text.js';
import { graphemes, sentences, words } from '../../../js/text/segments.js';
import { check, inTime, rejects } from '../pool/checks.mjs';

const ENGLISH =
  'Water finds its level. A river does not ask; it flows! Does it sleep? "Never," said the cat. ' +
  'The dog, who had slept all day, agreed.\nA line of its own\n\n  And a last one.  ';
const GERMAN = 'Donaudampfschifffahrtsgesellschaftskapitän trinkt Öl. '.repeat(4);
const CHINESE = '水往低处流。河流不问路。它睡觉吗？从不！'.repeat(6);
const EMOJI = '👩‍👩‍👧‍👦 family 🇩🇪 flag e\u0301 accent. '.repeat(8);
const BROKEN = 'a \ud800 lone \udc00 surrogate\ud83d. \0 and a zero. '.repeat(5);
const LONG = `${'word '.repeat(300)}end. Next. ${'x'.repeat(500)} ${'ab'.repeat(40)} end.`;
const TEXTS = [ENGLISH.repeat(5), GERMAN, CHINESE, EMOJI, BROKEN, LONG, '   \n\n ', '.', 'a'];

/**
 * Checks what holds for all chunks of a text.
 * @param {any} embedder
 * @param {string} text
 * @param {{ tokens?: number, overlap?: number }} options
 */
async function checked(embedder, text, options) {
  const { tokens = embedder.info().maxTokens, overlap = 0 } = options;
  const chunks = await inTime(chunk(embedder, text, options));
  const special = await embedder.countTokens('');
  const counts = await embedder.countTokens(chunks.map((each) => each.text));
  const laps = await embedder.countTokens(
    chunks.map(({ start }, i) => text.slice(start, chunks[i - 1]?.end ?? 0)),
  );
  let end = 0;
  for (const [i, each] of chunks.entries()) {
    const name = `chunk ${i} of ${JSON.stringify(text.slice(0, 20))}, ${JSON.stringify(options)}`;
    check(each.text === text.slice(each.start, each.end), `${name}: offsets`);
    check(each.tokens === counts[i] && each.tokens <= tokens, `${name}: ${counts[i]} tokens`);
    check(each.end > end, `${name}: nothing new`);
    check(overlap ? each.start <= end : each.start === end, `${name}: from ${each.start}, ${end}`);
    const lap = laps[i] - special;
    check(lap <= overlap, `${name}: an overlap of ${lap}`);
    // No character is cut.
    const cut = /[\ud800-\udbff]$/.test(each.text) && /^[\udc00-\udfff]/.test(text.slice(each.end));
    check(!cut, `${name}: a cut pair`);
    end = each.end;
  }
  check(end === text.length, `${text.length - end} units of ${text.slice(0, 20)} are lost`);
  return chunks;
}

/** @param {any} env @param {(embedder: any) => Promise<void>} body */
async function withOne({ Embedder, model }, body) {
  const embedder = await Embedder.load(model, { workers: 2 });
  try {
    await body(embedder);
  } finally {
    await embedder.close();
  }
}

/** @type {Record<string, (env: { Embedder: typeof import('../../../js/node.js').Embedder, model: any }) => Promise<void>>} */
export const chunkCases = {
  'chunks keep within their tokens and are the whole text, with and without Intl.Segmenter': (
    env,
  ) =>
    withOne(env, async (embedder) => {
      const intl = /** @type {any} */ (Intl);
      const { Segmenter } = intl;
      const special = await embedder.countTokens('');
      for (const segmenter of [Segmenter, undefined]) {
        intl.Segmenter = segmenter;
        try {
          for (const text of TEXTS) {
            for (const tokens of [special + 4, 12, 32]) {
              for (const overlap of [0, 1, tokens - special - 1]) {
                await checked(embedder, text, { tokens, overlap });
              }
            }
            await checked(embedder, text, {});
          }
        } finally {
          intl.Segmenter = Segmenter;
        }
      }
      check((await chunk(embedder, '')).length === 0, 'chunks of an empty text');
    }),

  'long texts are divided in windows, into the parts of the whole': () => {
    const intl = /** @type {any} */ (Intl);
    const { Segmenter } = intl;
    if (!Segmenter) return Promise.resolve();
    let longest = 0;
    class Watched extends Segmenter {
      /** @param {string} text */
      segment(text) {
        longest = Math.max(longest, text.length);
        return super.segment(text);
      }
    }
    // Sentences end at other places of a window each time, and "v. 1." ends none if a small letter follows.
    const prose = ENGLISH.repeat(60) + 'v. 1. 2. (3) '.repeat(400) + 'go on. Next.\r\n'.repeat(300);
    const texts = [prose, EMOJI.repeat(120), BROKEN.repeat(90)];
    const kinds = /** @type {const} */ ([
      ['sentence', sentences],
      ['word', words],
      ['grapheme', graphemes],
    ]);
    try {
      intl.Segmenter = Watched;
      for (const [granularity, divide] of kinds) {
        for (const text of [...texts, 'x'.repeat(20000)]) {
          const whole = [...new Segmenter(undefined, { granularity }).segment(text)];
          longest = 0;
          const parts = [...divide(text)];
          const name = `${granularity} of ${JSON.stringify(text.slice(0, 20))}`;
          const differs = parts.findIndex((part, i) => part !== whole[i]?.segment);
          check(differs < 0 && parts.length === whole.length, `${name}: part ${differs}`);
          const isOne = whole.length === 1;
          check(isOne || longest < 20000, `${name}: ${longest} units at a time`);
        }
      }
    } finally {
      intl.Segmenter = Segmenter;
    }
    return Promise.resolve();
  },

  'borders are those of sentences, and an overlap is of whole sentences': (env) =>
    withOne(env, async (embedder) => {
      const intl = /** @type {any} */ (Intl);
      const { Segmenter } = intl;
      const parts = ['One two. ', 'Three four. ', 'Five six. ', 'Seven eight. ', 'Nine ten.'];
      const text = parts.join('');
      const counts = /** @type {number[]} */ (await embedder.countTokens(parts));
      const special = await embedder.countTokens('');
      const two = Math.max(...counts.slice(1).map((n, i) => n + counts[i] - special));
      for (const segmenter of [Segmenter, undefined]) {
        intl.Segmenter = segmenter;
        try {
          const plain = await checked(embedder, text, { tokens: two });
          const starts = parts.map((_, i) => parts.slice(0, i).join('').length);
          check(
            plain.every(({ start }) => starts.includes(start)),
            `chunks begin at ${plain.map(({ start }) => start)}`,
          );
          check(plain.length < parts.length, 'one chunk for each sentence');
          const overlap = Math.max(...counts) - special;
          const lapping = await checked(embedder, text, { tokens: two + overlap, overlap });
          check(
            lapping
              .slice(1)
              .every(({ start }, i) => start < lapping[i].end && starts.includes(start)),
            `no overlap: ${JSON.stringify(lapping)}`,
          );
        } finally {
          intl.Segmenter = Segmenter;
        }
      }
    }),

  'a chunk whose tokens are more than the sum of its parts is made shorter': async () => {
    // Here "!" beside another sentence costs three tokens more; specials are 2.
    const count = (/** @type {string} */ text) =>
      2 + text.split(/\s+/).filter(Boolean).length + 3 * (text.match(/! \S/g)?.length ?? 0);
    const embedder = /** @type {any} */ ({
      info: () => ({ maxTokens: 8 }),
      countTokens: async (/** @type {any} */ texts) =>
        typeof texts === 'string' ? count(texts) : texts.map(count),
    });
    const text = 'A b! C d! E f. G h. I j! K l! M n o p q r. ';
    for (const overlap of [0, 2, 5]) await checked(embedder, text, { tokens: 8, overlap });
  },

  'what cannot be done is refused': (env) =>
    withOne(env, async (embedder) => {
      const special = await embedder.countTokens('');
      for (const text of /** @type {any[]} */ ([undefined, null, 7, ['a']])) {
        await rejects(chunk(embedder, text), 'argument', /text/);
      }
      for (const options of /** @type {any[]} */ ([
        null,
        { size: 3 },
        { tokens: special },
        { tokens: 8.5 },
        { tokens: '8' },
        { tokens: null },
        { overlap: -1 },
        { tokens: 8, overlap: 8 - special },
        { overlap: Symbol('s') },
        { locale: 'no language' },
        { locale: 7 },
        { locale: null },
        { signal: 3 },
      ])) {
        await rejects(chunk(embedder, 'a b', options), 'argument');
      }
      await rejects(chunk(/** @type {any} */ (null), 'a'), 'argument', /embedder/);
      await rejects(chunk(embedder, 'a', { signal: AbortSignal.abort() }), 'cancelled');
      await embedder.close();
      await rejects(chunk(embedder, 'a'), 'closed');
    }),
};
