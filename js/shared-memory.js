// SPDX-License-Identifier: Apache-2.0

/** Makes the memory of a module with threads: what it begins with, and 4 GB of addresses, all that it can have. */
export const sharedMemory = () =>
  new WebAssembly.Memory({ initial: 64, maximum: 65536, shared: true });
