/** The page as a whole: the input, the panels, and what connects them. */

import { el, setText } from "./dom.js";
import { Panel } from "./panel.js";
import { Replay } from "./replay.js";
import { counted } from "./symbols.js";

/** After this long a pause the input is taken to have ended. */
const PAUSE = 900;
const TYPING = 130;
/** More panels than this are no comparison any more. */
const MOST_PANELS = 6;

export class App {
  #context;
  /** @type {Panel[]} */
  #panels = [];
  #replay = new Replay(() => this.#panels);
  #text;
  #pauses;
  #end;
  #count;
  #example;
  #panelsBox;
  #add;
  #pauseTimer = null;
  #typing = null;

  /** @param {object} context What panels need: api, connection, announcer, models, limits. */
  constructor(context) {
    const find = (id) => document.getElementById(id);
    this.#context = { ...context, onChange: () => this.#changed(), onRemove: (panel) => this.#remove(panel) };
    this.#text = find("text");
    this.#pauses = find("pauses");
    this.#end = find("end");
    this.#count = find("count");
    this.#example = find("example");
    this.#panelsBox = find("panels");
    this.#add = find("add");
    find("replay").append(this.#replay.element);
    this.#text.maxLength = context.limits.max_stream_length;
    this.#listen(find("clear"));
    this.#addPanel(context.models[0]);
    context.connection.returns.add(() => this.#returned());
    find("app").hidden = false;
    this.#showExample();
  }

  #listen(clear) {
    this.#text.addEventListener("input", (event) => {
      this.#stopTyping();
      // half-composed characters are not text yet
      if (!event.isComposing) this.#typed();
    });
    this.#text.addEventListener("compositionend", () => this.#typed());
    this.#text.addEventListener("keydown", (event) => {
      // 229: Safari ends a composition before it tells of the key that did
      if (event.key !== "Enter" || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.#finish();
    });
    this.#pauses.addEventListener("change", () => this.#typed());
    this.#end.addEventListener("click", () => this.#finish());
    clear.addEventListener("click", () => {
      this.#set("");
      this.#text.focus();
    });
    this.#example.addEventListener("click", () => this.#showExample());
    this.#add.addEventListener("click", () => this.#addPanel(this.#nextModel()));
  }

  #typed() {
    // one input is one line, and control characters are no text
    const line = this.#text.value.replace(/\r\n|[\p{Cc}\u2028\u2029]/gu, " ");
    if (line !== this.#text.value) this.#text.value = line;
    const text = line.toWellFormed?.() ?? line;
    clearTimeout(this.#pauseTimer);
    for (const panel of this.#panels) panel.feed(text);
    if (this.#pauses.checked) this.#pauseTimer = setTimeout(() => this.#finish(), PAUSE);
    setText(this.#count, text ? counted([...text].length, "character") : "");
  }

  #finish() {
    clearTimeout(this.#pauseTimer);
    this.#stopTyping();
    for (const panel of this.#panels) panel.finish();
  }

  #set(text) {
    this.#stopTyping();
    this.#text.value = text;
    this.#typed();
  }

  /** Types the worked example as a user would, unless motion is unwelcome. */
  #showExample() {
    const { example } = this.#panels[0].model;
    this.#example.hidden = !example;
    if (!example) return;
    this.#stopTyping();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.#set(example.text);
      this.#finish();
      return;
    }
    const letters = [...example.text];
    let typed = 0;
    this.#text.value = "";
    this.#typed();
    this.#typing = setInterval(() => {
      typed += 1;
      this.#text.value = letters.slice(0, typed).join("");
      this.#typed();
      if (typed === letters.length) this.#stopTyping();
    }, TYPING);
  }

  #stopTyping() {
    clearInterval(this.#typing);
    this.#typing = null;
  }

  #nextModel() {
    const shown = this.#panels.map(({ model }) => model.name);
    return this.#context.models.find(({ name }) => !shown.includes(name)) ?? this.#panels.at(-1).model;
  }

  #addPanel(model) {
    const same = this.#panels.findLast((panel) => panel.model === model);
    const panel = new Panel(this.#context, model, same?.tags ?? model.example?.tags ?? []);
    this.#panels.push(panel);
    this.#panelsBox.append(panel.element);
    this.#arrange();
    if (this.#panels.length > 1) {
      panel.feed(this.#text.value);
      panel.finish();
      panel.element.querySelector("select").focus();
    }
  }

  #remove(panel) {
    panel.close();
    this.#panels = this.#panels.filter((one) => one !== panel);
    this.#arrange();
    this.#replay.refresh();
    this.#add.focus();
  }

  #arrange() {
    this.#panelsBox.dataset.count = String(this.#panels.length);
    for (const panel of this.#panels) panel.canBeRemoved(this.#panels.length > 1);
    this.#add.disabled = this.#panels.length >= MOST_PANELS;
  }

  #changed() {
    this.#replay.refresh();
  }

  /** The service is there again, and may have other models than before. */
  async #returned() {
    let found;
    try {
      found = await this.#context.api.models();
    } catch {
      // gone again
      this.#context.connection.lost();
      return;
    }
    const { models, limits } = found;
    this.#context = { ...this.#context, models, limits };
    for (const panel of this.#panels) panel.setModels(models);
  }
}
