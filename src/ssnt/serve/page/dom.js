/**
 * Elements made from data. Text goes in as text, never as markup, so nothing that a user or the server says is run.
 */

const SVG = "http://www.w3.org/2000/svg";
let lastId = 0;

/** A name for an element that no other element of the page has. */
export function newId(stem) {
  lastId += 1;
  return `${stem}-${lastId}`;
}

/**
 * @param {string} tag
 * @param {Object<string, any>} [props] Attributes, of which null and false are left out; `text` is the content, `on`
 *     has listeners.
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function el(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** Like {@link el}, for SVG. @returns {SVGElement} */
export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, { text, on = {}, ...attributes }, children) {
  setAttributes(element, attributes);
  if (text !== undefined) element.textContent = text;
  for (const [name, listener] of Object.entries(on)) element.addEventListener(name, listener);
  element.append(...children);
  return element;
}

/** Sets attributes; null, undefined and false remove theirs, true is an empty one. */
export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Changes text only if it differs: screen readers and selections are left in peace. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
