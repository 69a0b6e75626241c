// SPDX-License-Identifier: Apache-2.0

/** That of package.json. */
export const VERSION = '0.2.0';
