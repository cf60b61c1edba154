/** The alignment as an SVG file that stands on its own, in the colours of the library's pictures. */

import { svg } from "./dom.js";
import { columnLabelPlace, layOut, pathOf } from "./geometry.js";

const EMPTY = [0xf2, 0xf2, 0xf2];
const FULL = [0x08, 0x51, 0x9c];
const PATH = "#dc143c";
const MARGIN = 12;
const WIDTH = 900;

/**
 * @param {import("./types.js").Frame} frame
 * @param {string} title
 * @param {boolean} isSwapped
 * @returns {string} The file's content.
 */
export function svgFile(frame, title, isSwapped) {
  const layout = layOut(frame.source, frame.target, { available: WIDTH, isSwapped });
  const width = layout.width + 2 * MARGIN;
  const height = layout.height + 2 * MARGIN;
  const picture = svg("svg", {
    width,
    height,
    viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`,
    "font-family": "system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif",
    "font-size": layout.font,
  });
  picture.append(
    svg("title", { text: title }),
    svg("rect", { x: -MARGIN, y: -MARGIN, width, height, fill: "#ffffff" }),
    ...cells(frame, layout),
    ...labels(layout),
    ...path(frame, layout),
  );
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(picture)}\n`;
}

/** Hands a file to the user. */
export function save(content, name) {
  const url = URL.createObjectURL(new Blob([content], { type: "image/svg+xml" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // the browser needs the address until it has begun to write
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A file name out of words: what file systems dislike becomes a hyphen. */
export function fileName(...words) {
  const plain = words.map((word) => word.replace(/[^\p{L}\p{M}\p{N}.+-]+/gu, "-").replace(/^[-.]+|[-.]+$/g, ""));
  return `${plain.filter(Boolean).join("-").slice(0, 80)}.svg`;
}

function cells(frame, layout) {
  return layout.rowLabels.flatMap((_, row) =>
    layout.columnLabels.map((_, column) => {
      const [i, j] = layout.isSwapped ? [column, row] : [row, column];
      const p = frame.rows[i]?.[j] ?? 0;
      return svg("rect", {
        x: layout.x(column) + 1,
        y: layout.y(row) + 1,
        width: layout.cell - 2,
        height: layout.cell - 2,
        fill: shade(p),
        "data-i": i,
        "data-j": j,
        "data-p": p,
      });
    }),
  );
}

function labels(layout) {
  const side = layout.isMirrored ? "start" : "end";
  return [
    ...layout.columnLabels.map((text, column) => svg("text", { ...columnLabelPlace(layout, column), text })),
    ...layout.rowLabels.map((text, row) =>
      svg("text", {
        x: layout.labelX,
        y: layout.y(row) + layout.cell / 2,
        "text-anchor": side,
        "dominant-baseline": "central",
        text,
      }),
    ),
  ];
}

function path(frame, layout) {
  const { line, dots } = pathOf(layout, frame.path, 0, frame.path.length);
  if (!dots.length) return [];
  return [
    svg("polyline", { points: line, fill: "none", stroke: PATH, "stroke-width": 2, "stroke-linejoin": "round" }),
    ...dots.map(({ x, y }) => svg("circle", { cx: x, cy: y, r: 3.5, fill: PATH })),
  ];
}

function shade(p) {
  const mixed = EMPTY.map((from, at) => Math.round(from + p * (FULL[at] - from)));
  return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
