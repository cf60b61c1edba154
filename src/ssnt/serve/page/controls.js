/** Sliders and choices of a panel: how its model is asked. They fold away, as on a phone there is little room. */

import { el, newId, setText } from "./dom.js";
import { counted } from "./symbols.js";

/** The delay bound at first: late enough to be right, early enough to be seen. */
const USUAL_DELAY = 2;

/** The largest delay bound on the slider; one step further there is none. */
const LONGEST_DELAY = 15;
const SEARCHES = { live: "Live stream", marginal: "Best output", path: "Best path", online: "Online" };

export class Controls {
  element = el("details", { class: "settings" });
  #summary = el("span", { class: "hint" });
  #beam;
  #delay;
  #search;

  /**
   * @param {import("./types.js").Model} model
   * @param {import("./types.js").Limits} limits
   * @param {() => void} onChange Called when a value has been settled, not at each pixel of a slider.
   */
  constructor(model, limits, onChange) {
    const searches = model.is_online ? ["live", ...model.searches.filter((one) => one !== "online")] : model.searches;
    this.#search = choice("Search", searches, onChange);
    const { max_beam: widest } = limits;
    this.#beam = slider("Beam", { min: 1, max: widest, value: Math.min(model.search.beam, widest) }, String, onChange);
    const words = (value) => (value > LONGEST_DELAY ? "no bound" : counted(value, "symbol"));
    this.#delay = slider("Delay bound", { min: 0, max: LONGEST_DELAY + 1, value: USUAL_DELAY }, words, onChange);
    const controls = [this.#search, this.#beam, this.#delay];
    for (const { input } of controls) input.addEventListener("input", () => this.#show());
    this.element.append(
      el("summary", {}, "Settings ", this.#summary),
      el("div", { class: "controls" }, ...controls.map(({ element }) => element)),
    );
    this.element.open = matchMedia("(min-width: 56rem)").matches;
    this.#show();
  }

  get isLive() {
    return this.#search.input.value === "live";
  }

  get search() {
    return this.#search.input.value;
  }

  get beam() {
    return Number(this.#beam.input.value);
  }

  /** @returns {number | null} */
  get maxDelay() {
    const value = Number(this.#delay.input.value);
    return value > LONGEST_DELAY ? null : value;
  }

  #show() {
    this.#search.element.hidden = this.#search.input.options.length < 2;
    this.#delay.element.hidden = !this.isLive;
    const delay = this.maxDelay === null ? "no delay bound" : `delay bound ${this.maxDelay}`;
    const words = [SEARCHES[this.search] ?? this.search, `beam ${this.beam}`, ...(this.isLive ? [delay] : [])];
    setText(this.#summary, words.join(" · "));
  }
}

function slider(name, range, words, onChange) {
  const id = newId("slider");
  const input = el("input", { id, type: "range", step: 1, ...range });
  const shown = el("output", { for: id });
  const show = () => {
    setText(shown, words(Number(input.value)));
    input.setAttribute("aria-valuetext", words(Number(input.value)));
  };
  input.addEventListener("input", show);
  input.addEventListener("change", onChange);
  show();
  const heading = el("span", { class: "control-heading" }, el("label", { for: id, text: name }), shown);
  return { input, element: el("div", { class: "control" }, heading, input) };
}

function choice(name, values, onChange) {
  const id = newId("choice");
  const options = values.map((value) => el("option", { value, text: SEARCHES[value] ?? value }));
  const input = el("select", { id }, ...options);
  input.addEventListener("change", onChange);
  return { input, element: el("div", { class: "control" }, el("label", { for: id, text: name }), input) };
}
