import { expect, test } from "vitest";
import { choicesOf, modelsShown, pickerView, readModelChoices } from "./model-choices.ts";
import { modelField, modelRows } from "./model-options.ts";

const model = (id: string, granted = true) => ({
  id,
  name: `Model ${id}`,
  kind: "chat" as const,
  granted,
  permitted: true,
});
const options = { models: [model("a/chat-1.5"), model("b", false), model("c")] };

/** Returns what a browser sends from a picker: its hidden fields and the ticked boxes. */
function sent(view: ReturnType<typeof pickerView>, changes: Record<string, string | null> = {}) {
  const form = new FormData();
  form.set("models", view.mode);
  form.set("modelTermShown", view.term);
  form.set("modelPage", String(view.page));
  form.set("modelTerm", view.term);
  for (const { name, value } of view.hidden) form.set(name, value);
  for (const { id, fields } of view.rows) {
    if (view.allow.includes(id)) form.set(fields.allow, id);
    if (view.deny.includes(id)) form.set(fields.deny, id);
  }
  for (const [name, value] of Object.entries(changes)) value === null ? form.delete(name) : form.set(name, value);
  return readModelChoices(form);
}

test("the model picker lists the catalogue's models and any selected models no longer in it, usable models first", () => {
  const rows = modelRows(options, ["gone", "c", "gone"]);
  expect(rows.map(({ id, kind }) => [id, kind])).toEqual([
    ["a/chat-1.5", "chat"],
    ["c", "chat"],
    ["gone", null],
    ["b", "chat"],
  ]);
  for (const { id } of rows) expect(modelField("allow", id)).toMatch(/^[a-z][a-z0-9_]{0,63}$/);
});

test("a model search covers names and ids, and selected models that it hides stay selected", () => {
  const rows = modelRows(options, []);
  const ids = (term: string) => pickerView(rows, { ...choicesOf({ allowed: null }), term }).rows.map(({ id }) => id);
  expect([ids("MODEL B"), ids("a/"), ids("none")]).toEqual([["b"], ["a/chat-1.5"], []]);
  const view = pickerView(rows, { ...choicesOf({ allowed: ["c"], denied: ["b"] }), term: "a/" });
  const { choices, shows } = sent(view, { [modelField("allow", "a/chat-1.5")]: "a/chat-1.5" });
  expect(shows).toBe(false);
  expect(choices).toMatchObject({ mode: "selected", allow: ["c", "a/chat-1.5"], deny: ["b"] });
});

test.each([
  [modelsShown, [modelsShown]],
  [modelsShown + 1, [modelsShown, 1]],
  [2 * modelsShown + 1, [modelsShown, modelsShown, 1]],
])(
  "%d models are listed on pages of 25 without gaps, and models selected on different pages are all kept",
  (length, sizes) => {
    const rows = modelRows({ models: Array.from({ length }, (_, n) => model(`m${n}`)) }, []);
    const seen: string[][] = [];
    let view = pickerView(rows, { ...choicesOf({ allowed: null }), mode: "selected" });
    for (;;) {
      const [first] = view.rows;
      seen.push(view.rows.map(({ id }) => id));
      const tick = { [first?.fields.allow ?? ""]: first?.id ?? "" };
      const { choices, shows } = sent(view, { ...tick, intent: view.hasNext ? "next" : "save" });
      expect(shows).toBe(view.hasNext);
      const { hasNext } = view;
      view = pickerView(rows, choices);
      if (!hasNext) break;
    }
    expect(seen.map((page) => page.length)).toEqual(sizes);
    expect(seen.flat()).toEqual(rows.map(({ id }) => id));
    expect(view.allow).toEqual(seen.map(([first]) => first));
  },
);

test("a model that is deselected on one page of the picker stays deselected on the others", () => {
  const rows = modelRows(options, ["a/chat-1.5", "c"]);
  const searched = pickerView(rows, { ...choicesOf({ allowed: ["a/chat-1.5", "c"] }), term: "a/" });
  const { choices } = sent(searched, { [modelField("allow", "a/chat-1.5")]: null, intent: "search", modelTerm: "" });
  expect(pickerView(rows, choices)).toMatchObject({ allow: ["c"], term: "", hidden: [] });
});

test.each([
  ["a picker button", { intent: "search", modelTerm: "x" }, true],
  ["Enter in the search field", { modelTerm: "x" }, true],
  ["Enter in another field", {}, false],
  ["the save button with a search term typed", { intent: "save", modelTerm: "x" }, false],
])(
  "after %s submits %j, the model picker shows other models only for a search or a page change",
  (_, changes, shows) => {
    expect(sent(pickerView(modelRows(options, []), choicesOf({ allowed: null })), changes).shows).toBe(shows);
  },
);

test("a page number beyond the last page of models shows the first page", () => {
  const rows = modelRows(options, []);
  expect(pickerView(rows, { ...choicesOf({ allowed: null }), page: 7 })).toMatchObject({ page: 0, count: 3 });
});
