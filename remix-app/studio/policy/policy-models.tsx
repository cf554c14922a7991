import { Dotted } from "../../ui/facts.tsx";
import type { PolicyFields } from "./policy-form.ts";
import type { ModelRow, PolicyFrame } from "./policy-frame.ts";

const kinds = { chat: "Text", embedding: "Embeddings", speech: "Speech" } as const;

const choices = [
  { value: "", label: "No rule" },
  { value: "allow", label: "Allow" },
  { value: "deny", label: "Deny" },
] as const;

/** What stands in the way of a model whatever the policy says. */
function obstacle({ kind, granted }: ModelRow, { plan }: Pick<PolicyFrame, "plan">): string | null {
  if (kind === null) return "Not in the catalogue any more";
  return granted ? null : `Not granted by the plan${plan ? ` ${plan}` : ""}`;
}

/** Which models may be used, of those that the catalogue has and the plan grants. */
export function PolicyModels({
  rows,
  frame,
  fields,
  error,
}: {
  rows: ModelRow[];
  frame: Pick<PolicyFrame, "plan">;
  fields: Pick<PolicyFields, "models" | "choices">;
  error: string | undefined;
}) {
  const shown = rows.filter(({ field, granted }) => granted || (fields.choices[field] ?? "") !== "");
  const others = rows.filter((row) => !shown.includes(row));
  return (
    <div className="space-y-5">
      <fieldset className="space-y-2" aria-describedby={error ? "models-error" : undefined}>
        <legend className="mb-1.5 font-medium">Which models calls may use</legend>
        {error ? (
          <p id="models-error" className="text-bad text-small">
            {error}
          </p>
        ) : null}
        <Choice id="models" name="models" value="all" chosen={fields.models === "all"}>
          All that the plan allows, new ones too, except those denied below
        </Choice>
        <Choice id="models-listed" name="models" value="listed" chosen={fields.models === "listed"}>
          Only those allowed below
        </Choice>
      </fieldset>
      <ul>
        {shown.map((row) => (
          <ModelRules key={row.id} row={row} frame={frame} fields={fields} />
        ))}
      </ul>
      {others.length > 0 ? (
        <details className="border-line border-t pt-3">
          <summary className="min-h-6 cursor-pointer text-muted hover:text-ink">
            {others.length} that the plan{frame.plan ? ` ${frame.plan}` : ""} does not grant
          </summary>
          <ul className="pt-3">
            {others.map((row) => (
              <ModelRules key={row.id} row={row} frame={frame} fields={fields} />
            ))}
          </ul>
        </details>
      ) : null}
    </div>
  );
}

function ModelRules({
  row,
  frame,
  fields,
}: {
  row: ModelRow;
  frame: Pick<PolicyFrame, "plan">;
  fields: Pick<PolicyFields, "choices">;
}) {
  const stopped = obstacle(row, frame);
  return (
    <li className="border-line border-t py-3">
      <fieldset className="flex flex-wrap items-start justify-between gap-x-6 gap-y-2">
        <legend className="float-left mr-auto min-w-0 break-words">
          <span className={stopped ? "text-muted" : "font-medium"}>{row.name}</span>{" "}
          {row.name === row.id ? null : <code className="font-mono text-muted text-small">{row.id}</code>}
          <span className="block text-muted text-small">
            <Dotted facts={[row.kind ? kinds[row.kind] : "", stopped]} />
          </span>
        </legend>
        <div className="flex flex-wrap gap-x-5 gap-y-2">
          {choices.map(({ value, label }) => (
            <Choice
              key={value}
              id={`${row.field}-${value || "none"}`}
              name={row.field}
              value={value}
              chosen={(fields.choices[row.field] ?? "") === value}
            >
              {label}
            </Choice>
          ))}
        </div>
      </fieldset>
    </li>
  );
}

function Choice({
  id,
  name,
  value,
  chosen,
  children,
}: {
  id: string;
  name: string;
  value: string;
  chosen: boolean;
  children: string;
}) {
  return (
    <label htmlFor={id} className="flex min-h-6 cursor-pointer items-start gap-2">
      <input
        id={id}
        type="radio"
        name={name}
        value={value}
        defaultChecked={chosen}
        className="mt-0.75 size-4 shrink-0 cursor-pointer accent-accent"
      />
      {children}
    </label>
  );
}
