// SPDX-License-Identifier: Apache-2.0
// The token embeddings of texts that no worker has yet. A worker that waits for bytes has time to say which ones these
// texts need, and they come meanwhile.
import { EmbedJob } from '../calls/job.js';

/** @typedef {import('../../types/protocol.js').AheadTexts} AheadTexts */

/**
 * A worker is asked about texts of so many characters at a time, which takes it some milliseconds, and about so many
 * texts that no worker has.
 */
const LETTERS = 1 << 17;
const TEXTS = 2048;

/** A call sorts at most so many texts at once (js/calls/job.js): before those, workers have all. */
const SORTED = 1024;

/** The texts of calls that wait: hooks of their pool. */
export class Ahead {
  /** Calls, each with the place of its first text that no worker was asked about. @type {Map<EmbedJob, { at: number, prompt?: string }>} */
  #jobs = new Map();
  /** Aborted when no call waits for texts any more. */
  #stop = new AbortController();

  /** @param {import('../calls/job.js').Job} job */
  submitted(job) {
    if (!(job instanceof EmbedJob) || job.type !== 'embed') return;
    this.#jobs.set(job, { at: 0, prompt: job.options.prompt });
    const forget = () => this.#forget(job);
    job.promise.then(forget, forget);
  }

  /** @param {EmbedJob} job */
  #forget(job) {
    this.#jobs.delete(job);
    if (this.#jobs.size > 0) return;
    this.#stop.abort();
    this.#stop = new AbortController();
  }

  /** Is aborted when the calls that now wait have ended. */
  get signal() {
    return this.#stop.signal;
  }

  /** Returns the next texts to ask a worker about, each once. */
  next() {
    /** @type {AheadTexts[]} */
    const parts = [];
    let letters = 0;
    for (const [job, state] of this.#jobs) {
      const { texts, waiting } = job;
      // Texts are taken in about their order.
      const taken = texts.length - waiting;
      const first = (state.at = Math.max(state.at, taken - SORTED));
      const end = Math.min(texts.length, taken + TEXTS);
      if (waiting === 0) continue;
      while (state.at < end && letters < LETTERS) letters += texts[state.at++].length;
      if (first < state.at) parts.push({ texts: texts.slice(first, state.at), prompt: state.prompt }); // prettier-ignore
    }
    return parts;
  }
}
