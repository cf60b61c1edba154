/** The most probable outputs with their probabilities; choosing one shows how it aligns. */

import { el, newId, setText } from "./dom.js";
import { probability } from "./symbols.js";

export class NbestView {
  element;
  #list = el("ol", { class: "nbest-list" });
  #name = newId("nbest");
  #onChoose;
  /** What is shown, to leave the choice alone while nothing changes. */
  #key = "";

  /** @param {(index: number) => void} onChoose */
  constructor(onChoose) {
    this.#onChoose = onChoose;
    this.element = el(
      "fieldset",
      { class: "nbest", hidden: true },
      el("legend", { text: "Most probable outputs" }),
      this.#list,
    );
    this.#list.addEventListener("change", (event) => this.#onChoose(Number(event.target.value)));
  }

  /** @param {import("./types.js").Alternative[]} alternatives Best first. */
  draw(alternatives) {
    const key = JSON.stringify(alternatives.map(({ text, probability: chance }) => [text, chance]));
    if (key === this.#key) return;
    this.#key = key;
    this.element.hidden = alternatives.length === 0;
    this.#list.replaceChildren(...alternatives.map((one, index) => this.#line(one, index)));
  }

  /** Chooses a line without telling anyone. */
  choose(index) {
    const radio = this.#list.querySelectorAll("input")[index];
    if (radio) radio.checked = true;
  }

  #line({ text, probability: chance }, index) {
    const radio = el("input", { type: "radio", name: this.#name, value: index, class: "visually-hidden" });
    radio.checked = index === 0;
    const bar = el("span", { class: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--p", `${(100 * (chance ?? 0)).toFixed(2)}%`);
    const word = el("span", { class: "word", dir: "auto" });
    setText(word, text || "(empty)");
    const number = el("span", { class: "chance", text: probability(chance) });
    return el(
      "li",
      { "data-text": text, "data-probability": chance ?? "" },
      el("label", {}, radio, bar, word, number),
    );
  }
}
