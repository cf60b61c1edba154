/** Starts the page. */

import { Announcer } from "./announcer.js";
import { Api, Unreachable } from "./api.js";
import { App } from "./app.js";
import { Connection } from "./connection.js";
import { askToken } from "./token.js";
import { showConnection } from "./status.js";

const api = new Api(askToken);
const connection = new Connection(() => api.isAlive());
const announcer = new Announcer(document.getElementById("announcements"));
showConnection(connection, announcer);

/** The models are asked for again when a service that was not there has come. */
async function start() {
  const loading = document.getElementById("loading");
  try {
    const { models, limits } = await api.models();
    connection.returns.delete(start);
    loading.hidden = true;
    new App({ api, connection, announcer, models, limits });
  } catch (error) {
    if (error instanceof Unreachable) {
      connection.returns.add(start);
      connection.lost();
    } else loading.textContent = error.message;
  }
}

start();
