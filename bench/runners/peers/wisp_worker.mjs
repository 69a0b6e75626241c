// SPDX-License-Identifier: Apache-2.0
// One wisp engine in a worker: first { module, model, compute }, then { texts }.
import { Engine } from '../../../js/engine.js';
import { answerWith } from './ask.mjs';

/** @type {Engine} */
let engine;

answerWith(async ({ module, model, compute, texts }) => {
  if (texts) return { rows: engine.embed(texts) };
  engine = await Engine.open(module, model, { compute });
  return { about: aboutEngine(engine) };
});

/** @param {Engine} engine */
function aboutEngine(engine) {
  const { build, kernels, compute } = engine.info();
  return { wisp: build, kernels, compute };
}
