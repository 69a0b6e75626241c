// SPDX-License-Identifier: Apache-2.0
import { Engine } from './engine.js';
import { openTeam } from './threads.js';

/** An engine whose module may share its memory with helpers, which compute with it. */
export class TeamEngine extends Engine {
  #threads = 1;
  /** Why it has fewer threads than were asked for. @type {string | undefined} */
  #missing;
  #stopTeam = () => {};

  /**
   * @param {WebAssembly.Module} module
   * @param {import('../../types/engine.js').ModelBytes} model
   * @param {import('../../types/engine.js').EngineOptions & { threads?: number }} [options]
   * @param {import('./threads.js').StartHelper} [startHelper]
   * @returns {Promise<TeamEngine>}
   */
  static async open(module, model, { threads = 1, ...options } = {}, startHelper) {
    const team = await openTeam(module, model, threads, startHelper);
    const { threads: started = 1, missing = 'the module shares no memory' } = team ?? {};
    try {
      const all = team ? { ...options, threads: started } : options;
      const opened = await super.open(module, model, all, team?.imports);
      const engine = /** @type {TeamEngine} */ (opened);
      engine.#threads = engine.call((wasm) => wasm.thread_count?.() ?? 1);
      if (started < threads)
        engine.#missing = `${started} of ${threads} threads started: ${missing}`;
      if (team) engine.#stopTeam = team.stop;
      return engine;
    } catch (error) {
      team?.stop();
      throw error;
    }
  }

  /** @returns {import('../../types/internal.js').TeamInfo} */
  info() {
    const reasons = this.#missing && { reasons: { threads: this.#missing } };
    return { ...super.info(), threads: this.#threads, ...reasons };
  }

  close() {
    this.#stopTeam();
    super.close();
  }
}
