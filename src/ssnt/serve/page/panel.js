/** One model at work: its settings, its output, its alignment. */

import { Problem, Unreachable } from "./api.js";
import { LiveAsker, SearchAsker } from "./asking.js";
import { Controls } from "./controls.js";
import { el, newId, setText } from "./dom.js";
import { fileName, save, svgFile } from "./download.js";
import { NOTHING, moment, wholeFrame } from "./frames.js";
import { GridView } from "./grid.js";
import { NbestView } from "./nbest.js";
import { OutputView } from "./output.js";
import { probability } from "./symbols.js";
import { TableView } from "./table.js";
import { makeTagChooser } from "./tags.js";

const EMPTY = Object.freeze({ frames: [NOTHING], isPartial: false, alternatives: [], probability: null, unknown: 0 });

export class Panel {
  element;
  #context;
  #model;
  #text = "";
  #hasEnded = false;
  /** @type {import("./types.js").Settings} */
  #settings;
  #asker;
  #controls;
  #tags;
  /** @type {import("./asking.js").Answer} */
  #answer = EMPTY;
  /** The moment that a replay shows; null for now. */
  #moment = null;
  #chosen = 0;
  #isWaiting = false;

  #heading = el("h2", { class: "visually-hidden" });
  #select;
  #kind = el("span", { class: "kind" });
  #problem = el("p", { class: "problem", role: "alert", hidden: true });
  #tagsBox = el("div");
  #settingsBox = el("div");
  #output = new OutputView();
  #grid = new GridView();
  #gridBox;
  #gridNote = el("p", { class: "hint grid-note" });
  #nbest = new NbestView((index) => this.#choose(index));
  #table = new TableView();
  #remove;

  /**
   * @param {{api: import("./api.js").Api, connection: import("./connection.js").Connection,
   *     announcer: import("./announcer.js").Announcer, models: import("./types.js").Model[],
   *     limits: import("./types.js").Limits, onChange: () => void, onRemove: (panel: Panel) => void}} context
   * @param {import("./types.js").Model} model
   * @param {string[]} tags
   */
  constructor(context, model, tags) {
    this.#context = context;
    this.element = this.#build();
    this.#setModel(model, tags);
  }

  get model() {
    return this.#model;
  }

  get tags() {
    return this.#settings.tags;
  }

  /** All moments that can be replayed. */
  get frames() {
    return this.#answer.frames;
  }

  get isPartial() {
    return this.#answer.isPartial;
  }

  /** @param {string} text The whole input so far. */
  feed(text) {
    this.#text = text;
    this.#hasEnded = false;
    this.#moment = null;
    this.#ask();
  }

