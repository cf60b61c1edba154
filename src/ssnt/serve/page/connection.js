/** Whether the service is there; looks for it, ever more patiently, when it is not. */

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;

export class Connection {
  #isAlive;
  #timer = null;
  #tries = 0;
  #backAt = -Infinity;
  #isProbing = false;
  /**
   * Called with the state whenever it changes.
   * @type {Set<(state: {isLost: boolean, retryAt: number | null}) => void>}
   */
  watchers = new Set();
  /** Called when the service has come back. @type {Set<() => void>} */
  returns = new Set();
  isLost = false;

  /** @param {() => Promise<boolean>} isAlive */
  constructor(isAlive) {
    this.#isAlive = isAlive;
    addEventListener("online", () => this.tryNow());
  }

  /** Some request could not reach the service. */
  lost() {
    if (this.isLost) return;
    this.isLost = true;
    // a service that answers this but refuses streams would otherwise be asked twice a second
    if (performance.now() > this.#backAt + LONGEST_WAIT) this.#tries = 0;
    this.#wait();
  }

  /** Looks for the service without waiting any longer. */
  async tryNow() {
    if (!this.isLost || this.#isProbing) return;
    clearTimeout(this.#timer);
    this.#isProbing = true;
    this.#tell(null);
    const isBack = await this.#isAlive();
    this.#isProbing = false;
    if (!isBack) {
      this.#wait();
      return;
    }
    this.isLost = false;
    this.#backAt = performance.now();
    this.#tell(null);
    for (const listener of this.returns) listener();
  }

  #wait() {
    // the random part keeps many pages from asking all at once when a service restarts
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#tries) * (0.75 + 0.5 * Math.random());
    this.#tries += 1;
    this.#timer = setTimeout(() => this.tryNow(), wait);
    this.#tell(Date.now() + wait);
  }

  #tell(retryAt) {
    for (const watcher of this.watchers) watcher({ isLost: this.isLost, retryAt });
  }
}
