/* SPDX-License-Identifier: Apache-2.0
 * The addon's functions of engines that generate text, which js/native/native-text-engine.js calls.
 */
#ifndef WISP_NODE_GENERATE_H
#define WISP_NODE_GENERATE_H

#include <node_api.h>

/* Adds the functions to the addon's exports. */
napi_status define_generate(napi_env env, napi_value exports);

#endif
