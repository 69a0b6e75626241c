// SPDX-License-Identifier: Apache-2.0

/**
 * A WebAssembly build of the engine.
 * @typedef {'simd128' | 'relaxed'} Build
 */

/**
 * A module with one function that uses i32x4.relaxed_dot_i8x16_i7x16_add_s. An environment without
 * this instruction refuses the module, as it would refuse the relaxed build.
 */
// prettier-ignore
const RELAXED_PROBE = new Uint8Array([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, // magic, version
  0x01, 0x05, 0x01, 0x60, 0x00, 0x01, 0x7b, //       type: () -> v128
  0x03, 0x02, 0x01, 0x00, //                         one function of that type
  0x0a, 0x13, 0x01, 0x11, 0x00, //                   its code
  0x41, 0x00, 0xfd, 0x0f, //                         i32.const 0, i8x16.splat
  0x41, 0x00, 0xfd, 0x0f,
  0x41, 0x00, 0xfd, 0x0f,
  0xfd, 0x93, 0x02, 0x0b, //                         the dot product, end
]);

/**
 * @returns {Build} the faster build that runs here
 */
export function pickBuild() {
  return WebAssembly.validate(RELAXED_PROBE) ? 'relaxed' : 'simd128';
}
