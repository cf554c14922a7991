import type { ReactNode } from "react";
import { CodeBlock } from "../ui/code-block.tsx";
import type { OperationView } from "./describe.ts";
import type { SchemaLine } from "./schema-lines.ts";
import { TryCall, type TryCallProps } from "./try-call.tsx";

/** Renders an API operation: what it does, who may call it, its parameters and answers, and how to send it. */
export function OperationSection({
  operation,
  ...visit
}: { operation: OperationView } & Pick<TryCallProps, "visitor" | "signInPath">) {
  const { id, method, path, summary, description, credentials, parameters, body, answers, errors, curl } = operation;
  return (
    <section
      id={id}
      aria-labelledby={`${id}-title`}
      className="min-w-0 scroll-mt-6 space-y-4 rounded-card border border-line bg-surface p-4 sm:p-5"
    >
      <div className="space-y-2">
        <h2 id={`${id}-title`} className="font-semibold text-large">
          {summary}
        </h2>
        <p className="break-all py-0.5 font-mono text-small">
          <MethodBadge method={method} /> {path}
        </p>
        {description ? <p>{description}</p> : null}
      </div>
      <OperationPart title="Authentication">
        {credentials.length === 0 ? (
          <p>None required.</p>
        ) : (
          <ul className="space-y-1">
            {credentials.map(({ name, description: what }) => (
              <li key={name}>
                <code className="font-mono text-small">{name}</code> <span className="text-muted">{what}</span>
              </li>
            ))}
          </ul>
        )}
      </OperationPart>
      {parameters.length > 0 ? (
        <OperationPart title="Parameters">
          <ul className="space-y-1.5">
            {parameters.map(({ name, place, type, required, notes, description: what }) => (
              <li key={`${place} ${name}`}>
                <SchemaLineLabel
                  name={name}
                  type={`${place}, ${type}`}
                  required={required}
                  notes={notes}
                  description={what}
                />
              </li>
            ))}
          </ul>
        </OperationPart>
      ) : null}
      {body ? (
        <OperationPart title="Body">
          <SchemaFields lines={body} />
        </OperationPart>
      ) : null}
      <CodeBlock label="Request" name={summary} code={curl} />
      <OperationPart title="Response">
        <ul className="space-y-3">
          {answers.map(({ status, description: what, types, lines, sample }) => (
            <li key={status} className="space-y-1.5">
              <p>
                <code className="font-mono text-good text-small">{status}</code> {what}{" "}
                {types.length > 0 ? <span className="text-muted text-small">{types.join(", ")}</span> : null}
              </p>
              <SchemaFields lines={lines} />
              {sample === null ? null : <CodeBlock label={`Sample ${status}`} name={summary} code={sample} />}
            </li>
          ))}
        </ul>
      </OperationPart>
      <OperationPart title="Errors">
        <details className="rounded-card border border-line" open={errors.length <= 8}>
          <summary className="cursor-pointer px-3 py-1.5 font-medium text-muted text-small hover:text-ink">
            {errors.length} {errors.length === 1 ? "code" : "codes"}
          </summary>
          <ul className="divide-y divide-line border-line border-t px-3">
            {errors.map(({ status, code, meaning }) => (
              <li key={`${status} ${code} ${meaning}`} className="flex flex-wrap gap-x-3 py-1.5">
                <code className="wrap-anywhere min-w-0 font-mono text-small">
                  <span className="text-bad">{status}</span> {code}
                </code>
                <span className="min-w-0">{meaning}</span>
              </li>
            ))}
          </ul>
        </details>
      </OperationPart>
      {operation.tryIt ? <TryCall operationId={id} view={operation.tryIt} {...visit} /> : null}
    </section>
  );
}

export function MethodBadge({ method }: { method: string }) {
  return <span className="rounded-button bg-accent-soft px-1.5 py-0.5 font-semibold text-accent">{method}</span>;
}

function OperationPart({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="space-y-1.5">
      <h3 className="font-medium text-muted text-small">{title}</h3>
      {children}
    </div>
  );
}

function SchemaFields({ lines }: { lines: readonly SchemaLine[] }) {
  if (lines.length === 0) return null;
  return (
    <details className="rounded-card border border-line" open={lines.length <= 6}>
      <summary className="cursor-pointer px-3 py-1.5 font-medium text-muted text-small hover:text-ink">Fields</summary>
      <div className="border-line border-t px-3 py-2">
        <Lines lines={lines} />
      </div>
    </details>
  );
}

function Lines({ lines }: { lines: readonly SchemaLine[] }) {
  return (
    <ul className="space-y-1.5">
      {lines.map(({ name, type, required, notes, description, children }, index) => (
        <li key={name ?? `${type} ${index}`} className="min-w-0">
          <SchemaLineLabel name={name} type={type} required={required} notes={notes} description={description} />
          {children.length > 0 ? (
            <div className="mt-1.5 border-line border-l pl-3">
              <Lines lines={children} />
            </div>
          ) : null}
        </li>
      ))}
    </ul>
  );
}

function SchemaLineLabel({
  name,
  type,
  required,
  notes,
  description,
}: {
  name: string | undefined;
  type: string;
  required: boolean;
  notes: readonly string[];
  description: string | undefined;
}) {
  return (
    <p className="break-words [overflow-wrap:anywhere]">
      {name === undefined ? <span className="text-muted text-small">one of: </span> : null}
      {name === undefined ? null : <code className="font-medium font-mono text-small">{name}</code>}{" "}
      <span className="text-muted text-small">
        {[type, ...(required ? ["required"] : []), ...notes].join(", ")}
        {description ? `. ${description}` : ""}
      </span>
    </p>
  );
}
