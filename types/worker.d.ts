// SPDX-License-Identifier: Apache-2.0
// The script of a worker, which exports nothing.
export {};
