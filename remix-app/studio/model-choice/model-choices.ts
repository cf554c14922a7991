import { maxTermLength } from "../../http/search-params.ts";
import { type ModelMark, type ModelRow, modelField } from "./model-options.ts";

/** The state of a form's model picker: the complete selection, and the visible page of the list. */
export interface ModelChoices {
  mode: "all" | "selected";
  /** The ids of the allowed models, including those on other pages of the list. */
  allow: readonly string[];
  deny: readonly string[];
  term: string;
  /** Zero-based. */
  page: number;
}

/**
 * A page of the model list. Each row has the form fields that allow or deny its model. Hidden fields carry the selected
 * models that the page does not show.
 */
export interface PickerView extends ModelChoices {
  rows: (ModelRow & { fields: Record<ModelMark, string> })[];
  hidden: { name: string; value: string }[];
  /** The number of models that match the search term. */
  count: number;
  /** Whether the list is longer than a page, so that searching helps. */
  searchable: boolean;
  hasNext: boolean;
}

/**
 * The maximum number of fields in a form with a picker: two lists of up to a hundred models, plus the form's other
 * fields.
 */
export const maxPickerFields = 260;

export const modelsShown = 25;

/** Returns a picker's initial state. */
export function choicesOf({
  allowed,
  denied = [],
}: {
  allowed: readonly string[] | null;
  denied?: readonly string[];
}): ModelChoices {
  return { mode: allowed === null ? "all" : "selected", allow: allowed ?? [], deny: denied, term: "", page: 0 };
}

/**
 * Reads a picker's fields. `shows` is true if the form was sent only to search or to change the page, by one of the
 * picker's buttons or by Enter in its search field.
 */
export function readModelChoices(form: FormData): { choices: ModelChoices; shows: boolean } {
  const text = (name: string) => String(form.get(name) ?? "").trim();
  const term = text("modelTerm").slice(0, maxTermLength);
  const intent = text("intent");
  const searched = term !== text("modelTermShown");
  const shows = intent === "search" || intent === "next" || intent === "first" || (intent === "" && searched);
  const shown = /^\d{1,4}$/.test(text("modelPage")) ? Number(text("modelPage")) : 0;
  const page = intent === "first" || intent === "search" || searched ? 0 : shown + Number(intent === "next");
  const marked = (mark: ModelMark) =>
    [...form].flatMap(([name, value]) => (name.startsWith(`${mark}_`) ? [String(value)] : []));
  const mode = text("models") === "selected" ? "selected" : "all";
  return { choices: { mode, allow: marked("allow"), deny: marked("deny"), term, page }, shows };
}

/** Returns a page of the models whose name or id matches the picker's search term. */
export function pickerView(all: readonly ModelRow[], choices: ModelChoices): PickerView {
  const term = choices.term.toLowerCase();
  const found = all.filter(({ id, name }) => id.toLowerCase().includes(term) || name.toLowerCase().includes(term));
  const start = choices.page * modelsShown < found.length ? choices.page * modelsShown : 0;
  const rows = found.slice(start, start + modelsShown).map((row) => ({
    ...row,
    fields: { allow: modelField("allow", row.id), deny: modelField("deny", row.id) },
  }));
  const shown = new Set(rows.map(({ id }) => id));
  const hidden = (["allow", "deny"] as const).flatMap((mark) =>
    choices[mark].filter((id) => !shown.has(id)).map((id) => ({ name: modelField(mark, id), value: id })),
  );
  return {
    ...choices,
    page: start / modelsShown,
    rows,
    hidden,
    count: found.length,
    searchable: all.length > modelsShown,
    hasNext: start + modelsShown < found.length,
  };
}
