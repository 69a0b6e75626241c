// SPDX-License-Identifier: Apache-2.0
// Cases of texts, workers and generators that end, and of calls that wait for others to end.
import { check, inTime, pause, rejects } from '../pool/checks.mjs';
import { ENDLESS, withGenerator, works } from './env.mjs';
import { PROMPT } from './inputs.mjs';

/** @typedef {import('./env.mjs').Env} Env */

/** @type {Record<string, (env: Env) => Promise<void>>} */
export const endingCases = {
  'calls queue, and take turns': (env) =>
    withGenerator(env, async (generator) => {
      const done = /** @type {number[]} */ ([]);
      const texts = await inTime(
        Promise.all(
          [0, 1, 2, 3].map(async (i) => {
            const text = await generator.generate(PROMPT, { maxTokens: 10 + i }).text();
            done.push(i);
            return text;
          }),
        ),
      );
      check(`${done}` === '0,1,2,3', `${done}`);
      texts.forEach((text, i) => check(env.story.startsWith(text) && text !== '', `${i}: ${text}`));
      check(generator.stats().waitingTexts === 0, 'some wait');
    }),

  'aborting ends a text before, while it waits and while it is written': (env) =>
    withGenerator(env, async (generator) => {
      await rejects(
        generator.generate(PROMPT, { signal: AbortSignal.abort() }).text(),
        'cancelled',
      );
      const stop = new AbortController();
      const { signal } = stop;
      const running = generator.generate(PROMPT, { signal, ...ENDLESS });
      const waiting = generator.generate(PROMPT, { signal });
      const reading = (async () => {
        for await (const piece of running) if (piece) stop.abort(new Error('enough'));
      })();
      const error = await rejects(reading, 'cancelled');
      check(error.name === 'AbortError' && error.cause.message === 'enough', `${error.cause}`);
      await rejects(running.text(), 'cancelled');
      await rejects(waiting.text(), 'cancelled');
      const late = generator.generate(PROMPT, { signal: AbortSignal.timeout(1), ...ENDLESS });
      // A busy machine may have written it before its time is over.
      const outcome = await inTime(late.text()).catch((reason) => reason);
      check(typeof outcome === 'string' || outcome.name === 'TimeoutError', `${outcome}`);
      await works(env, generator);
      check(generator.stats().lostWorkers === 0, 'a worker was lost');
    }),

  'a reader that leaves while it waits for the first token ends the text': (env) =>
    withGenerator(env, async (generator) => {
      // So does a reader that races the next piece with a signal of its own.
      const prompt = 'a b '.repeat(100);
      for (const read of ['tokens', 'pieces']) {
        const writing = generator.generate(prompt, ENDLESS);
        const iterator = read === 'tokens' ? writing.tokens() : writing[Symbol.asyncIterator]();
        const next = iterator.next();
        await Promise.race([next, Promise.resolve()]);
        const left = await inTime(/** @type {any} */ (iterator).return('left'));
        check(left.value === 'left' && left.done, JSON.stringify(left));
        await inTime(next);
        check((await inTime(iterator.next())).done === true, 'it goes on');
        const { end, tokens } = await inTime(writing.result());
        check(end === 'caller' && tokens < 100, `${end} after ${tokens} tokens`);
      }
      const stop = new AbortController();
      const aborted = generator.generate(prompt, { ...ENDLESS, signal: stop.signal });
      const first = aborted[Symbol.asyncIterator]().next();
      const race = Promise.race([first, aborted.text()]);
      stop.abort();
      await rejects(race, 'cancelled');
      await rejects(first, 'cancelled');
      await works(env, generator);
      check(generator.stats().lostWorkers === 0, 'a worker was lost');
    }),

  'a helper that ends without a word ends the text and the other helpers': async (env) => {
    if (env.workers === 0 || !env.makeKiller) return;
    const makers = [env.makeKiller, env.makeWorker];
    const worker = () => (makers.shift() ?? env.makeWorker)();
    const generator = await inTime(env.Generator.load(env.wide, { threads: 3, worker }));
    const error = await rejects(generator.generate(PROMPT, ENDLESS).text(), 'trap');
    check(/instance failed/.test(error.message), error.message);
    const text = await inTime(generator.generate(PROMPT, { maxTokens: 5 }).text());
    check(text !== '' && generator.stats().lostWorkers === 1, text);
    await inTime(generator.destroy());
  },

  'leaving the loop ends a text': (env) =>
    withGenerator(env, async (generator) => {
      const writing = generator.generate(PROMPT, ENDLESS);
      let first = '';
      for await (const piece of writing) {
        first = piece;
        break;
      }
      const { end, text, promptTokens } = await inTime(writing.result());
      check(end === 'caller' && promptTokens === 5, `${end} ${promptTokens}`);
      check(first !== '' && text.startsWith(first), text);
      await works(env, generator);
      check(generator.stats().lostWorkers === 0, 'a worker was lost');
      // In the same thread the loop is left before the next slice, in which the text would go on.
      if (env.workers === 0) {
        const { tokens } = generator.stats();
        check(tokens < 1000, `${tokens} tokens were computed for texts of at most 600`);
      }
    }),

  'close waits, destroy rejects, and neither leaves anything': async (env) => {
    const load = () => env.Generator.load(undefined, { workers: env.workers });
    const one = await inTime(load());
    const text = one.generate(PROMPT).text();
    await inTime(one.close());
    check((await text) === env.story, 'close did not wait');
    await rejects(one.generate(PROMPT).text(), 'closed');
    const other = await inTime(load());
    const lost = rejects(other.generate(PROMPT, ENDLESS).text(), 'closed', /destroyed/);
    await inTime(other.destroy());
    await lost;
  },

  'a worker that ends fails its text, and the next call has another': async (env) => {
    if (env.workers === 0) return;
    const made = /** @type {any[]} */ ([]);
    const worker = () => {
      made.push(env.makeWorker());
      return made[made.length - 1];
    };
    const generator = await inTime(env.Generator.load(undefined, { workers: 1, worker }));
    const first = made.length; // a page makes the worker's threads, too
    const writing = generator.generate(PROMPT, ENDLESS);
    const seen = /** @type {string[]} */ ([]);
    const reading = (async () => {
      for await (const piece of writing) {
        if (seen.push(piece) === 1) env.killWorker(made[0]);
      }
    })();
    // The text may have been written to its end before the worker was.
    const error = await inTime(
      reading.then(
        () => undefined,
        (reason) => reason,
      ),
    );
    check(!error || error.code === 'worker', `${error?.code} ${error?.message}`);
    // Until then the pool may give the next text to the worker that ends.
    for (let i = 0; i < 1000 && generator.stats().lostWorkers === 0; i++) await pause(10);
    await works(env, generator);
    check(made.length === 2 * first, `${made.length} workers`);
    check(generator.stats().lostWorkers === 1, 'none was lost');
    await inTime(generator.destroy());
  },

  'an idle worker ends, and comes back with the same text': async (env) => {
    const { workers } = env;
    const generator = await inTime(env.Generator.load(undefined, { workers, idleTimeout: 20 }));
    for (let i = 0; i < 2; i++) {
      await works(env, generator);
      for (let n = 0; n < 1000 && generator.stats().workers > 0; n++) await pause(10);
      check(generator.stats().workers === 0, 'the worker stays');
    }
    check(generator.stats().lostWorkers === 0, 'it counts as lost');
    await inTime(generator.close());
  },
};
