export type SparseOptions = {
    /**
     * dense: all. exact: the
     * first matrix for all, the second for those whose activation is not 0. lowrank: those that the
     * predictor of a calibrated model chooses for each token. sentence: those that it chooses for a whole
     * text. auto: lowrank with a sparsity; else, in int8, the fastest of lowrank, exact with ReLU, dense
     */
    predictor?: 'auto' | 'dense' | 'exact' | 'lowrank' | 'sentence';
    /**
     * for lowrank and sentence: the approximate share of neurons to skip,
     * from 0 to below 1. Default: the model's
     */
    sparsity?: number;
};
/**
 * Options of which neurons of the feed-forward layers are computed.
 * @typedef {object} SparseOptions
 * @property {'auto' | 'dense' | 'exact' | 'lowrank' | 'sentence'} [predictor] dense: all. exact: the
 *   first matrix for all, the second for those whose activation is not 0. lowrank: those that the
 *   predictor of a calibrated model chooses for each token. sentence: those that it chooses for a whole
 *   text. auto: lowrank with a sparsity; else, in int8, the fastest of lowrank, exact with ReLU, dense
 * @property {number} [sparsity] for lowrank and sentence: the approximate share of neurons to skip,
 *   from 0 to below 1. Default: the model's
 */
/**
 * Checks the type alone: the engine checks the values.
 * @param {SparseOptions} options
 */
export declare function checkSparse({ sparsity }: SparseOptions): void;
/**
 * Returns the predictor to use: where only a sparsity is given, that is lowrank.
 * @param {SparseOptions} options
 */
export declare function wantedPredictor({ predictor, sparsity }: SparseOptions): "auto" | "dense" | "exact" | "lowrank" | "sentence";
