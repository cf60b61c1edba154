/** How symbols, texts and numbers are shown. */

/** The label of the end symbol, as in the library's pictures. */
export const END = "</s>";

const SCRIPTS = ["Arabic", "Hebrew", "Syriac", "Thaana", "Nko", "Adlam", "Mandaic", "Samaritan", "Hanifi_Rohingya"];
const RIGHT_TO_LEFT = new RegExp(SCRIPTS.map((name) => `\\p{Script=${name}}`).join("|"), "u");

/** Whether a sequence of symbols runs from right to left: its first letter decides, as with `dir=auto`. */
export function isRightToLeft(symbols) {
  const letter = /\p{L}/u;
  for (const symbol of symbols) {
    if (symbol !== END && letter.test(symbol)) return RIGHT_TO_LEFT.test(symbol);
  }
  return false;
}

/** What is drawn for a symbol: itself, unless it would be invisible or stick to its neighbours. */
export function drawn(symbol) {
  if (symbol === " ") return "␣";
  if (/^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}]+$/u.test(symbol)) return [...symbol].map(codePoint).join(" ");
  return /^\p{M}/u.test(symbol) ? `◌${symbol}` : symbol;
}

/** How a symbol is read out. */
export function spoken(symbol) {
  if (symbol === END) return "end";
  if (symbol === " ") return "space";
  return drawn(symbol);
}

function codePoint(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A probability with three digits that matter. */
export function probability(p) {
  if (p === null || p === undefined) return "–";
  if (p === 0) return "0";
  if (p >= 0.9995) return p === 1 ? "1" : "≈ 1";
  if (p >= 0.001) return p.toFixed(3);
  const exponent = Math.floor(Math.log10(p));
  if (exponent < -99) return "≈ 0";
  return `${(p / 10 ** exponent).toFixed(1)} × 10${superscript(exponent)}`;
}

function superscript(number) {
  return [...String(number)].map((digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])).join("");
}

/** `1 symbol`, `2 symbols`. */
export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
