import { Button } from "../../ui/button.tsx";
import { Field } from "../../ui/field.tsx";

/** The limits of a model as typed. */
export interface ModelLimitRow {
  model: string;
  requests: string;
  tokens: string;
}

const maxRows = 102;
const emptyRows = 2;
/** The maximum number of fields: a hundred rows and the empty ones. */
export const maxModelLimitFields = 3 * maxRows;

/** Returns the ids and names of a row's fields. */
export function modelLimitFields(place: number): Record<keyof ModelLimitRow, string> {
  return { model: `limitModel_${place}`, requests: `limitRequests_${place}`, tokens: `limitTokens_${place}` };
}

/** Reads the rows of a form, without the empty ones. */
export function readModelLimitRows(form: FormData): ModelLimitRow[] {
  const rows = Array.from({ length: maxRows }, (_, place) => {
    const names = modelLimitFields(place);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    return { model: text(names.model), requests: text(names.requests), tokens: text(names.tokens) };
  });
  return rows.filter(({ model, requests, tokens }) => `${model}${requests}${tokens}` !== "");
}

/** Renders a row for each limited model, and empty rows for more. */
export function ModelLimitFields({
  rows,
  models,
  errors,
  formAction,
}: {
  rows: readonly ModelLimitRow[];
  /** The ids to suggest. */
  models: readonly string[];
  errors: Record<string, string>;
  /** Where the button for more rows sends the form. */
  formAction: string;
}) {
  const empty = Array.from({ length: emptyRows }, () => ({ model: "", requests: "", tokens: "" }));
  return (
    <fieldset id="modelLimits" className="min-w-0 space-y-4">
      <legend className="mb-2 font-medium">Limits by model</legend>
      <p className="text-muted text-small">
        Requests and tokens per minute of single models, in addition to the limits above. To remove a limit, clear its
        row.
      </p>
      {errors.modelLimits ? <p className="text-bad text-small">{errors.modelLimits}</p> : null}
      <datalist id="limit-models">
        {models.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <ol className="divide-y divide-line border-line border-y">
        {[...rows, ...empty].map((row, place) => {
          const names = modelLimitFields(place);
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: A row has no identity but its place.
            <li key={place} className="grid gap-3 py-3 sm:grid-cols-[2fr_1fr_1fr]">
              <Field
                name={names.model}
                label="Model"
                list="limit-models"
                autoCapitalize="none"
                autoComplete="off"
                spellCheck={false}
                defaultValue={row.model}
                error={errors[names.model]}
              />
              <Field
                name={names.requests}
                label="Requests"
                inputMode="numeric"
                autoComplete="off"
                defaultValue={row.requests}
                error={errors[names.requests]}
              />
              <Field
                name={names.tokens}
                label="Tokens"
                inputMode="numeric"
                autoComplete="off"
                defaultValue={row.tokens}
                error={errors[names.tokens]}
              />
            </li>
          );
        })}
      </ol>
      <Button variant="secondary" name="intent" value="rows" formAction={formAction}>
        Add rows
      </Button>
    </fieldset>
  );
}
