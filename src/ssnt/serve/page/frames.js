/** Frames: what is shown at each moment of a reading, made from the service's answers. */

import { END } from "./symbols.js";

/** More moments than this are not kept: a replay of thousands of steps is of no use, and memory stays bounded. */
const MOST_FRAMES = 1000;

/** @type {import("./types.js").Frame} */
export const NOTHING = Object.freeze({
  read: 0,
  isEnd: false,
  source: [],
  target: [],
  committed: 0,
  committedText: "",
  tentativeText: "",
  rows: [],
  path: [],
  delays: [],
});

/** Where a frame stands in the reading: frames of several models are lined up by it. */
export function moment(frame) {
  return frame.read + (frame.isEnd ? 0.5 : 0);
}

/** Puts the updates of one stream together: they say only what is new. */
export class Recording {
  /** @type {import("./types.js").Frame[]} */
  frames = [NOTHING];
  /** Whether some moments were left out for being too many. */
  isPartial = false;
  #rows = [];
  #symbols = [];

  get last() {
    return this.frames[this.frames.length - 1];
  }

  /** @param {object} update A message of type `update` or `end`. @returns {import("./types.js").Frame} */
  add(update) {
    const before = this.last;
    const isEnd = update.type === "end";
    this.#symbols = [...this.#symbols, ...update.symbols];
    const frame = {
      ...NOTHING,
      read: update.read,
      isEnd,
      committed: this.#symbols.length,
      committedText: before.committedText + update.committed,
      tentativeText: update.tentative,
      delays: [...before.delays, ...update.delays],
      ...this.#lattice(update, isEnd),
    };
    // the last character waits for the next one: an update that has read nothing more replaces the one before
    if (moment(frame) === moment(before)) this.frames.pop();
    else if (this.frames.length >= MOST_FRAMES) {
      this.frames.pop();
      this.isPartial = true;
    }
    this.frames.push(frame);
    return frame;
  }

  #lattice({ lattice, tentative_symbols }, isEnd) {
    if (!lattice) return { rows: null };
    // rows are replaced and never changed, so frames may share them
    this.#rows = [...this.#rows.slice(0, lattice.first), ...lattice.rows];
    const source = isEnd ? [...lattice.source_symbols, END] : lattice.source_symbols;
    const symbols = [...this.#symbols, ...tentative_symbols];
    const target = lattice.path.length > symbols.length ? [...symbols, END] : symbols;
    return { rows: this.#rows, source, target, path: lattice.path };
  }
}

/**
 * The frame of a whole output, as a search or an alignment gives it.
 *
 * @param {{source_symbols: string[], symbols: string[], text: string, alignment: number[] | null,
 *     posteriors: number[][] | null, delays?: number[]}} output
 * @param {number} mostCells Of how many cells a grid is drawn.
 * @returns {import("./types.js").Frame}
 */
export function wholeFrame({ source_symbols, symbols, text, alignment, posteriors, delays = [] }, mostCells) {
  const source = [...source_symbols, END];
  const path = alignment ?? [];
  const target = path.length > symbols.length ? [...symbols, END] : symbols;
  const canDraw = alignment && source.length * target.length <= mostCells;
  return {
    read: source_symbols.length,
    isEnd: true,
    source,
    target,
    committed: symbols.length,
    committedText: text,
    tentativeText: "",
    rows: canDraw ? transposed(posteriors, alignment, source.length) : null,
    path,
    delays,
  };
}

/** The service has a row for each target symbol there, the page one for each source symbol. */
function transposed(posteriors, alignment, length) {
  const at = posteriors ? (i, j) => posteriors[j][i] : (i, j) => (alignment[j] === i ? 1 : 0);
  return Array.from({ length }, (_, i) => alignment.map((_, j) => at(i, j)));
}

/**
 * How a model that has seen everything walks its path: after each source symbol, what is written up to there.
 *
 * @param {import("./types.js").Frame} whole
 * @param {string} separator What stands between symbols in the text.
 * @returns {import("./types.js").Frame[]}
 */
export function walk(whole, separator) {
  const symbols = whole.target.slice(0, whole.committed);
  const frames = [];
  for (let read = 0; read < whole.source.length; read += 1) {
    const count = symbols.filter((_, j) => whole.path[j] < read).length;
    const reached = whole.path.filter((i) => i < read);
    frames.push({
      ...whole,
      read,
      isEnd: false,
      source: whole.source.slice(0, read),
      target: whole.target.slice(0, reached.length),
      committed: count,
      committedText: symbols.slice(0, count).join(separator),
      rows: whole.rows && whole.rows.slice(0, read).map((row) => row.slice(0, reached.length)),
      path: reached,
    });
  }
  return [...frames, whole];
}
