/** The alignment in words: which symbol was written where, for those who would rather read than look. */

import { el } from "./dom.js";
import { END, probability, spoken } from "./symbols.js";

const HEADINGS = ["Output", "Written at", "Probability"];

export class TableView {
  element;
  #caption = el("caption", { class: "visually-hidden" });
  #head = el("tr");
  #body = el("tbody");
  /** @type {import("./types.js").Frame | null} */
  #frame = null;

  constructor() {
    const table = el("table", {}, this.#caption, el("thead", {}, this.#head), this.#body);
    this.element = el(
      "details",
      { class: "table" },
      el("summary", { text: "Alignment as a table" }),
      el("div", { class: "table-scroll", tabindex: 0, role: "group", "aria-label": "Alignment table" }, table),
    );
    this.element.addEventListener("toggle", () => this.#fill());
  }

  /** @param {import("./types.js").Frame} frame */
  draw(frame) {
    this.#frame = frame;
    this.element.hidden = !frame.rows || !frame.target.length;
    this.#fill();
  }

  #fill() {
    // a closed table costs nothing, however often the frame changes
    if (!this.element.open || !this.#frame?.rows) return;
    const { target, path, delays } = this.#frame;
    const headings = delays.length ? [...HEADINGS, "Committed after"] : HEADINGS;
    this.#caption.textContent = "For each symbol of the output, the source symbol at which the best path writes it.";
    this.#head.replaceChildren(...headings.map((text) => el("th", { scope: "col", text })));
    this.#body.replaceChildren(...target.slice(0, path.length).map((symbol, j) => this.#row(symbol, j)));
  }

  #row(symbol, j) {
    const { source, path, rows, committed, delays } = this.#frame;
    const i = path[j];
    const cells = [`${spoken(source[i])} (${i + 1})`, probability(rows[i]?.[j] ?? 0)];
    if (delays.length) cells.push(j < delays.length ? `${delays[j]} read` : symbol === END ? "" : "tentative");
    const isTentative = j >= committed && symbol !== END;
    return el(
      "tr",
      { class: isTentative ? "tentative" : null },
      el("th", { scope: "row", text: spoken(symbol) }),
      ...cells.map((text) => el("td", { text })),
    );
  }
}
