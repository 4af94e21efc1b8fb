// The key and what it has: plan, quota and cost, in a dialog.

import { authorization, callJson, currentKey, explain, useKey } from "./api.js";
import { daemon } from "./contract.js";
import { dollars, find, h } from "./dom.js";

/** The last answer of `/account`, or null. */
export let account = null;

/** The account of another key. */
export const of = (key) => callJson("/account", { headers: authorization(key) });

/** Asks for the account of the key; false where there is no valid key. */
export async function refresh() {
  if (!currentKey()) {
    account = null;
    show();
    return false;
  }
  try {
    account = await callJson("/account");
    return true;
  } catch (error) {
    // Only a refused key is forgotten: the server may be away for a moment.
    if (error.status === 401) {
      account = null;
      useKey("");
    }
    throw error;
  } finally {
    show();
  }
}

/** The text of the button in the header. */
function show() {
  const button = find("account-button");
  if (!account) {
    button.textContent = "Enter key";
    return;
  }
  const { remaining: left, cost_usd: cost } = account;
  const use = left !== null ? `· ${left} left` : daemon.show_prices ? `· ${dollars(cost)}` : "";
  button.replaceChildren(`Key …${currentKey().slice(-4)}`, ...(use ? [h("span", { class: "spare" }, use)] : []));
}

/** Opens the dialog; resolves with whether there is a valid key when it is closed. */
export function openDialog(message = "") {
  const dialog = find("account");
  const draw = (text, bad) => dialog.replaceChildren(account ? summary(dialog, () => draw("", false)) : entry(dialog, text, bad, draw));
  draw(message, false);
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(account !== null), { once: true }));
}

function entry(dialog, text, bad, draw) {
  const input = h("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true, placeholder: "bd_live_…", "aria-describedby": "key-about" });
  const submit = async (event) => {
    event.preventDefault();
    try {
      useKey(input.value);
      if (await refresh()) dialog.close();
    } catch (error) {
      draw(explain(error), true);
    }
  };
  return h("form", { onsubmit: submit },
    h("h2", { id: "account-title" }, "Enter your API key"),
    h("p", { id: "key-about", class: "muted" }, "It stays in this tab until you close it, and is sent to this server only. The operator of the server makes keys with ", h("code", {}, "backdrop keys create"), "."),
    text ? h("p", { class: bad ? "note bad" : "note", role: bad ? "alert" : null }, text) : null,
    h("label", { for: "key" }, "API key"), input,
    h("div", { class: "actions" }, h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Not now"), h("button", { class: "button primary" }, "Use this key")));
}

function summary(dialog, redraw) {
  const { plan, used, quota, remaining, cost_usd: cost, resets_at: resets, model, test, rate } = account;
  const row = (title, value) => [h("dt", {}, title), h("dd", {}, value)];
  const change = () => { useKey(""); account = null; show(); redraw(); };
  return h("div", { class: "stack" },
    h("h2", { id: "account-title" }, "This key"),
    h("dl", {},
      daemon.show_prices ? row("Plan", test ? `${plan} (sandbox key: never billed)` : plan) : [],
      row("Images this month", quota === null ? String(used) : `${used} of ${quota}`),
      remaining === null ? [] : row("Left", `${remaining}, until ${new Date(resets).toLocaleDateString()}`),
      daemon.show_prices ? row("Cost this month", dollars(cost)) : [],
      row("Requests", `${rate.limit} a minute`),
      row("Model", model)),
    h("div", { class: "actions" }, h("button", { type: "button", class: "button", onclick: change }, "Change key"), h("button", { type: "button", class: "button primary", onclick: () => dialog.close() }, "Close")));
}
