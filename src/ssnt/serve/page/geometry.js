/** Where the parts of an alignment grid are: one layout for the screen and for the file. */

import { END, drawn, isRightToLeft } from "./symbols.js";

const LARGEST_CELL = 38;
const LEAST_CELL = 17;
const LARGEST_FONT = 16;
const LEAST_FONT = 11;
/** A rough width of a letter, in units of the font size. */
const EM = 0.62;
/** From this many symbols on the cells get smaller, as in the library's own pictures. */
const FULL_SIZE_COUNT = 14;
/** The widest label, in cells; a longer one is cut. */
const LONGEST_LABEL = 14;
const WIDE = /[\u1100-\u115f\u2e80-\u9fff\uac00-\ud7a3\uff00-\uff60]/;

/**
 * @typedef {object} Layout
 * @property {number} width
 * @property {number} height
 * @property {number} cell Side of a cell.
 * @property {number} font
 * @property {boolean} isSwapped Whether the source runs across and the target down.
 * @property {boolean} isMirrored Whether what runs across runs from right to left.
 * @property {boolean} isSlanted Whether the labels above are too wide for their columns.
 * @property {string[]} rowLabels
 * @property {string[]} columnLabels
 * @property {(column: number) => number} x Left side of a column.
 * @property {(row: number) => number} y Top of a row.
 * @property {number} beside Width of the band of row labels.
 * @property {number} above Height of the band of column labels.
 * @property {number} labelX Where the row labels are anchored.
 * @property {number} labelY Where the column labels stand.
 */

/**
 * @param {string[]} source Labels.
 * @param {string[]} target Labels.
 * @param {{available: number, isSwapped: boolean}} options `available` is the width there is.
 * @returns {Layout}
 */
export function layOut(source, target, { available, isSwapped }) {
  const [down, across] = isSwapped ? [target, source] : [source, target];
  const rowLabels = down.map(short);
  const columnLabels = across.map(short);
  const isMirrored = isRightToLeft(across);
  const count = Math.max(down.length, across.length, 1);
  const wanted = LARGEST_CELL * Math.min(1, Math.sqrt(FULL_SIZE_COUNT / count));
  const widest = longest(rowLabels);
  const besideAt = (size) => EM * size * widest + 12;
  const fitting = (available - besideAt(fontOf(wanted))) / Math.max(across.length, 1);
  const cell = Math.floor(Math.max(LEAST_CELL, Math.min(wanted, fitting)));
  const font = fontOf(cell);
  const beside = besideAt(font);
  const labelWidth = EM * font * longest(columnLabels.filter((label) => label !== END));
  const isSlanted = labelWidth > 1.15 * cell;
  const labelHeight = isSlanted ? 0.72 * labelWidth + font : 1.8 * font;
  const tail = isSlanted ? 0.72 * labelWidth : 4;
  const body = cell * across.length;
  const left = isMirrored ? tail : beside;
  return {
    width: Math.ceil(beside + body + tail),
    height: Math.ceil(labelHeight + cell * down.length + 4),
    cell,
    font,
    isSwapped,
    isMirrored,
    isSlanted,
    rowLabels,
    columnLabels,
    x: (column) => left + cell * (isMirrored ? across.length - 1 - column : column),
    y: (row) => labelHeight + cell * row,
    beside,
    above: labelHeight,
    labelX: isMirrored ? left + body + 8 : left - 8,
    labelY: labelHeight - 0.45 * font,
  };
}

/** Where the label of a column is anchored, and how it is turned. */
export function columnLabelPlace(layout, column) {
  const x = layout.x(column) + layout.cell / 2;
  // the end symbol alone is no reason to slant all labels: it gets smaller instead
  const isWide = !layout.isSlanted && layout.columnLabels[column] === END && layout.cell < 2.5 * layout.font;
  const size = isWide ? Math.max(8, Math.round(layout.cell / 2.5)) : null;
  if (!layout.isSlanted) return { x, y: layout.labelY, "text-anchor": "middle", transform: null, "font-size": size };
  const [turn, anchor] = layout.isMirrored ? [45, "end"] : [-45, "start"];
  const transform = `rotate(${turn} ${x} ${layout.labelY})`;
  return { x, y: layout.labelY, "text-anchor": anchor, transform, "font-size": null };
}

/**
 * The walk of a path: it reads on before a symbol is written, and writing leads to the next symbol.
 *
 * @param {Layout} layout
 * @param {number[]} path
 * @param {number} from The first target symbol of the piece.
 * @param {number} to The one after its last.
 * @returns {{line: string, dots: {x: number, y: number}[]}}
 */
export function pathOf(layout, path, from, to) {
  const points = [];
  const dots = [];
  let before = from > 0 ? path[from - 1] : 0;
  if (from > 0 && from < to) points.push(centre(layout, before, from - 1));
  for (let j = from; j < to; j += 1) {
    const dot = centre(layout, path[j], j);
    points.push(centre(layout, before, j), dot);
    dots.push(dot);
    before = path[j];
  }
  return { line: points.map(({ x, y }) => `${x},${y}`).join(" "), dots };
}

/** The middle of the cell of source position `i` and target symbol `j`. */
export function centre(layout, i, j) {
  const [row, column] = layout.isSwapped ? [j, i] : [i, j];
  return { x: layout.x(column) + layout.cell / 2, y: layout.y(row) + layout.cell / 2 };
}

function fontOf(cell) {
  return Math.max(LEAST_FONT, Math.min(LARGEST_FONT, Math.round(0.5 * cell)));
}

function short(symbol) {
  const label = [...drawn(symbol)];
  return label.length > LONGEST_LABEL ? `${label.slice(0, LONGEST_LABEL - 1).join("")}…` : label.join("");
}

/** Length of the longest label in letters; marks take no room, wide characters take two. */
function longest(labels) {
  const lengths = labels.map((label) => {
    const letters = [...label.replace(/\p{M}/gu, "")];
    return letters.reduce((sum, letter) => sum + (WIDE.test(letter) ? 1.7 : 1), 0);
  });
  return Math.max(1, ...lengths);
}
