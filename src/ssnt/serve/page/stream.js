/** One stream over a WebSocket: text goes in, updates come out. */

import { Problem } from "./api.js";

/** How many pieces a pasted text is cut into at most, so that one sees the output grow, and how long that may take. */
const PIECES = 40;
const LEAST_PIECES = 4;
const GROWING = 2500;
/** A mistake in one message, after which the socket stays open. */
const MISTAKE = 422;
/** The service closes streams that send nothing for long. */
const IDLE = 408;

export class LiveStream {
  #url;
  #handlers;
  #longestPush;
  /** @type {WebSocket | null} */
  #socket = null;
  /** Which `open` the messages belong to; answers to an abandoned stream are dropped. */
  #session = 0;
  /** The session of the message that has no answer yet. One is under way at a time, so a refusal stops the rest. */
  #awaited = null;
  #opening = null;
  #text = [];
  /** When the message was sent that has no answer yet, and how long the last answer took. */
  #sentAt = 0;
  #answerTime = 0;
  #mustFinish = false;
  /** The status of a problem after which the service closes; 0 if it has said none. */
  #lastStatus = 0;

  /**
   * @param {string} url
   * @param {number} longestPush How many characters may go into one message.
   * @param {{onUpdate: (message: object) => void, onProblem: (problem: Problem) => void,
   *     onClosed: (status: number) => void}} handlers `onClosed` gets the status of
   *     the problem that the service gave as its reason, or 0.
   */
  constructor(url, longestPush, handlers) {
    this.#url = url;
    this.#longestPush = longestPush;
    this.#handlers = handlers;
  }

  /** Begins anew; what was under way is abandoned. @param {object} settings Fields of the `open` message. */
  open(settings) {
    this.#session += 1;
    this.#opening = { type: "open", lattice: true, ...settings };
    this.#text = [];
    this.#mustFinish = false;
    this.#lastStatus = 0;
    if (!this.#socket) this.#connect();
    this.#pump();
  }

  /** @param {string} text What follows the text so far. */
  push(text) {
    // by code points, as half a surrogate pair is not text
    this.#text.push(...text);
    this.#pump();
  }

  /** Ends the input. */
  finish() {
    this.#mustFinish = true;
    this.#pump();
  }

  /** Abandons the stream and lets the socket go. */
  close() {
    this.#session += 1;
    this.#forget();
  }

  #forget() {
    const socket = this.#socket;
    this.#socket = null;
    this.#awaited = null;
    this.#opening = null;
    this.#text = [];
    this.#mustFinish = false;
    socket?.close();
  }

  #connect() {
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    this.#awaited = null;
    socket.addEventListener("open", () => this.#pump());
    socket.addEventListener("message", ({ data }) => {
      if (socket === this.#socket) this.#receive(JSON.parse(data));
    });
    socket.addEventListener("close", () => {
      if (socket !== this.#socket) return;
      const status = this.#lastStatus;
      this.#forget();
      this.#handlers.onClosed(status);
    });
  }

  #pump() {
    if (this.#socket?.readyState !== WebSocket.OPEN || this.#awaited !== null) return;
    const message = this.#next();
    if (!message) return;
    this.#awaited = this.#session;
    this.#sentAt = performance.now();
    this.#socket.send(JSON.stringify(message));
  }

  #next() {
    if (this.#opening) {
      const message = this.#opening;
      this.#opening = null;
      return message;
    }
    if (this.#text.length) {
      return { type: "push", text: this.#text.splice(0, this.#pieceLength()).join("") };
    }
    if (this.#mustFinish) {
      this.#mustFinish = false;
      return { type: "finish" };
    }
    return null;
  }

  #pieceLength() {
    // with a slow service the pieces are longer, so that it keeps up
    const pieces = Math.max(LEAST_PIECES, Math.min(PIECES, GROWING / Math.max(1, this.#answerTime)));
    return Math.min(this.#longestPush, Math.ceil(this.#text.length / pieces));
  }

  #receive(message) {
    if (message.type === "update") this.#answerTime = performance.now() - this.#sentAt;
    const isCurrent = this.#awaited === this.#session || this.#awaited === null;
    this.#awaited = null;
    if (message.type === "problem") {
      if (message.status !== MISTAKE) this.#lastStatus = message.status;
      if (isCurrent) {
        this.#text = [];
        this.#mustFinish = false;
        if (message.status !== IDLE) this.#handlers.onProblem(new Problem(message));
      }
    } else if (isCurrent && message.type !== "opened") {
      this.#handlers.onUpdate(message);
    }
    this.#pump();
  }
}
