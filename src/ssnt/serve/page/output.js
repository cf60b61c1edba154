/** The output as it grows: committed symbols solid, tentative ones faint. */

import { el, setText } from "./dom.js";
import { counted, probability } from "./symbols.js";

export class OutputView {
  element;
  #committed = el("span", { class: "committed" });
  #tentative = el("span", { class: "tentative" });
  #hint = el("span", { class: "visually-hidden" });
  #empty = el("span", { class: "empty", text: "(empty output)" });
  #text;
  #facts = el("p", { class: "facts" });

  constructor() {
    this.#text = el("p", { class: "output", dir: "auto" }, this.#committed, this.#hint, this.#tentative, this.#empty);
    this.element = el("div", { class: "output-box" }, this.#text, this.#facts);
  }

  /**
   * @param {import("./types.js").Frame} frame
   * @param {{probability: number | null, unknown: number, isLive: boolean, isWaiting: boolean}} state
   */
  draw(frame, state) {
    setText(this.#committed, frame.committedText);
    setText(this.#tentative, frame.tentativeText);
    setText(this.#hint, frame.tentativeText ? " tentative: " : "");
    this.#empty.hidden = !frame.isEnd || Boolean(frame.committedText);
    this.#text.classList.toggle("is-waiting", state.isWaiting);
    this.element.dataset.committed = frame.committedText;
    this.element.dataset.tentative = frame.tentativeText;
    setText(this.#facts, facts(frame, state).join(" · "));
  }
}

function facts(frame, { probability: chance, unknown, isLive }) {
  const words = [];
  if (frame.read || frame.isEnd) words.push(`${counted(frame.read, "symbol")} read`);
  if (isLive && frame.read) words.push(`${frame.committed} committed`);
  if (isLive && frame.isEnd && frame.delays.length) {
    const mean = frame.delays.reduce((sum, delay) => sum + delay, 0) / frame.delays.length;
    words.push(`mean delay ${mean.toFixed(1)}`);
  }
  if (frame.isEnd && chance !== null) words.push(`probability ${probability(chance)}`);
  if (unknown) words.push(`${counted(unknown, "symbol")} of the input unknown to the model`);
  return words;
}
