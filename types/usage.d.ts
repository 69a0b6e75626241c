export type EngineStats = import('./engine.js').EngineStats;
export type Totals = Omit<EngineStats, 'workspaceBytes'>;
/** @typedef {Omit<EngineStats, 'workspaceBytes'>} Totals */
/** @returns {Totals} */
export declare function noTotals(): Totals;
/**
 * @param {Totals} totals
 * @param {Totals | undefined} more
 */
export declare function addTotals(totals: Totals, more: Totals | undefined): void;
