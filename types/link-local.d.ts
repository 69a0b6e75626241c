/** @type {import('./member.js').StartLink} */
export declare const startLocal: import('./member.js').StartLink;
