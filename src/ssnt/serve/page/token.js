/** Asks for the token that the service wants. */

/**
 * @param {boolean} wasRefused Whether a token was given that the service does not take.
 * @returns {Promise<string>}
 */
export function askToken(wasRefused) {
  const dialog = document.getElementById("token-dialog");
  const field = document.getElementById("token");
  document.getElementById("token-refused").hidden = !wasRefused;
  field.value = "";
  dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    dialog.querySelector("form").addEventListener(
      "submit",
      () => {
        const token = field.value;
        field.value = "";
        resolve(token);
      },
      { once: true },
    );
  });
}

// without a token there is nothing to go back to
document.getElementById("token-dialog").addEventListener("cancel", (event) => event.preventDefault());
