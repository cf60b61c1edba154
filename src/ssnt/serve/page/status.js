/** Shows whether the service is there. */

import { setText } from "./dom.js";

/**
 * @param {import("./connection.js").Connection} connection
 * @param {import("./announcer.js").Announcer} announcer
 */
export function showConnection(connection, announcer) {
  const pill = document.getElementById("connection");
  const words = document.getElementById("connection-words");
  const retry = document.getElementById("retry");
  let timer = null;
  let wasLost = false;
  retry.addEventListener("click", () => connection.tryNow());
  connection.watchers.add(({ isLost, retryAt }) => {
    clearInterval(timer);
    pill.dataset.state = isLost ? "lost" : "connected";
    retry.hidden = !isLost;
    const show = () => setText(words, sentence(isLost, retryAt));
    show();
    if (retryAt !== null) timer = setInterval(show, 500);
    // said once: the countdown is for the eye
    if (isLost !== wasLost) announcer.say(connection, isLost ? "The connection is lost." : "Connected again.");
    wasLost = isLost;
  });
}

function sentence(isLost, retryAt) {
  if (!isLost) return "Connected";
  if (retryAt === null) return "Connecting …";
  return `No connection. Next try in ${Math.max(1, Math.ceil((retryAt - Date.now()) / 1000))} s`;
}
