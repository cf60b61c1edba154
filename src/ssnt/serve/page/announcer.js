/** Says what has happened to those who cannot see it: seldom, and only what has come to rest. */

import { setText } from "./dom.js";

const QUIET = 900;

export class Announcer {
  #region;
  #timer = null;
  /** What each source has to say; only its latest words are said. @type {Map<object, string>} */
  #waiting = new Map();

  /** @param {HTMLElement} region An element with `aria-live=polite`. */
  constructor(region) {
    this.#region = region;
  }

  /** @param {object} source Who speaks. @param {string} words */
  say(source, words) {
    this.#waiting.set(source, words);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#speak(), QUIET);
  }

  /** Takes back what has not been said yet. */
  hush(source) {
    this.#waiting.delete(source);
  }

  #speak() {
    const words = [...this.#waiting.values()].filter(Boolean).join(" ");
    this.#waiting.clear();
    if (words) setText(this.#region, words);
  }
}
