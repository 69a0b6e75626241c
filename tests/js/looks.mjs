// SPDX-License-Identifier: Apache-2.0
// How the pages of web-demo/ have to look: what tests run in a page.

/** The contrast that WCAG 2 demands of text that is not large. */
const LEAST_CONTRAST = 4.5;

/** And of the borders of what one can use. */
const LEAST_BORDER_CONTRAST = 3;
export const CONTRASTS = { text: LEAST_CONTRAST, border: LEAST_BORDER_CONTRAST };

/**
 * Runs in the page. Returns texts, and borders of what one can use, whose contrast with what is behind them is
 * too low.
 * @param {{ text: number, border: number }} least
 */
export function findFaint(least) {
  /** @param {string} color */
  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  /** @param {number[]} rgb */
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  /** @param {Element | null} element @returns {number[]} */
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const [r, g, b, a = 1] = channels(getComputedStyle(element).backgroundColor);
    return a > 0 ? [r, g, b] : behind(element.parentElement);
  };
  /** @param {string} color @param {Element | null} ground */
  const contrast = (color, ground) => {
    const pair = [channels(color).slice(0, 3), behind(ground)].map(luminance);
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  };
  return [...document.querySelectorAll('body *')].flatMap((element) => {
    if (!element.checkVisibility()) return [];
    const faint = [];
    const style = getComputedStyle(element);
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.nodeValue?.trim()); // prettier-ignore
    const text = hasText ? contrast(style.color, element) : Infinity;
    if (text < least.text) faint.push(`${element.textContent}: ${text.toFixed(2)}`);
    if (
      element.matches('button, input, select, textarea') &&
      parseFloat(style.borderTopWidth) > 0
    ) {
      const border = contrast(style.borderTopColor, element.parentElement);
      if (border < least.border) faint.push(`the border of ${element.id}: ${border.toFixed(2)}`);
    }
    return faint;
  });
}

/** Runs in the page. Returns buttons that are too small for a finger. */
export function findSmallTargets() {
  return [...document.querySelectorAll('button')]
    .filter((button) => button.checkVisibility())
    .map((button) => ({ name: button.textContent, ...button.getBoundingClientRect().toJSON() }))
    .filter(({ width, height }) => width < 40 || height < 40);
}
