// SPDX-License-Identifier: Apache-2.0
// Finds the addon for Node: native code of the same C sources, in a package of its own for each platform.
import { createRequire } from 'node:module';
import { WispError } from '../base/errors.js';
import { VERSION } from '../base/version.js';

/** @typedef {import('../../types/addon.js').Addon} Addon */
/** @typedef {(threaded: boolean) => import('../../types/internal.js').StartLink} StartNative */

/**
 * An addon that computes instead of a module, if there is one, and the reason for the choice.
 * @typedef {object} Native
 * @property {string} reason
 * @property {unknown} [addon] what takes the module's place in requests
 * @property {StartNative} [start]
 * @property {string} [build] the reason for this build
 */

/** The packages for this platform. On Linux, npm installs that for the machine's C library. */
export const PACKAGES = (process.platform === 'linux' ? ['-gnu', '-musl'] : ['']).map(
  (library) => `@wisp-engine/${process.platform}-${process.arch}${library}`,
);

/**
 * Returns the addon, or why WebAssembly computes instead.
 * @param {import('../calls/load.js').LoadOptions} options
 * @param {StartNative} [start] starts members that compute with it
 * @returns {Native}
 */
export function findAddon(options, start) {
  const { backend = 'auto', kernels, addon: path } = options;
  if (backend === 'wasm') return { reason: 'asked for' };
  const found = forModule(options) ?? (path === undefined ? installed() : loadAddon(path));
  const { addon, reason } = found;
  if (!addon && (backend === 'native' || path !== undefined)) {
    const field = path === undefined ? 'backend' : 'addon';
    throw new WispError('unsupported', `${field}: ${reason}`, { field });
  }
  if (!addon) return { reason };
  if (backend !== 'native' && kernels !== undefined && !addon.kernels.includes(kernels)) {
    return { reason: `native code has no kernel set '${kernels}' here` };
  }
  return { addon, reason, start, build: 'the addon is for this machine' };
}

/**
 * Returns the reason why the options need a module.
 * @param {import('../calls/load.js').LoadOptions} options
 * @returns {Found | undefined}
 */
function forModule({ wasm, worker, integrity }) {
  const name =
    (wasm !== undefined && 'wasm') ||
    (worker !== undefined && 'worker') ||
    (integrity?.wasm !== undefined && 'integrity.wasm');
  return name ? { reason: `the option ${name} is for WebAssembly` } : undefined;
}

/** @typedef {{ addon?: Addon, reason: string }} Found */

/** @returns {Found} */
function installed() {
  const reasons = [];
  for (const name of PACKAGES) {
    const found = loadAddon(name);
    if (found.addon) return found;
    reasons.push(found.reason);
  }
  return { reason: reasons.join('; ') };
}

/** @type {Map<string, Found>} */
const known = new Map();

/**
 * Loads an addon.
 * @param {string} name of a package, or a path
 * @returns {Found}
 */
export function loadAddon(name) {
  const found = known.get(name) ?? attempt(name);
  if (found.addon) known.set(name, found);
  return found;
}

/**
 * @param {string} name
 * @returns {Found}
 */
function attempt(name) {
  try {
    // A bundler that follows require() would look for packages of all platforms.
    const addon = /** @type {Addon} */ (createRequire(import.meta.url)(name));
    if (typeof addon.create !== 'function') return { reason: `${name} is not an addon of wisp` };
    if (addon.version === VERSION) return { addon, reason: `${name} ${VERSION}` };
    return { reason: `${name} is of version ${addon.version}, and this is ${VERSION}` };
  } catch (error) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
    const missing = code === 'MODULE_NOT_FOUND';
    return {
      reason: missing ? `${name} is not installed` : `${name} cannot be loaded: ${message}`,
    };
  }
}
