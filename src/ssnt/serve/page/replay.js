/** Steps through the reading, for all panels together. */

import { el, setText } from "./dom.js";
import { moment } from "./frames.js";
import { END, spoken } from "./symbols.js";

const STEP_TIME = 550;
/** Of a long input only what surrounds the reading head is shown. */
const TAPE_BEFORE = 24;
const TAPE_AFTER = 16;

export class Replay {
  element;
  #panels;
  #timer = null;
  #moments = [0];
  #at = 0;
  #isShowing = false;
  #play = button("play", "▶", "Replay", () => this.#toggle());
  #back = button("back", "‹", "One step back", () => this.#step(-1));
  #forth = button("forth", "›", "One step forward", () => this.#step(1));
  #slider = el("input", { type: "range", min: 0, step: 1, value: 0, "aria-label": "Step of the reading" });
  #tape = el("p", { class: "tape", dir: "auto", "aria-hidden": "true" });
  #note = el("p", { class: "hint" });

  /** @param {() => import("./panel.js").Panel[]} panels */
  constructor(panels) {
    this.#panels = panels;
    this.#slider.addEventListener("input", () => {
      this.stop();
      this.#go(Number(this.#slider.value));
    });
    const buttons = el("div", { class: "transport" }, this.#play, this.#back, this.#forth, this.#slider);
    this.element = el("section", { class: "replay", "aria-label": "Replay" }, this.#tape, buttons, this.#note);
    this.refresh();
  }

  /** The panels have new frames: a replay of old ones is over. */
  refresh() {
    this.stop();
    const all = this.#panels().flatMap(({ frames }) => frames.map(moment));
    this.#moments = [...new Set(all)].sort((one, other) => one - other);
    this.#at = this.#moments.length - 1;
    if (this.#isShowing) for (const panel of this.#panels()) panel.show(null);
    this.#isShowing = false;
    const isPartial = this.#panels().some((panel) => panel.isPartial);
    setText(this.#note, isPartial ? "The input is too long to replay all of it." : "");
    this.#draw();
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = null;
    this.#drawPlay();
  }

  #toggle() {
    if (this.#timer !== null) {
      this.stop();
      return;
    }
    if (this.#at >= this.#moments.length - 1) this.#go(0);
    this.#timer = setInterval(() => {
      if (this.#at + 1 < this.#moments.length) this.#go(this.#at + 1);
      if (this.#at >= this.#moments.length - 1) this.stop();
    }, STEP_TIME);
    this.#drawPlay();
  }

  #step(by) {
    this.stop();
    this.#go(Math.max(0, Math.min(this.#moments.length - 1, this.#at + by)));
  }

  #go(at) {
    this.#at = at;
    this.#isShowing = at < this.#moments.length - 1;
    for (const panel of this.#panels()) panel.show(this.#isShowing ? this.#moments[at] : null);
    this.#draw();
  }

  #draw() {
    const last = this.#moments.length - 1;
    this.#slider.max = String(Math.max(last, 1));
    this.#slider.value = String(this.#at);
    for (const control of [this.#play, this.#slider]) control.disabled = last < 1;
    this.#back.disabled = this.#at <= 0;
    this.#forth.disabled = this.#at >= last;
    this.element.dataset.step = String(this.#at);
    this.element.dataset.steps = String(last);
    this.#drawTape();
    this.#drawPlay();
  }

  #drawTape() {
    const source = this.#panels()
      .map(({ frames }) => frames.at(-1).source)
      .reduce((longest, one) => (one.length > longest.length ? one : longest), []);
    const now = this.#moments[this.#at] ?? 0;
    const read = Math.min(source.length, Math.ceil(now));
    const from = Math.max(0, read - TAPE_BEFORE);
    const to = Math.min(source.length, read + TAPE_AFTER);
    // as text, not symbol by symbol, so that letters join as they should
    const shown = (symbol) => (symbol === END ? "\u23ce" : symbol);
    const piece = (start, end, name) => el("span", { class: name, text: source.slice(start, end).map(shown).join("") });
    const head = Math.max(from, read - 1);
    this.#tape.replaceChildren(piece(from, head, "read"), piece(head, read, "head"), piece(read, to, "unread"));
    this.#tape.hidden = source.length === 0;
    const where = read ? `after reading ${spoken(source[read - 1])}, ` : "";
    this.#slider.setAttribute("aria-valuetext", `${where}step ${this.#at} of ${this.#moments.length - 1}`);
  }

  #drawPlay() {
    const isPlaying = this.#timer !== null;
    setText(this.#play.firstChild, isPlaying ? "❚❚" : "▶");
    setText(this.#play.lastChild, isPlaying ? "Pause" : "Replay");
  }
}

function button(name, icon, words, onClick) {
  const isIcon = name !== "play";
  const made = el(
    "button",
    { type: "button", class: `${name}${isIcon ? " icon" : ""}`, "aria-label": isIcon ? words : null },
    el("span", { class: "sign", "aria-hidden": "true", text: icon }),
  );
  if (!isIcon) made.append(el("span", { text: words }));
  made.addEventListener("click", onClick);
  return made;
}
