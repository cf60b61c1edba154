/** The alignment grid on the screen: drawn live, explored by pointer, touch or keyboard. */

import { Axes } from "./axes.js";
import { el, setAttributes, setText, svg } from "./dom.js";
import { centre, layOut, pathOf } from "./geometry.js";
import { END, drawn, probability, spoken } from "./symbols.js";

const GAP = 1;

export class GridView {
  /** @type {HTMLElement} */
  element;
  #svg = svg("svg", { role: "grid", class: "grid" });
  #body = svg("g", { role: "presentation" });
  #marks = svg("g", { "aria-hidden": "true", class: "marks" });
  #committedLine = svg("polyline", { class: "path" });
  #tentativeLine = svg("polyline", { class: "path tentative" });
  #dots = svg("g");
  #cursor = svg("rect", { class: "cursor", rx: 3, visibility: "hidden" });
  #tip = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
  #tipWhere = el("span", {});
  #tipChance = el("strong", {});
  #tipPath = el("span", { class: "on-path", text: "on the best path" });
  /** Rows of the picture: `{group, cells}`. */
  #rows = [];
  #axes = new Axes();
  /** @type {import("./types.js").Frame | null} */
  #frame = null;
  #layout = null;
  #isSwapped = false;
  /** Row and column of the cell that the Tab key reaches. */
  #active = { row: 0, column: 0 };

  constructor() {
    this.#marks.append(this.#committedLine, this.#tentativeLine, this.#dots, this.#cursor);
    this.#svg.append(this.#body, this.#marks, this.#axes.element);
    this.#tip.append(this.#tipWhere, this.#tipChance, this.#tipPath);
    this.element = el("div", { class: "grid-scroll" }, this.#svg, this.#tip);
    this.#listen();
    let width = 0;
    new ResizeObserver(() => {
      // drawing changes the height, which is no reason to draw again
      if (width === this.element.clientWidth) return;
      width = this.element.clientWidth;
      this.#redraw();
    }).observe(this.element);
  }

  get isSwapped() {
    return this.#isSwapped;
  }

  set isSwapped(value) {
    this.#isSwapped = value;
    this.#active = { row: this.#active.column, column: this.#active.row };
    this.#redraw();
  }

  /** @param {import("./types.js").Frame} frame */
  draw(frame) {
    const before = this.#frame;
    this.#frame = frame;
    this.#redraw();
    const size = (one) => one.source.length + one.target.length;
    const hasGrown = !before || size(frame) > size(before);
    if (hasGrown && !this.#svg.contains(document.activeElement)) this.#follow();
  }

  /** Of a grid that is larger than its place, what was written last is in view. */
  #follow() {
    const { path } = this.#frame;
    if (!this.#layout || !path.length) return;
    const { x, y } = centre(this.#layout, path.at(-1), path.length - 1);
    const { clientWidth, clientHeight } = this.element;
    const margin = 2 * this.#layout.cell;
    this.element.scrollLeft = this.#layout.isMirrored ? x - margin : x + margin - clientWidth;
    this.element.scrollTop = y + margin - clientHeight;
    this.#axes.stay(this.element);
  }

  #redraw() {
    const frame = this.#frame;
    if (!frame?.rows || !this.element.clientWidth) return;
    const available = this.element.clientWidth - 4;
    const layout = layOut(frame.source, frame.target, { available, isSwapped: this.#isSwapped });
    this.#layout = layout;
    setAttributes(this.#svg, {
      width: layout.width,
      height: layout.height,
      viewBox: `0 0 ${layout.width} ${layout.height}`,
      "data-path": frame.path.join(","),
      "data-mirrored": String(layout.isMirrored),
      "aria-label": this.#summary(),
    });
    this.#svg.style.fontSize = `${layout.font}px`;
    this.#drawRows(layout);
    this.#drawPath(layout);
    this.#axes.draw(layout, (j) => this.#isTentative(j));
    this.#axes.stay(this.element);
    this.#keepActive();
    this.#restoreTip();
  }

  #drawRows(layout) {
    resize(this.#rows, layout.rowLabels.length, () => {
      const group = svg("g", { role: "row" });
      this.#body.append(group);
      return { group, cells: [], remove: () => group.remove() };
    });
    this.#rows.forEach(({ group, cells }, row) => {
      resize(cells, layout.columnLabels.length, () => {
        const cell = svg("rect", { role: "gridcell", class: "cell", tabindex: -1, rx: 2 });
        group.append(cell);
        return cell;
      });
      cells.forEach((cell, column) => this.#drawCell(cell, row, column, layout));
    });
  }

