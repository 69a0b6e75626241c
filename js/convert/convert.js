// SPDX-License-Identifier: Apache-2.0
// Converting a model to a GGUF file in a worker: what Node and browsers share.
import {
  NoWorkersError,
  WispError,
  cancelled,
  onAbort,
  throwIfAborted,
  unpackError,
} from '../base/errors.js';
import { checkOptions, checkString, wrong } from '../base/options.js';
import { compile } from '../calls/load.js';

/** @typedef {import('../../types/convert.js').ConvertOptions} ConvertOptions */
/** @typedef {import('../../types/internal.js').ConvertTask} ConvertTask */

const SETTINGS = [
  ...['type', 'embeddingType', 'name', 'plain', 'neurons', 'hot', 'hotBytes', 'hotTokens'],
  'sparsity',
];

const OPTIONS = [
  ...SETTINGS,
  ...['revision', 'endpoint', 'token', 'cacheDir', 'offline', 'signal', 'onProgress'],
  ...['wasm', 'worker', 'startTimeout', 'output', 'force'],
];

/** Values of each setting that is not a text, and what they are called. */
const CHECKS = {
  plain: [isBoolean, 'true or false'],
  neurons: [isBoolean, 'true or false'],
  hot: [isShare, 'a number above 0 and below 1'],
  sparsity: [isShare, 'a number above 0 and below 1'],
  hotBytes: [isCount, 'a whole number above 0'],
  hotTokens: [isCount, 'a whole number above 0'],
};

/** @param {unknown} value */
function isBoolean(value) {
  return typeof value === 'boolean';
}

/** @param {unknown} value */
function isShare(value) {
  return typeof value === 'number' && value > 0 && value < 1;
}

/** @param {unknown} value */
function isCount(value) {
  return Number.isSafeInteger(value) && Number(value) > 0;
}

/**
 * Checks the options, and returns those of wisp_convert. The module checks the names of types.
 * @param {ConvertOptions} options
 * @returns {import('../../types/convert.js').ConvertSettings}
 */
export function settingsOf(options) {
  checkOptions(options, OPTIONS);
  const given = Object.fromEntries(
    Object.entries(options).filter(
      ([name, value]) => SETTINGS.includes(name) && value !== undefined,
    ),
  );
  for (const [name, value] of Object.entries(given)) {
    const check = Object.hasOwn(CHECKS, name) && CHECKS[/** @type {'plain'} */ (name)];
    if (!check) {
      checkString(value, name);
      if (String(value).includes('\0')) throw wrong(name, 'a text with a NUL character');
    } else if (!(/** @type {any} */ (check[0])(value))) {
      throw wrong(name, `${value} is not ${check[1]}`);
    }
  }
  return given;
}

/**
 * @param {import('../../types/internal.js').Platform} platform
 * @param {() => URL} own
 * @param {any} given a module or its URL
 * @param {AbortSignal} signal
 * @returns {Promise<WebAssembly.Module>}
 */
export const moduleOf = async (platform, own, given, signal) =>
  given instanceof WebAssembly.Module ? given : compile(platform, own, { url: given }, signal);

/**
 * Runs `work` with a signal of its own, which is aborted too if a part of the work fails: then nothing goes on
 * that nobody waits for.
 * @template T
 * @param {AbortSignal | undefined} signal
 * @param {(signal: AbortSignal) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function stoppable(signal, work) {
  throwIfAborted(signal);
  const stop = new AbortController();
  const forget = signal ? onAbort(signal, () => stop.abort(signal.reason)) : () => {};
  try {
    return await work(stop.signal);
  } catch (error) {
    stop.abort(error);
    throw signal?.aborted ? cancelled(signal) : error;
  } finally {
    forget();
  }
}

/**
 * Runs a conversion in a worker of its own, which ends with it.
 * @param {import('../../types/internal.js').StartLink} start
 * @param {ConvertTask} task
 * @param {AbortSignal} signal
 * @param {ConvertOptions['onProgress']} onProgress
 * @returns {Promise<any>} what the worker's output gives
 */
export async function runTask(start, task, signal, onProgress) {
  throwIfAborted(signal);
  /** @type {() => void} */
  let forget = () => {};
  /** @type {import('../../types/internal.js').Link | undefined} */
  let link;
  try {
    return await new Promise((resolve, reject) => {
      forget = onAbort(signal, () => reject(cancelled(signal)));
      link = start({
        reply(/** @type {any} */ { type, done, total, value, error }) {
          if (type === 'done') return resolve(value);
          if (type === 'failed') return reject(unpackError(error));
          try {
            onProgress?.({ phase: 'tensors', loaded: done, total });
          } catch (thrown) {
            reject(thrown);
          }
        },
        end: reject,
      });
      link.post(task);
    });
  } catch (error) {
    throw error instanceof NoWorkersError ? noWorker(error.reason, error) : error;
  } finally {
    forget();
    await link?.stop();
  }
}

/**
 * @param {string} reason
 * @param {unknown} [cause]
 */
export const noWorker = (reason, cause) =>
  new WispError(
    'worker',
    `${reason}; a model is converted in a worker. npx wisp-engine convert makes a file that can be loaded`,
    { cause },
  );

/**
 * Makes readModel of a platform convert what is not a GGUF file, so that Embedder.load and Generator.load take it.
 * @param {import('../../types/internal.js').Platform} platform
 * @param {(source: any, options: ConvertOptions) => Promise<any>} convert
 * @param {(source: any) => boolean | Promise<boolean>} isFolder
 */
export function convertInLoad(platform, convert, isFolder) {
  const { readModel } = platform;
  platform.readModel = async (own, source, reading) => {
    if (!(await isFolder(source))) {
      try {
        return await readModel(own, source, reading);
      } catch (error) {
        const isNamed = /^hf:/.test(String(source)) && error instanceof WispError;
        // A repository without a GGUF file: see chooseFile.
        if (!isNamed || error.code !== 'unsupported' || error.field !== 'file') throw error;
      }
    }
    const { signal, progress } = reading;
    const model = await convert(source, {
      signal,
      onProgress: ({ phase, loaded, total }) => void (phase === 'files' && progress(loaded, total)),
    });
    return readModel(own, model, reading);
  };
}
