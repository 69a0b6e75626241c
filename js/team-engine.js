// SPDX-License-Identifier: Apache-2.0
import { Engine } from './engine.js';
import { openTeam } from './threads.js';

/** An engine whose module may share its memory with helpers, which compute with it. */
export class TeamEngine extends Engine {
  #threads = 1;
  #stopTeam = () => {};

  /**
   * @param {WebAssembly.Module} module
   * @param {import('../types/engine.js').ModelBytes} model
   * @param {import('../types/engine.js').EngineOptions & { threads?: number }} [options]
   * @param {import('./threads.js').StartHelper} [startHelper]
   * @returns {Promise<TeamEngine>}
   */
  static async open(module, model, { threads = 1, ...options } = {}, startHelper) {
    const team = await openTeam(module, model, threads, startHelper);
    if (!team) return /** @type {TeamEngine} */ (await super.open(module, model, options));
    try {
      const all = { ...options, threads: team.threads };
      const engine = /** @type {TeamEngine} */ (await super.open(module, model, all, team.imports));
      engine.#threads = engine.call((wasm) => wasm.thread_count?.() ?? 1);
      engine.#stopTeam = team.stop;
      return engine;
    } catch (error) {
      team.stop();
      throw error;
    }
  }

  /** @returns {import('./engine.js').EngineInfo & { threads: number }} */
  info() {
    return { ...super.info(), threads: this.#threads };
  }

  close() {
    this.#stopTeam();
    super.close();
  }
}
