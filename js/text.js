// SPDX-License-Identifier: Apache-2.0
// wisp-engine/text: streams of texts, and chunks of long ones. An embedder is given to each function, so
// that pages which only embed load nothing of this.
export { chunk } from './text/chunk.js';
export { WispError } from './base/errors.js';
export { embedStream } from './text/stream.js';
