/** The labels of a grid on the screen: they stay in view while the grid scrolls below them. */

import { setAttributes, setText, svg } from "./dom.js";
import { columnLabelPlace } from "./geometry.js";

export class Axes {
  /** Each cell says its symbols itself, so these are for the eye only. */
  element = svg("g", { "aria-hidden": "true", class: "axes" });
  #across = svg("g");
  #down = svg("g");
  #acrossBand = svg("rect", { class: "band", x: 0, y: 0 });
  #downBand = svg("rect", { class: "band", y: 0 });
  #corner = svg("rect", { class: "band", y: 0 });
  #columns = [];
  #rows = [];
  #layout = null;

  constructor() {
    this.#across.append(this.#acrossBand);
    this.#down.append(this.#downBand);
    this.element.append(this.#across, this.#down, this.#corner);
  }

  /**
   * @param {import("./geometry.js").Layout} layout
   * @param {(j: number) => boolean} isTentative Whether a target symbol may still change.
   */
  draw(layout, isTentative) {
    this.#layout = layout;
    const sideX = layout.isMirrored ? layout.width - layout.beside : 0;
    setAttributes(this.#acrossBand, { width: layout.width, height: layout.above - 2 });
    setAttributes(this.#downBand, { x: sideX, width: layout.beside - 2, height: layout.height });
    setAttributes(this.#corner, { x: sideX, width: layout.beside - 2, height: layout.above - 2 });
    resize(this.#columns, layout.columnLabels.length, this.#across);
    this.#columns.forEach((label, column) => {
      setText(label, layout.columnLabels[column]);
      setAttributes(label, columnLabelPlace(layout, column));
      label.setAttribute("class", !layout.isSwapped && isTentative(column) ? "column-label tentative" : "column-label");
    });
    resize(this.#rows, layout.rowLabels.length, this.#down);
    this.#rows.forEach((label, row) => {
      setText(label, layout.rowLabels[row]);
      setAttributes(label, {
        x: layout.labelX,
        y: layout.y(row) + layout.cell / 2,
        "text-anchor": layout.isMirrored ? "start" : "end",
        "dominant-baseline": "central",
        class: layout.isSwapped && isTentative(row) ? "row-label tentative" : "row-label",
      });
    });
  }

  /** @param {HTMLElement} box What scrolls. */
  stay(box) {
    if (!this.#layout) return;
    const { isMirrored, width } = this.#layout;
    const x = isMirrored ? Math.min(0, box.scrollLeft + box.clientWidth - width) : box.scrollLeft;
    this.#across.setAttribute("transform", `translate(0 ${box.scrollTop})`);
    this.#down.setAttribute("transform", `translate(${x} 0)`);
    this.#corner.setAttribute("transform", `translate(${x} ${box.scrollTop})`);
  }

  /** Makes the labels of one cell stand out; null for none. */
  point(row, column) {
    this.#columns.forEach((label, at) => label.classList.toggle("pointed", at === column));
    this.#rows.forEach((label, at) => label.classList.toggle("pointed", at === row));
  }
}

function resize(labels, length, group) {
  while (labels.length > length) labels.pop().remove();
  while (labels.length < length) {
    const label = svg("text");
    group.append(label);
    labels.push(label);
  }
}