  /** The input has ended. */
  finish() {
    if (!this.#text) return;
    this.#hasEnded = true;
    this.#ask();
  }

  /** Asks again from the start, as after a lost connection. */
  refresh() {
    this.#asker.close();
    this.#ask();
  }

  /** @param {number | null} at The moment to show; null for now. */
  show(at) {
    this.#moment = at;
    this.#draw();
  }

  canBeRemoved(value) {
    this.#remove.hidden = !value;
  }

  close() {
    this.#asker.close();
    this.#context.announcer.hush(this);
    this.element.remove();
  }

  /** The models may be others after the service has been started anew. */
  setModels(models) {
    this.#context = { ...this.#context, models };
    this.#fillSelect();
    const same = models.find(({ name }) => name === this.#model.name);
    if (JSON.stringify(same) !== JSON.stringify(this.#model)) {
      this.#setModel(same ?? models[0], this.tags);
      return;
    }
    // the settings stay as the user has set them
    this.#select.value = same.name;
    this.refresh();
  }

  #build() {
    const id = newId("model");
    this.#select = el("select", { id, class: "model-select" });
    this.#select.addEventListener("change", () => {
      const model = this.#context.models.find(({ name }) => name === this.#select.value);
      this.#setModel(model, model.example?.tags ?? []);
    });
    this.#fillSelect();
    const name = "Remove this model";
    this.#remove = el("button", { type: "button", class: "quiet icon remove", "aria-label": name, text: "✕" });
    this.#remove.addEventListener("click", () => this.#context.onRemove(this));
    const label = el("label", { class: "visually-hidden", for: id, text: "Model" });
    const header = el("div", { class: "panel-header" }, label, this.#select, this.#kind, this.#remove);
    this.#gridBox = this.#buildGrid();
    return el(
      "section",
      { class: "panel card" },
      this.#heading,
      header,
      this.#tagsBox,
      this.#problem,
      this.#output.element,
      this.#settingsBox,
      el(
        "div",
        { class: "results" },
        el("div", { class: "alignment" }, this.#gridBox, this.#gridNote),
        el("div", { class: "lists" }, this.#nbest.element, this.#table.element),
      ),
    );
  }

  #buildGrid() {
    const swap = el("button", { type: "button", class: "quiet", "aria-pressed": "false", text: "Swap axes" });
    swap.addEventListener("click", () => {
      this.#grid.isSwapped = !this.#grid.isSwapped;
      swap.setAttribute("aria-pressed", String(this.#grid.isSwapped));
    });
    const download = el("button", { type: "button", class: "quiet download", text: "Download SVG" });
    download.addEventListener("click", () => this.#download());
    const legend = el(
      "p",
      { class: "legend" },
      el("span", { class: "ramp", "aria-hidden": "true" }),
      el("span", { text: "probability 0 to 1" }),
      el("span", { class: "line", "aria-hidden": "true" }),
      el("span", { text: "best path" }),
    );
    return el(
      "div",
      { class: "grid-box" },
      this.#grid.element,
      el("div", { class: "grid-foot" }, legend, el("div", { class: "grid-actions" }, swap, download)),
    );
  }

  #fillSelect() {
    this.#select.replaceChildren(...this.#context.models.map(({ name }) => el("option", { value: name, text: name })));
  }

  #setModel(model, tags) {
    this.#asker?.close();
    this.#model = model;
    this.#select.value = model.name;
    const kind = model.members.length ? `${model.kind} of ${model.members.join(", ")}` : model.kind;
    setText(this.#kind, `${kind}, ${model.is_online ? "writes while it reads" : "reads, then writes"}`);
    setText(this.#heading, `Model ${model.name}`);
    this.element.dataset.model = model.name;
    this.#controls = new Controls(model, this.#context.limits, () => this.#settled());
    this.#tags = makeTagChooser(model, tags, () => this.#settled());
    this.#tagsBox.replaceChildren(...(this.#tags.element ? [this.#tags.element] : []));
    this.#settingsBox.replaceChildren(this.#controls.element);
    this.#settled();
  }

  /** Settings have changed: what they are now, and the question again. */
  #settled() {
    const { search, beam, maxDelay, isLive } = this.#controls;
    this.#settings = Object.freeze({ search, beam, maxDelay: isLive ? maxDelay : null, tags: this.#tags.tags });
    this.#asker?.close();
    const Asker = isLive ? LiveAsker : SearchAsker;
    const { api, connection, limits } = this.#context;
    const asker = new Asker(api, this.#model, limits, {
      onAnswer: (answer) => this.#answered(answer),
      onProblem: (message) => this.#failed(message),
      onLost: () => connection.lost(),
      onRetry: () => this.refresh(),
    });
    this.#asker = asker;
    this.#moment = null;
    this.#ask();
  }

  #ask() {
    if (!this.#text) {
      this.#asker.close();
      this.#isWaiting = false;
      this.#answered(EMPTY);
      return;
    }
    this.#problem.hidden = true;
    if (this.#context.connection.isLost) {
      this.#isWaiting = true;
      this.#draw();
      return;
    }
    if (this.#asker.feed(this.#text, this.#settings)) this.#isWaiting = true;
    if (this.#hasEnded) this.#asker.finish();
    this.#draw();
  }

  #answered(answer) {
    this.#isWaiting = false;
    this.#answer = answer;
    this.#chosen = 0;
    this.#problem.hidden = true;
    this.#nbest.draw(answer.alternatives);
    this.#nbest.choose(0);
    this.#draw();
    this.#announce();
    this.#context.onChange();
  }

  #failed(message) {
    this.#isWaiting = false;
    this.#answer = EMPTY;
    this.#nbest.draw([]);
    setText(this.#problem, message);
    this.#problem.hidden = false;
    this.#draw();
    this.#context.onChange();
  }

  #announce() {
    const frame = this.#answer.frames.at(-1);
    const name = this.#context.models.length > 1 ? `${this.#model.name}: ` : "";
    // committed output only: what may be taken back is noise
    if (!frame.committedText) this.#context.announcer.hush(this);
    else if (frame.isEnd) {
      const chance = probability(this.#answer.probability);
      this.#context.announcer.say(this, `${name}${frame.committedText}, probability ${chance}.`);
    } else this.#context.announcer.say(this, `${name}${frame.committedText} so far.`);
  }

  /** The frame of this moment, of the alternative that is chosen. */
  get #frame() {
    const { frames, alternatives } = this.#answer;
    if (this.#chosen > 0) return alternatives[this.#chosen].frame ?? frames.at(-1);
    if (this.#moment === null) return frames.at(-1);
    return frames.findLast((frame) => moment(frame) <= this.#moment) ?? frames[0];
  }

  #draw() {
    const { probability: chance, unknown, frames } = this.#answer;
    const frame = this.#frame;
    const isLive = this.#controls.isLive;
    const shown = this.#chosen > 0 ? frames.at(-1) : frame;
    // a stream answers within moments, and a flicker at each letter would be tiresome
    const isStale = this.#isWaiting && (!isLive || this.#context.connection.isLost);
    this.#output.draw(shown, { probability: chance, unknown, isLive, isWaiting: isStale });
    const canDraw = Boolean(frame.rows) && frame.target.length > 0 && frame.source.length > 0;
    this.#gridBox.hidden = !canDraw;
    if (canDraw) this.#grid.draw(frame);
    this.#table.draw(frame);
    setText(this.#gridNote, this.#note(frame, canDraw));
    this.element.dataset.state = this.#state(frames.at(-1));
  }

  #state(last) {
    if (!this.#problem.hidden) return "problem";
    if (!this.#text) return "empty";
    if (this.#isWaiting) return "waiting";
    return last.isEnd ? "ended" : "reading";
  }

  #note(frame, canDraw) {
    if (!this.#model.has_alignment) return "This model has no alignment.";
    if (!this.#text) return "Type something to see what is written where.";
    if (!frame.rows) return "The input is too long for a grid; the output goes on.";
    if (!canDraw && this.#problem.hidden) return "Nothing is written yet.";
    if (this.#chosen > 0) return `The alignment of “${frame.committedText}”.`;
    return "";
  }

  async #choose(index) {
    this.#chosen = index;
    const answer = this.#answer;
    const one = answer.alternatives[index];
    if (!one.frame && this.#model.has_alignment) await this.#alignAlternative(one);
    if (answer === this.#answer) this.#draw();
  }

  /** A stream says of its alternatives only the text: their alignment is asked for when it is wanted. */
  async #alignAlternative(one) {
    const pair = { input: this.#text, output: one.text };
    if (this.#model.has_tags) pair.tags = this.tags;
    try {
      const found = await this.#context.api.align(this.#model.name, pair);
      const { max_lattice_cells: most } = this.#context.limits;
      one.frame = wholeFrame({ ...found, symbols: found.target_symbols, text: one.text }, most);
    } catch (error) {
      if (error instanceof Unreachable) this.#context.connection.lost();
      else if (error instanceof Problem) {
        setText(this.#problem, error.message);
        this.#problem.hidden = false;
      } else throw error;
    }
  }

  #download() {
    const frame = this.#frame;
    const title = `${this.#text} → ${frame.committedText}${frame.tentativeText} (${this.#model.name})`;
    save(svgFile(frame, title, this.#grid.isSwapped), fileName("alignment", this.#model.name, this.#text));
  }
}
