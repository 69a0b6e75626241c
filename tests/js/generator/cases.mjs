// SPDX-License-Identifier: Apache-2.0
// The promises of a generator, for Node and for pages: each case gets what it needs in an Env and throws
// if a promise is broken.
import { check, inTime, rejects } from '../pool/checks.mjs';
import { endingCases } from './ending-cases.mjs';
import { ENDLESS, throwsArgument, withGenerator, works } from './env.mjs';
import { BATCH, BEAMS, GRAMMAR, MESSAGES, PROMPT, PROMPTS, SCHEMA, SHIFTED } from './inputs.mjs';

/** @typedef {import('./env.mjs').Env} Env */

/** @type {Record<string, (env: Env) => Promise<void>>} */
export const cases = {
  'the text is that of the native program, whole and in pieces': (env) =>
    withGenerator(env, async (generator) => {
      const writing = generator.generate(PROMPT);
      const pieces = [];
      for await (const piece of writing) pieces.push(piece);
      check(pieces.join('') === env.story, pieces.join('|'));
      check(pieces.length > 50 && pieces.every((piece) => piece !== ''), 'it came at once');
      check((await writing.text()) === env.story, 'the whole text differs from its pieces');
      const again = [];
      for await (const piece of writing) again.push(piece);
      check(again.join('|') === pieces.join('|'), 'a second loop does not begin at the start');
      const { end, tokens, promptTokens, seconds } = await writing.result();
      check(end === 'token' && promptTokens === 5 && seconds > 0, `${end} ${promptTokens}`);
      check(tokens >= pieces.length, `${tokens} tokens, ${pieces.length} pieces`);
    }),

  'tokens have ids and log-probabilities': (env) =>
    withGenerator(env, async (generator) => {
      const tokens = [];
      const writing = generator.generate(PROMPT, { maxTokens: 12, logprobs: 3 });
      for await (const token of writing.tokens()) tokens.push(token);
      check(tokens.length === 12, `${tokens.length} tokens`);
      for (const { id, logprob = NaN, likely = [] } of tokens) {
        check(logprob <= 0 && likely.length === 3, `${logprob}`);
        check(likely[0].id === id && likely[0].logprob === logprob, 'greedy takes the likeliest');
        check(likely[1].logprob <= likely[0].logprob, 'the order');
      }
      const written = tokens.map(({ id }) => id);
      const text = await generator.detokenize(written, { continues: true });
      check(env.story.startsWith(text) && text.length > 20, text);
      const ids = await generator.tokenize(PROMPT + text);
      const logits = await generator.logits(ids);
      const { vocabularySize } = generator.info();
      check(logits.length === ids.length * vocabularySize, `${logits.length} logits`);
      // The bytes of these rows are 2,048 more than 2^32.
      const tooMany = new Int32Array((2 ** 32 + 2048) / 4 / vocabularySize);
      if (generator.info().backend === 'wasm') await rejects(generator.logits(tooMany), 'memory');
      const last = logits.subarray(4 * vocabularySize, 5 * vocabularySize);
      check(last.indexOf(Math.max(...last)) === tokens[0].id, 'logits do not give the next token');
    }),

  'a conversation gets the reply of the native program, and is read on': (env) =>
    withGenerator(env, async (generator) => {
      const options = { format: 'plain', maxTokens: 40 };
      const reply = await generator.chat(MESSAGES, options).result();
      check(reply.text === env.reply, `${reply.text} and not ${env.reply}`);
      const longer = [
        ...MESSAGES,
        { role: /** @type {const} */ ('assistant'), content: reply.text },
        { role: /** @type {const} */ ('user'), content: 'And then?' },
      ];
      const next = await generator.chat(longer, options).result();
      check(next.reusedTokens >= reply.promptTokens, `${next.reusedTokens} tokens were reused`);
      check(generator.info().chatTemplate === undefined, `${generator.info().chatTemplate}`);
      check(generator.info().cacheType === 'f32', generator.info().cacheType);
      await rejects(generator.chat(MESSAGES).text(), 'not_found', /option template, or by format/);
      await rejects(generator.chat(MESSAGES, { format: 'x' }).text(), 'argument', /chat format/);
      const [first] = MESSAGES;
      const template =
        "{{ bos_token ~ messages[0].content[0].x ~ tools[0] ~ documents[0] ~ a ~ enable_thinking ~ strftime_now('%Y') }}";
      const written = await generator
        .chat(/** @type {any} */ ([{ role: 'user', content: [{ x: 'Once\ud800 "\\ud800"' }] }]), {
          ...{ template, tools: ['b'], documents: [1.5], variables: { a: null, tools: 1 } },
          ...{ thinking: true, date: new Date(1234, 5, 6), maxTokens: 5 },
        })
        .result();
      const prompt = 'Once\ufffd "\\ud800"b1.5NoneTrue1234';
      const same = await generator.generate(prompt, { maxTokens: 5 }).result();
      check(written.text === same.text, `${written.text} and not ${same.text}`);
      const call = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>';
      const forced = { format: 'plain', grammar: `root ::= ${JSON.stringify(call)}` };
      const calling = await generator.chat(MESSAGES, { ...forced, tools: [{}] }).result();
      const [made] = /** @type {any} */ (calling.message)?.tool_calls ?? [];
      check(calling.text === call && made?.function.arguments.a === 1, JSON.stringify(calling));
      const plain = await generator.chat(MESSAGES, forced).result();
      check(plain.message === undefined, 'a call without tools');
      const refusing = { template: "\n{{ raise_exception('no') }}" };
      await rejects(generator.chat(MESSAGES, refusing).text(), 'argument', /line 2: .*: no$/);
      for (const deep of [
        '{% macro m(x) %}{% if x %}{% for y in [x] %}{{ [m(y ~ x[0])] | list }}{% endfor %}{% endif %}{% endmacro %}{{ m("a") }}',
        `{{ ${'[('.repeat(3000)} }}`,
        `{{ ${'1 + '.repeat(3000)} 1 }}`,
        '{% x %}',
      ]) {
        await rejects(generator.chat(MESSAGES, { template: deep }).text(), 'unsupported');
      }
      await rejects(
        generator.chat(MESSAGES, { format: 'plain', thinking: false }).text(),
        'argument',
      );
      throwsArgument(() => generator.chat([]), 'messages');
      throwsArgument(() => generator.chat([first, /** @type {any} */ ({})]), 'messages[1].role');
      throwsArgument(() => generator.chat([first], /** @type {any} */ ({ x: 1 })), 'x');
    }),

  'a text matches its grammar or JSON Schema, as in the native program': (env) =>
    withGenerator(env, async (generator) => {
      const named = await generator.generate(PROMPT, { grammar: GRAMMAR }).result();
      check(named.text === env.native.grammar && named.end === 'grammar', named.text);
      for (const jsonSchema of [SCHEMA, JSON.stringify(SCHEMA)]) {
        const { text } = await generator.generate(PROMPT, { jsonSchema, maxTokens: 100 }).result();
        check(text === env.native.schema, `${text} and not ${env.native.schema}`);
        check(typeof JSON.parse(text).age === 'number', text);
      }
      const short = { maxLength: 3, type: 'string' };
      const reply = generator.chat(MESSAGES, {
        format: 'plain',
        jsonSchema: short,
        temperature: 1,
      });
      check(JSON.parse(await reply.text()).length <= 3, await reply.text());
      const any = await generator.generate(PROMPT, { jsonSchema: true, maxTokens: 40 }).text();
      check(/^["{[\d\-tfn]/.test(any), any);
      for (const [options, code, field] of /** @type {[any, string, string][]} */ ([
        [{ grammar: 'root ::= (' }, 'format', 'grammar'],
        [{ grammar: 'root ::= root "a"' }, 'format', 'grammar'],
        [{ jsonSchema: '{' }, 'format', 'jsonSchema'],
        [{ jsonSchema: { type: 'x' } }, 'format', 'jsonSchema'],
        [{ jsonSchema: { $ref: 'other.json' } }, 'unsupported', 'jsonSchema'],
      ])) {
        const error = await rejects(generator.generate(PROMPT, options).text(), code);
        check(error.field === field, `${JSON.stringify(options)}: ${error.field}`);
      }
      const circle = { type: 'object', not: {} };
      circle.not = circle;
      for (const options of /** @type {any[]} */ ([
        { grammar: 1 },
        { jsonSchema: () => 1 },
        { jsonSchema: circle },
        { jsonSchema: 1n },
        { jsonSchema: {}, grammar: GRAMMAR },
      ]))
        throwsArgument(() => generator.generate(PROMPT, options), Object.keys(options)[0]);
      await works(env, generator);
    }),

  'several prompts at once have the texts of the native program': (env) =>
    withGenerator(env, async (generator) => {
      const batch = generator.generateBatch(PROMPTS, BATCH);
      const pieces = PROMPTS.map(() => '');
      for await (const { index, text } of batch) pieces[index] += text;
      const results = await batch.results();
      results.forEach(({ text, end, tokens }, i) => {
        const native = env.native.batch[i];
        check(text === native.text && end === native.end, `${i}: ${text} and not ${native.text}`);
        check(pieces[i] === text && tokens > 0, `${i}: ${pieces[i]}`);
      });
      check(`${await batch.texts()}` === `${pieces}`, 'texts differ from results');
      check(results[3].reusedTokens >= 4, 'prompts that begin alike are computed once');
      // Each text is the one that it is alone, and the seed says which.
      const drawn = { temperature: 1, maxTokens: 12 };
      const [one, two] = await generator.generateBatch([PROMPT, PROMPT], drawn).results();
      for (const { seed, text } of [one, two]) {
        const alone = await generator.generate(PROMPT, { ...drawn, seed }).text();
        check(alone === text, `${alone} and not ${text}`);
      }
      check(one.seed !== two.seed, 'texts of a batch have seeds of their own');
      const many = generator.generateBatch(Array(5).fill(PROMPT), { ...ENDLESS, atOnce: 2 });
      for await (const token of many) if (token.index === 1) break;
      const left = await inTime(many.results());
      check(
        left.every(({ end }) => end === 'caller') && left[4].tokens === 0 && left[1].tokens > 0,
        'a batch that was left went on',
      );
      check((await generator.generateBatch([]).texts()).length === 0, 'an empty batch');
      const [single] = await generator.generateBatch([PROMPT]).texts();
      check(single === env.story, single);
      const stop = new AbortController();
      const aborted = generator.generateBatch(PROMPTS, { signal: stop.signal, ...ENDLESS });
      stop.abort();
      await rejects(aborted.results(), 'cancelled');
      throwsArgument(() => generator.generateBatch(/** @type {any} */ ('x')), 'prompts');
      throwsArgument(() => generator.generateBatch([/** @type {any} */ (null)]), 'prompts[0]');
      throwsArgument(() => generator.generateBatch([PROMPT], { atOnce: -1 }), 'atOnce');
      const signaled = /** @type {any} */ ({ prompt: '', signal: stop.signal });
      throwsArgument(() => generator.generateBatch([signaled]), 'signal');
      // One that cannot be generated leaves the others alone.
      for (const bad of [
        'x'.repeat(3000),
        { prompt: PROMPT, grammar: 'root ::= "' },
        { prompt: PROMPT, stopTokens: [99999] },
        { prompt: PROMPT, topP: 2 },
      ]) {
        const batch = generator.generateBatch([PROMPT, bad, PROMPT]);
        const results = await batch.results();
        check(results[0].text === env.story && results[2].text === env.story, 'the others');
        const { end, error, tokens } = results[1];
        check(end === 'error' && tokens === 0, `${end}, ${tokens} tokens`);
        check(error instanceof Error && /format|argument/.test(error.code), String(error));
        const texts = await batch.texts().catch((/** @type {any} */ caught) => caught);
        check(texts.message === `prompts[1]: ${error?.message}`, String(texts));
        check(texts.results[2].text === env.story, 'results of the error');
        let pieces = 0;
        const read = async () => {
          for await (const { index } of batch) pieces += Number(index !== 1);
        };
        await rejects(read(), error?.code ?? '', /prompts\[1\]: /);
        check(pieces > 0, `${pieces} pieces`);
      }
      const none = await generator.generateBatch(['x'.repeat(3000), 'x'.repeat(3000)]).results();
      check(
        none.every(({ end }) => end === 'error'),
        'none',
      );
      await works(env, generator);
    }),

  'beam search finds the texts of the native program': (env) =>
    withGenerator(env, async (generator) => {
      const found = await generator.beamSearch(PROMPT, BEAMS);
      check(found.length === 3, `${found.length} texts`);
      for (const [i, { text, ids, score, logprob, end }] of found.entries()) {
        const native = env.native.beams[i];
        check(text === native.text && end === native.end, `${i}: ${text} and not ${native.text}`);
        check(ids.length === native.tokens, `${ids.length} tokens`);
        check(Math.abs(score - native.score) < 1e-3, `${score} and not ${native.score}`);
        check(Math.abs(logprob - native.logprob) < 1e-2, `${logprob} and not ${native.logprob}`);
        check(
          (await generator.detokenize(ids, { continues: true })) === text,
          'the ids are of another text',
        );
      }
      const stop = new AbortController();
      const endless = generator.beamSearch(PROMPT, { signal: stop.signal, lengthPenalty: 50 });
      stop.abort();
      await rejects(endless, 'cancelled');
      const period = (await generator.tokenize('.')).at(-1) ?? -1;
      const [best] = await generator.beamSearch(PROMPT, { stopTokens: [period], maxTokens: 40 });
      check(best.end === 'token' && !best.text.includes('.'), best.text);
      for (const [options, field] of /** @type {[any, string][]} */ ([
        [{ beams: 65 }, 'beams'],
        [{ beams: 1.5 }, 'beams'],
        [{ lengthPenalty: NaN }, 'lengthPenalty'],
        [{ lengthPenalty: '1' }, 'lengthPenalty'],
        [{ temperature: 1 }, 'temperature'],
        ...[1, '', () => {}, null].map((stopTokens) => [{ stopTokens }, 'stopTokens']),
      ])) {
        const error = await rejects(generator.beamSearch(PROMPT, options), 'argument');
        check(error.field === field, `${error.field} and not ${field}`);
      }
      await works(env, generator);
      check(generator.stats().lostWorkers === 0, 'a worker was lost');
    }),

  'a saved state lets another generator go on': (env) =>
    withGenerator(env, async (generator) => {
      const first = await generator.generate(PROMPT, { maxTokens: 20 }).result();
      const state = await generator.saveState();
      const longer = PROMPT + first.text;
      const next = await generator.generate(longer).result();
      await withGenerator(env, async (other) => {
        await other.loadState(state);
        const again = await other.generate(longer).result();
        check(again.text === next.text, `${again.text} and not ${next.text}`);
        check(again.reusedTokens >= 20, `${again.reusedTokens} tokens were reused`);
        state[state.length >> 1] ^= 1;
        await rejects(other.loadState(state), 'format', /damaged/);
        await rejects(other.loadState(new Uint8Array(9)), 'format', /not a saved state/);
        await rejects(other.loadState(/** @type {any} */ ('x')), 'argument');
        await works(env, other);
      });
    }),

  'a text that is given as text is scored as its tokens are': (env) =>
    withGenerator(env, async (generator) => {
      const ids = await generator.tokenize(PROMPT);
      const scores = await generator.score(PROMPT);
      check(`${scores}` === `${await generator.score(ids)}`, `${scores}`);
      check((await generator.score(PROMPT, { first: 3 })).length === ids.length - 3, 'first');
      const error = await rejects(generator.score(PROMPT, { first: 99 }), 'argument');
      check(error.field === 'first', error.field);
      const logits = await generator.logits(PROMPT);
      check(logits.length === ids.length * generator.info().vocabularySize, `${logits.length}`);
    }),

  'score gives the log-probabilities that tokens had': (env) =>
    withGenerator(env, async (generator) => {
      const prompt = await generator.tokenize(PROMPT);
      const written = [];
      for await (const token of generator.generate(PROMPT, { maxTokens: 9, logprobs: 1 }).tokens())
        written.push(token);
      const ids = [...prompt, ...written.map(({ id }) => id)];
      const scores = await generator.score(ids, { first: prompt.length });
      check(scores.length === 9, `${scores.length} scores`);
      written.forEach(({ logprob = NaN }, i) =>
        check(Math.abs(scores[i] - logprob) < 1e-5, `${scores[i]} and not ${logprob}`),
      );
      check((await generator.score(ids)).length === ids.length - 1, 'the first token has none');
      await rejects(generator.score(ids, { first: 0 }), 'argument');
    }),

  'options: maxTokens, stop, stopTokens, logitBias, seed': (env) =>
    withGenerator(env, async (generator) => {
      const few = await generator.generate(PROMPT, { maxTokens: 7 }).result();
      check(few.end === 'length' && few.tokens === 7 && env.story.startsWith(few.text), few.text);
      const name = await generator.generate(PROMPT, { stop: ['nowhere', ' Lily'] }).result();
      check(name.end === 'stop' && name.text.endsWith('named'), name.text);
      let comma = -1;
      for await (const { id } of generator.generate(PROMPT).tokens()) {
        comma = id;
        break;
      }
      const { text, end } = await generator
        .generate(PROMPT, { logitBias: { [comma]: -Infinity }, maxTokens: 7 })
        .result();
      check(end === 'length' && !text.includes(','), text);
      const logitBias = new Map([[comma, -Infinity]]);
      const mapped = await generator.generate(PROMPT, { logitBias, maxTokens: 7 }).text();
      check(mapped === text, `a Map: ${mapped}`);
      const drawn = { temperature: 1, topK: 40, topP: 0.95, minP: 0.01, maxTokens: 60 };
      const one = await generator.generate(PROMPT, drawn).result();
      const same = await generator.generate(PROMPT, { ...drawn, seed: one.seed }).result();
      const other = await generator.generate(PROMPT, { ...drawn, seed: one.seed + 1 }).result();
      check(one.text === same.text && one.text !== other.text, 'seeds');
      const period = (await generator.tokenize('.')).at(-1) ?? -1;
      const sentence = await generator.generate(PROMPT, { stopTokens: [period] }).result();
      check(sentence.end === 'token' && !sentence.text.includes('.'), sentence.text);
    }),

  'contextShift lets texts and prompts outgrow the context, as in the native program': (env) =>
    withGenerator(env, async (generator) => {
      const shift = { logitBias: { 1: -Infinity, 2: -Infinity }, contextShift: true };
      for (const [i, { prompt, ...options }] of SHIFTED.entries()) {
        const { text, end, tokens, promptTokens, droppedTokens } = await generator
          .generate(prompt, { ...shift, ...options })
          .result();
        check(text === env.native.shifted[i], `${i}: ${text} and not ${env.native.shifted[i]}`);
        check(end === 'length' && tokens === options.maxTokens, `${i}: ${end} after ${tokens}`);
        check(promptTokens <= 512 && droppedTokens > 250, `${i}: ${droppedTokens} were dropped`);
      }
      const batch = generator.generateBatch(
        [...SHIFTED, { prompt: 'a', contextShift: false }],
        shift,
      );
      const results = await batch.results();
      results.slice(0, -1).forEach(({ text }, i) => {
        check(text === env.native.shifted[i], `${i}, in a batch: ${text}`);
      });
      check(results[3].end === 'context' && results[3].droppedTokens === 0, results[3].end);
      // Only the reader ends it.
      let tokens = 0;
      for await (const { text } of generator.generate(PROMPT, shift).tokens()) {
        check(text !== undefined, 'no text');
        if (++tokens === 600) break;
      }
      check(tokens === 600, `${tokens} tokens`);
      // The first token of every text stays too, and two of 512 are left to others.
      const [, , { prompt }] = SHIFTED;
      const most = { ...shift, keep: 509, maxTokens: 2 };
      check((await generator.generate(prompt, most).result()).tokens === 2, 'keep: 509');
      for (const keep of [510, 2 ** 32 - 1]) {
        const wanted = generator.generate(prompt, { ...shift, keep });
        const error = await rejects(wanted.text(), 'argument', /^model: keep: \d+ tokens stay/);
        check(error.field === 'keep', error.field);
      }
      await rejects(generator.generate(prompt, { keep: 0 }).text(), 'argument', /context has 512/);
      throwsArgument(() => generator.generate(PROMPT, { keep: 4 }), 'keep');
      throwsArgument(() => generator.generate(PROMPT, { contextShift: true, keep: 0.5 }), 'keep');
      const beams = generator.beamSearch(PROMPT, /** @type {any} */ ({ contextShift: true }));
      check((await rejects(beams, 'argument')).field === 'contextShift', 'beams');
      await works(env, generator);
    }),

  'a text has the same bits on any number of threads': async (env) => {
    if (env.workers === 0) return;
    const prompt = Array.from({ length: 99 }, (_, i) => 'abcdefghij'[(i * i) % 10]).join(' ');
    const texts = /** @type {string[]} */ ([]);
    for (const threads of [1, 2, 3]) {
      const generator = await inTime(env.Generator.load(env.wide, { threads }));
      const { threads: found } = generator.info();
      check(found === (env.shared ? threads : 1), `${found} threads`);
      texts.push(await inTime(generator.generate(prompt, { maxTokens: 24 }).text()));
      // Leaves a text in the middle of its prompt and of a token, unless the machine is too busy.
      const left = generator.generate(`z ${prompt}`, { signal: AbortSignal.timeout(3) });
      const outcome = await inTime(left.text()).catch((reason) => reason);
      check(typeof outcome === 'string' || outcome.name === 'TimeoutError', `${outcome}`);
      texts.push(await inTime(generator.generate(prompt, { maxTokens: 24 }).text()));
      await inTime(generator.close());
    }
    check(texts[0].length > 20, texts[0]);
    texts.forEach((text, i) => check(text === texts[0], `${i}: ${text} and not ${texts[0]}`));
    for (const threads of [0, 9, 1.5]) {
      const error = await rejects(env.Generator.load(undefined, { threads }), 'argument');
      check(error.field === 'threads', error.field);
    }
  },

  'wrong options throw, and a wrong prompt rejects': (env) =>
    withGenerator(env, async (generator) => {
      const generate = (/** @type {any} */ options, /** @type {any} */ prompt = PROMPT) =>
        generator.generate(prompt, options);
      throwsArgument(() => generate({}, 1), 'prompt');
      throwsArgument(() => generate(null), 'options');
      throwsArgument(() => generate({ threads: 2 }), 'threads');
      throwsArgument(() => generate({ maxTokens: 1.5 }), 'maxTokens');
      throwsArgument(() => generate({ topK: -1 }), 'topK');
      throwsArgument(() => generate({ temperature: 'hot' }), 'temperature');
      throwsArgument(() => generate({ stop: [''] }), 'stop');
      throwsArgument(() => generate({ stop: 1 }), 'stop');
      throwsArgument(() => generate({ stopTokens: [0.5] }), 'stopTokens[0]');
      for (const stopTokens of ['', () => {}, null])
        throwsArgument(() => generate({ stopTokens }), 'stopTokens');
      throwsArgument(() => generate({ logitBias: { x: 1 } }), 'logitBias');
      for (const field of ['temperatureLast', 'contextShift'])
        for (const value of [null, 'false', 0, {}])
          throwsArgument(() => generate({ [field]: value }), field);
      for (const logitBias of [null, new Set([1]), [1], [[1, 1]], { '': 1 }, { 1: '1' }, 'x'])
        throwsArgument(() => generate({ logitBias }), 'logitBias');
      for (const logitBias of [new Map([[1.5, 1]]), new Map([[1, '1']]), new Map([['x', 1]])])
        throwsArgument(() => generate({ logitBias }), 'logitBias');
      throwsArgument(() => generate({ signal: {} }), 'signal');
      const other = Object.create(null);
      for (const value of [1n, Symbol('s'), other, '5', []]) {
        throwsArgument(() => generate({ topK: value }), 'topK');
        throwsArgument(() => generate({ temperature: value }), 'temperature');
        throwsArgument(() => generate({ stopTokens: [value] }), 'stopTokens[0]');
        throwsArgument(() => generate({ logitBias: { 1: value } }), 'logitBias');
      }
      const batch = (/** @type {any} */ prompts, /** @type {any} */ options = {}) =>
        generator.generateBatch(prompts, options);
      throwsArgument(() => batch([PROMPT], null), 'options');
      throwsArgument(() => batch([, PROMPT]), 'prompts[0]'); // eslint-disable-line no-sparse-arrays
      const chat = (/** @type {any} */ messages, /** @type {any} */ options = {}) =>
        generator.chat(messages, options);
      const message = { role: 'user', content: 'a' };
      throwsArgument(() => chat([message, , message]), 'messages[1].role'); // eslint-disable-line no-sparse-arrays
      throwsArgument(() => chat([{ role: 'user', content: 1n }]), 'messages');
      throwsArgument(() => chat([message], { template: 1 }), 'template');
      throwsArgument(() => chat([message], { variables: [] }), 'variables');
      throwsArgument(() => chat([message], { date: 1 }), 'date');
      throwsArgument(() => chat([message], { format: 'plain\0' }), 'format');
      throwsArgument(() => chat([message], { thinking: 'no' }), 'thinking');
      for (const [options, field] of /** @type {[any, string][]} */ ([
        [{ topP: 2 }, 'topP'],
        [{ temperature: -1 }, 'temperature'],
        [{ logitBias: { 1: NaN } }, 'logitBias'],
        [{ logitBias: { 99999: 1 } }, 'logitBias'],
      ])) {
        const { field: found } = await rejects(generate(options).text(), 'argument');
        check(found === field, `${found} and not ${field}`);
      }
      const long = await rejects(generate({}, 'x'.repeat(3000)).text(), 'argument', /context/);
      check(long.field === 'prompt', long.field);
      await rejects(generator.score([5]), 'argument', /^first: 1, but there are 1 tokens/);
      await rejects(generator.logits([99999]), 'argument', /512 tokens/);
      await rejects(generator.logits(/** @type {any} */ ({})), 'argument');
      const gone = new Uint8Array(8);
      structuredClone(gone, { transfer: [gone.buffer] });
      await rejects(generator.loadState(gone), 'argument', /^state: not a Uint8Array/);
      await works(env, generator);
    }),

  'a model of the wrong kind is a typed error': async (env) => {
    // Modules that generate do not open models that embed. Native code does: they fail when they are to write.
    const write = async () => {
      const generator = await env.Generator.load(env.encoder, { workers: env.workers });
      return generator.generate(PROMPT).text().finally(() => generator.close()); // prettier-ignore
    };
    await rejects(inTime(write()), 'unsupported', /architecture bert/);
    await rejects(
      env.Embedder.load(env.decoder, { workers: env.workers }),
      'unsupported',
      /architecture llama are not supported/,
    );
  },

  ...endingCases,
};
