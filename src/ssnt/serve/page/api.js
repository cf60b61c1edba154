/** Requests to the service. */

/** Where the service is: the page may be served below a path, behind a proxy. */
const ROOT = new URL("../", import.meta.url);

/** The service has answered that something is wrong; `message` says what, in words for the user. */
export class Problem extends Error {
  /**
   * @param {{title?: string, detail?: string, status?: number, errors?: {where: string, problem: string}[]}} body
   */
  constructor({ title, detail, status, errors = [] }) {
    // the detail tells the first of them
    const places = errors.slice(1).map(({ where, problem }) => `${where}: ${problem}`).join("; ");
    super([detail || title || "The service cannot answer this.", places].filter(Boolean).join(" "));
    this.status = status ?? 0;
  }
}

/** The service cannot be reached at all. */
export class Unreachable extends Error {}

export class Api {
  /** The bearer token lives here and nowhere else: a reload forgets it. */
  #token = null;
  #askToken;
  #asking = null;

  /** @param {(refused: boolean) => Promise<string>} askToken Asks the user for a token. */
  constructor(askToken) {
    this.#askToken = askToken;
  }

  get token() {
    return this.#token;
  }

  /** The address of the stream. */
  get streamUrl() {
    const url = new URL("v1/stream", ROOT);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return url.href;
  }

  /** @returns {Promise<{models: import("./types.js").Model[], limits: import("./types.js").Limits}>} */
  models() {
    return this.#request("v1/models");
  }

  /** @returns {Promise<boolean>} Whether the service takes requests; while it stops it is alive but does not. */
  async isAlive() {
    try {
      return (await fetch(new URL("readyz", ROOT), { cache: "no-store" })).ok;
    } catch {
      return false;
    }
  }

  /** One input. @returns {Promise<object>} Its RESULT. */
  transduce(model, input, options, signal) {
    return this.#one("v1/transduce", { model, inputs: [input], ...options }, signal);
  }

  /** One pair. @returns {Promise<object>} How it aligns. */
  align(model, pair, signal) {
    return this.#one("v1/align", { model, pairs: [pair], posteriors: true }, signal);
  }

  /** Asks for a token, once for all requests that were refused together. */
  async renewToken() {
    this.#asking ??= this.#askToken(this.#token !== null).finally(() => {
      this.#asking = null;
    });
    this.#token = await this.#asking;
  }

  async #one(path, body, signal) {
    const { results } = await this.#request(path, body, signal);
    if (results[0].error) throw new Problem({ detail: results[0].error, status: 422 });
    return results[0];
  }

  async #request(path, body, signal) {
    const used = this.#token;
    const response = await this.#send(path, body, signal);
    if (response.status === 401) {
      // another request may have been given a new token meanwhile
      if (this.#token === used) await this.renewToken();
      return this.#request(path, body, signal);
    }
    let answer;
    try {
      answer = await response.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem({ title: `The service answered with status ${response.status}.`, status: response.status });
    }
    if (!response.ok) throw new Problem({ status: response.status, ...answer });
    return answer;
  }

  async #send(path, body, signal) {
    const headers = {};
    if (this.#token !== null) headers.Authorization = `Bearer ${this.#token}`;
    if (body) headers["Content-Type"] = "application/json";
    try {
      return await fetch(new URL(path, ROOT), {
        method: body ? "POST" : "GET",
        headers,
        body: body && JSON.stringify(body),
        cache: "no-store",
        signal,
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Unreachable("The service cannot be reached.");
    }
  }
}
