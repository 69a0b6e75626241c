// SPDX-License-Identifier: Apache-2.0
// The files of the package, which are beside its scripts.
import { WispError } from '../base/errors.js';

/** The line to write if wisp's files are not beside the script that holds its code. */
export const REMEDY =
  'wisp looks for its files beside its own script. Copy the folders js and models of wisp-engine ' +
  "to your site and write load(undefined, { files: '/that/folder/' }), or leave " +
  'wisp-engine out of the bundle; docs/compat.md has the line for each bundler';

/**
 * Returns the address that `make` gives, which contains `new URL('./name', import.meta.url)`, as
 * bundlers expect it.
 *
 * Vite's development server (5 to 7) bundles packages into node_modules/.vite/deps, but leaves the
 * files beside them if they were: in node_modules.
 * @param {() => URL} make
 */
export function ownFile(make) {
  try {
    return unmoved(make());
  } catch (cause) {
    const { message } = /** @type {Error} */ (cause);
    throw new WispError(
      'unsupported',
      `this bundle is not an ES module and has no address of its own (${message}). ${REMEDY}`,
      { cause },
    );
  }
}

/**
 * Turbopack gives something like a URL, with a relative address.
 * @param {URL} url
 */
function unmoved({ href }) {
  return absolute(
    href.replace(
      /\/\.vite\/(deps|models)\//,
      (_, folder) => `/wisp-engine/${folder === 'deps' ? 'js' : folder}/`,
    ),
  );
}

/** @param {string | URL} url */
const absolute = (url) => new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href);

/**
 * Adds to an error of reading one of wisp's own files what to do about it.
 * @template T
 * @param {Promise<T>} reading
 * @param {boolean} own
 * @returns {Promise<T>}
 */
export async function orRemedy(reading, own) {
  try {
    return await reading;
  } catch (cause) {
    const isMissing =
      cause instanceof WispError && /^(not_found|format|unsupported)$/.test(cause.code);
    if (own && isMissing && cause.field !== 'integrity') {
      const { code, message, field } = cause;
      throw new WispError(code, `${message}. ${REMEDY}`, { field, cause });
    }
    throw cause;
  }
}

/**
 * Returns an address as this page or script reads it.
 * @param {string | URL} url
 * @param {string} field the option that it was given as
 */
export function resolve(url, field) {
  try {
    return absolute(url);
  } catch (cause) {
    throw new WispError('argument', `${field}: '${url}' is not a URL`, { field, cause });
  }
}
