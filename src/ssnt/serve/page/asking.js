/** Two ways to ask a model: live over a stream, or once for the whole input. Both tell a panel what came of it. */

import { Problem, Unreachable } from "./api.js";
import { Recording, walk, wholeFrame } from "./frames.js";
import { LiveStream } from "./stream.js";

/** A search begins when the typing has paused this long. */
const DEBOUNCE = 200;
const MOST_ALTERNATIVES = 5;
/** The service is stopping. */
const UNAVAILABLE = 503;

/**
 * @typedef {object} Listener What a panel hears.
 * @property {(answer: Answer) => void} onAnswer
 * @property {(message: string) => void} onProblem
 * @property {() => void} onLost The service cannot be reached.
 * @property {() => void} onRetry What stood in the way is gone: ask again.
 *
 * @typedef {object} Answer
 * @property {import("./types.js").Frame[]} frames All moments so far; the last one is now.
 * @property {boolean} isPartial Whether there were more moments than are kept.
 * @property {import("./types.js").Alternative[]} alternatives
 * @property {number | null} probability
 * @property {number} unknown
 */

/** Asks a model that writes while it reads. */
export class LiveAsker {
  #api;
  #model;
  #listener;
  #stream;
  #recording = new Recording();
  /** The text that the open stream was given, or null if none is open. */
  #sent = null;
  #settings = null;
  #isFinishing = false;

  /** @param {Listener} listener */
  constructor(api, model, limits, listener) {
    this.#api = api;
    this.#model = model;
    this.#listener = listener;
    this.#stream = new LiveStream(api.streamUrl, limits.max_text_length, {
      onUpdate: (message) => this.#update(message),
      onProblem: (problem) => this.#problem(problem),
      onClosed: (status) => this.#closed(status),
    });
  }

  /**
   * @param {string} text The whole text so far.
   * @param {import("./types.js").Settings} settings
   * @returns {boolean} Whether there is something new to ask.
   */
  feed(text, settings) {
    const goesOn = this.#sent !== null && text.startsWith(this.#sent) && settings === this.#settings;
    if (goesOn && text === this.#sent) return false;
    if (goesOn && !this.#isFinishing) {
      this.#stream.push(text.slice(this.#sent.length));
    } else {
      this.#open(settings);
      this.#stream.push(text);
    }
    this.#sent = text;
    return true;
  }

  /** The input has ended. */
  finish() {
    if (this.#sent === null || this.#isFinishing) return;
    this.#isFinishing = true;
    this.#stream.finish();
  }

  /** Forgets everything, and lets the stream go. */
  close() {
    this.#sent = null;
    this.#stream.close();
  }

  #open(settings) {
    this.#settings = settings;
    this.#isFinishing = false;
    this.#recording = new Recording();
    this.#stream.open({
      model: this.#model.name,
      beam: settings.beam,
      max_delay: settings.maxDelay,
      ...(this.#model.has_tags ? { tags: settings.tags } : {}),
      ...(this.#api.token === null ? {} : { token: this.#api.token }),
    });
  }

  #update(message) {
    const frame = this.#recording.add(message);
    const outputs = (message.outputs ?? []).slice(0, MOST_ALTERNATIVES);
    this.#listener.onAnswer({
      frames: this.#recording.frames,
      isPartial: this.#recording.isPartial,
      alternatives: outputs.map(({ text, probability }, index) => ({ text, probability, frame: index ? null : frame })),
      probability: message.probability ?? null,
      unknown: message.unknown ?? 0,
    });
  }

  async #problem(problem) {
    this.#sent = null;
    if (problem.status === 401) {
      await this.#api.renewToken();
      this.#listener.onRetry();
    } else if (problem.status !== UNAVAILABLE) {
      this.#listener.onProblem(problem.message);
    }
  }

  /** The next text opens another stream. A socket that was closed for no reason given means a lost service. */
  #closed(status) {
    this.#sent = null;
    if (status === 0 || status === UNAVAILABLE) this.#listener.onLost();
  }
}

/** Asks a model that has to see the whole input, or any model for a search over all of it. */
export class SearchAsker {
  #api;
  #model;
  #limits;
  #listener;
  #timer = null;
  /** @type {AbortController | null} */
  #request = null;
  #asked = null;

  /** @param {Listener} listener */
  constructor(api, model, limits, listener) {
    this.#api = api;
    this.#model = model;
    this.#limits = limits;
    this.#listener = listener;
  }

  feed(text, settings) {
    if (this.#asked && this.#asked.text === text && this.#asked.settings === settings) return false;
    this.close();
    this.#asked = { text, settings };
    this.#timer = setTimeout(() => this.#ask(text, settings), DEBOUNCE);
    return true;
  }

  finish() {}

  close() {
    clearTimeout(this.#timer);
    this.#request?.abort();
    this.#asked = null;
  }

  async #ask(text, settings) {
    const request = new AbortController();
    this.#request = request;
    const { max_lattice_cells: mostCells } = this.#limits;
    // outputs are about as long as inputs; of a grid that is too large to be drawn nothing is asked
    const posteriors = this.#model.has_alignment && (text.length + 1) ** 2 <= mostCells;
    const options = {
      search: settings.search,
      beam: settings.beam,
      nbest: Math.min(MOST_ALTERNATIVES, settings.beam),
      posteriors,
    };
    const input = this.#model.has_tags ? { text, tags: settings.tags } : { text };
    try {
      const result = await this.#api.transduce(this.#model.name, input, options, request.signal);
      if (!request.signal.aborted) this.#answer(result, posteriors ? mostCells : 0);
    } catch (error) {
      if (request.signal.aborted) return;
      this.#asked = null;
      if (error instanceof Unreachable) this.#listener.onLost();
      else if (error instanceof Problem) this.#listener.onProblem(error.message);
      else throw error;
    }
  }

  #answer({ source_symbols, outputs, unknown }, mostCells) {
    const frames = outputs.map((output) => wholeFrame({ ...output, source_symbols, delays: [] }, mostCells));
    const separator = this.#model.target_unit === "tokens" ? " " : "";
    this.#listener.onAnswer({
      frames: this.#model.has_alignment ? walk(frames[0], separator) : [frames[0]],
      isPartial: false,
      alternatives: outputs.map(({ text, probability }, index) => ({ text, probability, frame: frames[index] })),
      probability: outputs[0].probability,
      unknown,
    });
  }
}