  #drawCell(cell, row, column, layout) {
    const { i, j } = this.#place(row, column);
    const p = this.#frame.rows[i]?.[j] ?? 0;
    const names = [this.#frame.source[i], this.#frame.target[j]];
    const key = [layout.x(column), layout.y(row), layout.cell, i, j, p, ...names].join();
    // most cells stay as they are from one symbol to the next
    if (cell.drawnAs === key) return;
    cell.drawnAs = key;
    setAttributes(cell, {
      x: layout.x(column) + GAP,
      y: layout.y(row) + GAP,
      width: layout.cell - 2 * GAP,
      height: layout.cell - 2 * GAP,
      "data-row": row,
      "data-column": column,
      "data-i": i,
      "data-j": j,
      "data-p": p,
      "aria-label": `${spoken(this.#frame.target[j])} at ${spoken(this.#frame.source[i])}: ${probability(p)}`,
    });
    cell.style.setProperty("--p", `${(100 * p).toFixed(1)}%`);
  }

  #drawPath(layout) {
    const { path, committed, target } = this.#frame;
    // the end symbol is as certain as what is before it
    const certain = target[target.length - 1] === END ? path.length : Math.min(committed, path.length);
    const solid = pathOf(layout, path, 0, certain);
    const faint = pathOf(layout, path, certain, path.length);
    this.#committedLine.setAttribute("points", solid.line);
    this.#tentativeLine.setAttribute("points", faint.line);
    const radius = Math.max(2, layout.cell / 10);
    const dot = (isFaint) => ({ x, y }) =>
      svg("circle", { cx: x, cy: y, r: radius, class: isFaint ? "dot tentative" : "dot" });
    this.#dots.replaceChildren(...solid.dots.map(dot(false)), ...faint.dots.map(dot(true)));
  }

  #isTentative(j) {
    return j >= this.#frame.committed && this.#frame.target[j] !== END;
  }

  #place(row, column) {
    return this.#isSwapped ? { i: column, j: row } : { i: row, j: column };
  }

  #summary() {
    const { source, target } = this.#frame;
    const [down, across] = this.#isSwapped ? ["target", "source"] : ["source", "target"];
    const words = `source ${source.map(spoken).join(" ")}; target ${target.map(spoken).join(" ")}`;
    return `Alignment grid, ${down} down and ${across} across: ${words}. Use the arrow keys to hear probabilities.`;
  }

  #listen() {
    const cellOf = (event) => (event.target.classList?.contains("cell") ? event.target : null);
    this.#svg.addEventListener("pointerover", (event) => {
      const cell = cellOf(event);
      if (cell) this.#showTip(cell);
    });
    this.#svg.addEventListener("pointerleave", () => {
      this.#restoreTip();
    });
    this.#svg.addEventListener("focusin", (event) => {
      const cell = cellOf(event);
      if (!cell) return;
      this.#activate(Number(cell.dataset.row), Number(cell.dataset.column));
      this.#showTip(cell);
    });
    this.#svg.addEventListener("focusout", () => this.#hideTip());
    this.#svg.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("scroll", () => this.#axes.stay(this.element), { passive: true });
  }

  #key(event) {
    if (event.key === "Escape") {
      this.#hideTip();
      return;
    }
    const forward = this.#layout.isMirrored ? -1 : 1;
    const { row, column } = this.#active;
    const lastColumn = this.#layout.columnLabels.length - 1;
    const moves = {
      ArrowRight: [row, column + forward],
      ArrowLeft: [row, column - forward],
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      Home: [event.ctrlKey ? 0 : row, 0],
      End: [event.ctrlKey ? this.#rows.length - 1 : row, lastColumn],
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    this.#rows[move[0]]?.cells[move[1]]?.focus({ preventScroll: true });
    this.#reveal(...move);
  }

  /** Scrolls a cell into view, out from under the labels. */
  #reveal(row, column) {
    const { cell, x, y, above, beside, isMirrored } = this.#layout;
    const [left, right] = isMirrored ? [0, beside] : [beside, 0];
    const box = this.element;
    box.scrollTop = within(box.scrollTop, y(row) + 2 * cell - box.clientHeight, y(row) - above - cell);
    box.scrollLeft = within(box.scrollLeft, x(column) + 2 * cell + right - box.clientWidth, x(column) - left - cell);
  }

  #activate(row, column) {
    this.#rows[this.#active.row]?.cells[this.#active.column]?.setAttribute("tabindex", "-1");
    this.#active = { row, column };
    this.#rows[row]?.cells[column]?.setAttribute("tabindex", "0");
  }

  /** After the grid has changed its size there is still one cell that the Tab key reaches. */
  #keepActive() {
    const row = Math.max(0, Math.min(this.#active.row, this.#rows.length - 1));
    const column = Math.max(0, Math.min(this.#active.column, this.#layout.columnLabels.length - 1));
    this.#activate(row, column);
  }

  #showTip(cell) {
    const [i, j, row, column] = ["i", "j", "row", "column"].map((name) => Number(cell.dataset[name]));
    const { source, target, path } = this.#frame;
    setText(this.#tipWhere, `${drawn(target[j])} written at ${drawn(source[i])}`);
    setText(this.#tipChance, `P = ${probability(this.#frame.rows[i]?.[j] ?? 0)}`);
    this.#tipPath.hidden = path[j] !== i;
    this.#tip.hidden = false;
    const { cell: side, x, y } = this.#layout;
    setAttributes(this.#cursor, { x: x(column), y: y(row), width: side, height: side, visibility: "visible" });
    this.#axes.point(row, column);
    this.#placeTip(x(column) + side / 2, y(row), side);
  }

  #placeTip(x, y, side) {
    const { scrollLeft, scrollTop, clientWidth } = this.element;
    const { offsetWidth, offsetHeight } = this.#tip;
    const offset = this.#svg.getBoundingClientRect().left - this.element.getBoundingClientRect().left + scrollLeft;
    const left = Math.max(scrollLeft, Math.min(offset + x - offsetWidth / 2, scrollLeft + clientWidth - offsetWidth));
    const isRoomAbove = y - scrollTop > offsetHeight + 4;
    this.#tip.style.left = `${left}px`;
    this.#tip.style.top = `${isRoomAbove ? y - offsetHeight - 6 : y + side + 6}px`;
  }

  /** Back to the cell that has the focus, if one has. */
  #restoreTip() {
    const focused = document.activeElement;
    if (focused?.classList.contains("cell") && this.#svg.contains(focused)) this.#showTip(focused);
    else this.#hideTip();
  }

  #hideTip() {
    this.#tip.hidden = true;
    this.#cursor.setAttribute("visibility", "hidden");
    this.#axes.point(null, null);
  }
}

/** The value nearest to the given one that is between two others; the lower one wins. */
function within(value, least, most) {
  return Math.max(least, Math.min(value, most));
}

/** Makes a list of elements as long as it has to be, keeping those that are there: focus and hover survive. */
function resize(list, length, make) {
  while (list.length > length) list.pop().remove();
  while (list.length < length) list.push(make());
}
