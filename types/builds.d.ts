export type Build = 'simd128' | 'relaxed';
/**
 * @returns {Build} the faster build that runs here
 */
export declare function pickBuild(): Build;
