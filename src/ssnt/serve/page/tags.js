/** The tags of the input: chips to press, or a choice among the sets that there are models for. */

import { el, newId, setText } from "./dom.js";

/** With more tags than this there is a field to search them. */
const FEW = 14;
/** More chips than this are not shown at a time. */
const MOST_SHOWN = 60;

/** What chooses the tags for a model. @returns {{element: HTMLElement | null, tags: string[]}} */
export function makeTagChooser(model, chosen, onChange) {
  if (model.tag_sets.length) return new TagSetChooser(model.tag_sets, chosen, onChange);
  if (model.has_tags) return new TagChips(model.tags, chosen, onChange);
  return { element: null, tags: [] };
}

class TagSetChooser {
  element;
  tags;

  constructor(sets, chosen, onChange) {
    const id = newId("tag-set");
    const names = sets.map((set) => set.join(" · ") || "(no tags)");
    const wanted = [...chosen].sort().join("\n");
    const start = Math.max(0, sets.findIndex((set) => [...set].sort().join("\n") === wanted));
    this.tags = sets[start];
    const select = el("select", { id }, ...names.map((text, index) => el("option", { value: index, text })));
    select.value = String(start);
    select.addEventListener("change", () => {
      this.tags = sets[Number(select.value)];
      onChange();
    });
    this.element = el("div", { class: "tags" }, el("label", { for: id, text: "Tags" }), select);
  }
}

class TagChips {
  element;
  tags;
  #known;
  #onChange;
  #chips = el("div", { class: "chips" });
  #more = el("p", { class: "hint" });
  #search = null;

  constructor(known, chosen, onChange) {
    this.#known = known;
    this.tags = chosen.filter((tag) => known.includes(tag));
    this.#onChange = onChange;
    this.element = el("fieldset", { class: "tags" }, el("legend", { text: "Tags" }));
    if (known.length > FEW) {
      const id = newId("tag-search");
      const placeholder = `Find one of ${known.length} tags`;
      this.#search = el("input", { id, type: "search", autocomplete: "off", placeholder });
      this.#search.addEventListener("input", () => this.#draw());
      this.#search.addEventListener("keydown", (event) => this.#key(event));
      this.element.append(el("label", { class: "visually-hidden", for: id, text: "Find a tag" }), this.#search);
    }
    this.element.append(this.#chips, this.#more);
    this.#draw();
  }

  #key(event) {
    // Enter takes the first one that was found, so tags can be typed one after the other
    if (event.key !== "Enter" || !this.#search.value) return;
    event.preventDefault();
    const [first] = this.#found();
    if (first === undefined) return;
    this.#search.value = "";
    this.#toggle(first);
  }

  #found() {
    const wanted = (this.#search?.value ?? "").toLocaleLowerCase();
    return this.#known.filter((tag) => !this.tags.includes(tag) && tag.toLocaleLowerCase().includes(wanted));
  }

  #draw() {
    const found = this.#found();
    const shown = found.slice(0, MOST_SHOWN);
    // few tags keep their places; of many the chosen ones come first
    const order = this.#search ? [...this.tags, ...shown] : this.#known;
    const focused = document.activeElement?.dataset?.tag;
    this.#chips.replaceChildren(...order.map((tag) => this.#chip(tag)));
    if (focused !== undefined) this.#chips.querySelector(`[data-tag="${CSS.escape(focused)}"]`)?.focus();
    const hidden = found.length - shown.length;
    setText(this.#more, hidden > 0 ? `${hidden} more; type to find them.` : order.length ? "" : "No such tag.");
  }

  #chip(tag) {
    const isChosen = this.tags.includes(tag);
    const state = { "aria-pressed": String(isChosen), "data-tag": tag };
    const chip = el("button", { type: "button", class: "chip", text: tag, ...state });
    chip.addEventListener("click", () => this.#toggle(tag));
    return chip;
  }

  #toggle(tag) {
    this.tags = this.tags.includes(tag) ? this.tags.filter((one) => one !== tag) : [...this.tags, tag];
    this.#draw();
    this.#onChange();
  }
}
