import type { ReactNode } from "react";
import { Button } from "../../ui/button.tsx";
import { DotSeparated } from "../../ui/facts.tsx";
import { SearchField } from "../../ui/search-form.tsx";
import type { PickerView } from "./model-choices.ts";
import type { ModelRow } from "./model-options.ts";

export const kindLabels = { chat: "Text", embedding: "Embeddings", speech: "Speech" } as const;

/** Returns why a model cannot be called even when it is selected, or null. */
function obstacle({ kind, granted, permitted }: ModelRow, plan: string | null, heedsPolicy: boolean): string | null {
  if (kind === null) return "No longer in the catalogue";
  if (!granted) return `Not granted by the plan${plan ? ` ${plan}` : ""}`;
  return heedsPolicy && !permitted ? "Not allowed by the workspace’s policy" : null;
}

/**
 * Lets a person choose models within a form, with or without JavaScript. A search or a change of page submits the form,
 * and the form is rendered again with everything that was typed and selected.
 */
export function ModelPicker({
  view,
  plan,
  legend,
  words,
  denies = false,
  error,
  formAction,
}: {
  view: PickerView;
  plan: string | null;
  legend: string;
  /** The labels of the two modes. */
  words: Record<PickerView["mode"], string>;
  /** Whether models can also be denied, as in a policy. A key can only allow models, and the policy still applies. */
  denies?: boolean;
  error: string | undefined;
  /** Where searching and paging send the form. Defaults to the form's own target. */
  formAction?: string;
}) {
  const { rows, hidden, term, page, count, searchable, hasNext } = view;
  const send = formAction === undefined ? {} : { formAction };
  const selectedElsewhere = view.allow.filter((id) => !rows.some((row) => row.id === id)).length;
  return (
    <fieldset
      id="models"
      className="group/models min-w-0 space-y-4"
      aria-describedby={error ? "models-error" : undefined}
    >
      <legend className="mb-2 font-medium">{legend}</legend>
      {error ? (
        <p id="models-error" className="text-bad text-small">
          {error}
        </p>
      ) : null}
      <div className="space-y-2">
        {(["all", "selected"] as const).map((mode) => (
          <label key={mode} htmlFor={`models-${mode}`} className="flex min-h-6 cursor-pointer items-start gap-2">
            <input
              id={`models-${mode}`}
              type="radio"
              name="models"
              value={mode}
              defaultChecked={view.mode === mode}
              className="mt-0.75 size-4 shrink-0 cursor-pointer accent-accent"
            />
            {words[mode]}
          </label>
        ))}
      </div>
      <input type="hidden" name="modelTermShown" value={term} />
      <input type="hidden" name="modelPage" value={page} />
      {hidden.map((field) => (
        <input key={field.name} type="hidden" {...field} />
      ))}
      <div className={denies ? "space-y-4" : "space-y-4 group-has-[#models-all:checked]/models:hidden"}>
        {searchable ? (
          <div className="flex max-w-120 flex-wrap items-end gap-3">
            <SearchField name="modelTerm" label="Find a model" term={term} />
            <Button variant="secondary" name="intent" value="search" {...send}>
              Search
            </Button>
          </div>
        ) : null}
        {denies ? (
          <p className="text-muted">Models marked “Deny” are always refused, even with “{words.all}”.</p>
        ) : null}
        {count === 0 ? <p className="text-muted">{`No model matches “${term}”.`}</p> : null}
        <ul className="divide-y divide-line border-line border-y">
          {rows.map((row) => (
            <ModelLine key={row.id} row={row} view={view} plan={plan} denies={denies} />
          ))}
        </ul>
        <div className="flex flex-wrap items-center gap-3">
          <p className="text-muted">
            {`${rows.length} of ${count} ${count === 1 ? "model" : "models"} shown.`}
            {selectedElsewhere > 0 ? ` ${selectedElsewhere} selected, but not shown.` : null}
          </p>
          {page > 0 ? (
            <Button variant="secondary" name="intent" value="first" {...send}>
              First models
            </Button>
          ) : null}
          {hasNext ? (
            <Button variant="secondary" name="intent" value="next" {...send}>
              More models
            </Button>
          ) : null}
        </div>
      </div>
    </fieldset>
  );
}

function ModelLine({
  row,
  view,
  plan,
  denies,
}: {
  row: PickerView["rows"][number];
  view: PickerView;
  plan: string | null;
  denies: boolean;
}) {
  const { id, name, kind, fields } = row;
  const stopped = obstacle(row, plan, !denies);
  return (
    <li className="flex items-start justify-between gap-x-4 py-2.5">
      <Mark field={fields.allow} id={id} marked={view.allow.includes(id)} selects>
        <span className={stopped ? "text-muted" : "font-medium"}>{name}</span>{" "}
        {name === id ? null : <code className="font-mono text-muted text-small">{id}</code>}
        <span className="block text-muted text-small">
          <DotSeparated facts={[kind ? kindLabels[kind] : "", stopped]} />
        </span>
      </Mark>
      {denies ? (
        <Mark field={fields.deny} id={id} marked={view.deny.includes(id)}>
          Deny<span className="sr-only"> {name}</span>
        </Mark>
      ) : null}
    </li>
  );
}

function Mark({
  field,
  id,
  marked,
  selects = false,
  children,
}: {
  field: string;
  id: string;
  marked: boolean;
  /** Whether the checkbox belongs to “Only selected models”. The checkbox is hidden while the other mode is chosen. */
  selects?: boolean;
  children: ReactNode;
}) {
  return (
    <label
      htmlFor={field}
      className={`flex min-h-6 cursor-pointer items-start gap-2 ${selects ? "wrap-anywhere min-w-0 group-has-[#models-all:checked]/models:pointer-events-none" : "shrink-0"}`}
    >
      <input
        id={field}
        type="checkbox"
        name={field}
        value={id}
        defaultChecked={marked}
        className={`mt-0.75 size-4 shrink-0 cursor-pointer accent-accent ${selects ? "group-has-[#models-all:checked]/models:hidden" : ""}`}
      />
      <span className="min-w-0">{children}</span>
    </label>
  );
}

/**
 * Renders a hidden submit button to place first in a form with a picker. Otherwise, Enter would press one of the
 * picker's own buttons.
 */
export function DefaultSubmit({ children }: { children: string }) {
  return (
    <button type="submit" tabIndex={-1} aria-hidden="true" className="sr-only">
      {children}
    </button>
  );
}
