// Presets of the account: choose one, save the settings as one, delete one.

import { callJson, explain } from "./api.js";
import { h } from "./dom.js";

/** The presets of the account, loaded once for a key and after each change. */
export class Presets {
  list = [];

  async load() {
    const list = [];
    let cursor = "";
    try {
      do {
        const page = await callJson(`/presets${cursor && `?cursor=${encodeURIComponent(cursor)}`}`);
        list.push(...page.presets);
        cursor = page.next_cursor ?? "";
      } while (cursor);
    } finally {
      // Not page by page: a chosen preset that is missing here is given up.
      this.list = list;
    }
  }

  /** Those that may be used at an endpoint. */
  of(path) {
    return this.list.filter((preset) => !preset.endpoint || preset.endpoint === path);
  }
}

/** The section of presets. `params()` are the settings to save; `onchoose` gets a preset or null. */
export function presetsPanel({ presets, endpoint, chosen, params, onchoose, onchange }) {
  const own = presets.of(endpoint.path);
  const message = h("p", { class: "small-text", role: "status" });
  const attempt = async (work) => {
    try {
      await work();
      await presets.load();
      onchange();
    } catch (error) {
      message.textContent = explain(error);
    }
  };
  const menu = h("select", { "aria-label": "Preset", onchange: (event) => onchoose(own.find((preset) => preset.id === event.target.value) ?? null) },
    h("option", { value: "" }, "No preset"), own.map((preset) => h("option", { value: preset.id, selected: preset.id === chosen?.id }, preset.name)));
  const remove = h("button", { type: "button", class: "button small", disabled: !chosen, onclick: () => attempt(async () => {
    await callJson("/presets", { method: "DELETE", json: { id: chosen.id } });
    onchoose(null);
  }) }, "Delete");
  const name = h("input", { type: "text", "aria-label": "Name of the preset", placeholder: "Name", maxlength: 100, required: true });
  const store = h("button", { type: "button", class: "button small", onclick: () => attempt(async () => {
    if (!name.reportValidity()) return;
    const saved = await callJson("/presets", { method: "POST", json: { name: name.value.trim(), endpoint: endpoint.path, params: params() } });
    await presets.load();
    onchoose(presets.list.find((preset) => preset.id === saved.id) ?? null);
  }) }, "Save");
  return h("details", {}, h("summary", {}, "Presets"),
    h("div", { class: "more-fields" }, h("div", { class: "line" }, menu, remove), h("div", { class: "line" }, name, store), message));
}
