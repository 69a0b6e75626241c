/**
 * Estimates the number of tokens of a text, at most `most`, for dividing work. Only the workers have a
 * tokenizer, and asking them first would cost more than an uneven chunk.
 * @param {string} text
 * @param {number} most
 * @returns {number}
 */
export declare function estimateTokens(text: string, most: number): number;
