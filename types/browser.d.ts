import { BaseEmbedder } from './embedder.js';
export { WispError } from './errors.js';
export { Rows } from './rows.js';
/** A model that embeds texts. */
export declare class Embedder extends BaseEmbedder {
    /**
     * Loads a model and starts the workers.
     * @param {import('./source.js').ModelSource} [source] the model that comes with the package
     *   unless given
     * @param {import('./embedder.js').LoadOptions} [options]
     * @returns {Promise<Embedder>}
     */
    static load(source?: import('./source.js').ModelSource, options?: import('./embedder.js').LoadOptions): Promise<Embedder>;
}
