import { ChevronRight, CircleAlert } from "lucide-react";
import { useEffect } from "react";
import { Button } from "../../ui/button.tsx";
import { CodeBlock } from "../../ui/code-block.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Select, TextArea } from "../../ui/field.tsx";
import type { FieldErrors } from "./chat-form.ts";
import type { ToolCall } from "./chat-message.ts";
import type { Failure } from "./failure.ts";
import type { PlaygroundModel } from "./list-models.ts";
import type { CodeSample } from "./request-code.ts";

/** Selects one of a panel's models. The chosen model stays selectable even if a search excludes it. */
export function ModelSelect({ models, chosen }: { models: readonly PlaygroundModel[]; chosen: string | undefined }) {
  return (
    <Select name="model" label="Model" defaultValue={chosen}>
      {chosen && !models.some(({ id }) => id === chosen) ? <option value={chosen}>{chosen}</option> : null}
      {models.map(({ id, name }) => (
        <option key={id} value={id}>
          {name === id ? id : `${name} (${id})`}
        </option>
      ))}
    </Select>
  );
}

/** Shows the current request as code, one language at a time. */
export function CodeSamples({ samples }: { samples: readonly CodeSample[] }) {
  return (
    <section aria-labelledby="playground-code" className="rounded-card border border-line bg-surface p-4 sm:p-5">
      <h2 id="playground-code" className="font-semibold text-large">
        Copy as code
      </h2>
      <p className="mb-2 text-muted">
        Code for the current request. Set <code>GATEHOUSE_API_KEY</code> to an API key of this workspace.
      </p>
      {samples.map(({ label, code }) => (
        <details key={label} name="playground-code" className="group border-line not-last:border-b">
          <summary className="flex cursor-pointer items-center gap-1.5 rounded-button py-2 font-medium">
            <ChevronRight aria-hidden="true" className="size-4 shrink-0 text-muted group-open:rotate-90" />
            {label}
          </summary>
          <div className="pb-3">
            <CodeBlock wrap label={label} code={code} />
          </div>
        </details>
      ))}
    </section>
  );
}

/** Shows why the answer is missing, and the request id to quote. */
export function FailureNotice({ failure }: { failure: Failure | null }) {
  if (!failure) return null;
  return (
    <div role="alert" className="flex gap-2.5 rounded-card border border-bad/40 bg-bad-soft p-3">
      <CircleAlert aria-hidden="true" className="mt-0.5 size-4 shrink-0 text-bad" />
      <div className="min-w-0 space-y-1">
        <p>{failure.sentence}</p>
        {failure.requestId ? (
          <p className="text-muted text-small">
            Request ID <code className="break-all font-mono">{failure.requestId}</code>
          </p>
        ) : null}
      </div>
    </div>
  );
}

const errorsId = "playground-error";

/** Shows the errors of a panel's form. Each attempt moves the focus to them. */
export function FormErrors({ errors, attempts }: { errors: FieldErrors; attempts: number }) {
  useEffect(() => {
    if (attempts > 0) document.getElementById(errorsId)?.focus();
  }, [attempts]);
  return <ErrorSummary id={errorsId} fields={errors} />;
}

/**
 * Renders the send button and, while a request is in progress, a stop button. The send button stays in place, so that
 * it keeps the focus.
 */
export function SendBar({ label, busy, stop }: { label: string; busy: boolean; stop: () => void }) {
  return (
    <>
      <Button aria-disabled={busy || undefined} aria-keyshortcuts="Control+Enter">
        {label}
      </Button>
      {busy ? (
        <Button
          type="button"
          variant="secondary"
          aria-keyshortcuts="Escape"
          onClick={({ currentTarget }) => {
            // This button is removed, so the focus has to move.
            currentTarget.form?.querySelector<HTMLButtonElement>("button[aria-disabled]")?.focus();
            stop();
          }}
        >
          Stop
        </Button>
      ) : null}
      <span className="text-muted text-small noscript:hidden">{busy ? "Esc to stop" : "Ctrl+Enter"}</span>
    </>
  );
}

interface ComposerProps {
  /** The calls that need results. */
  calls: readonly ToolCall[];
  typed: Record<string, string>;
  errors: FieldErrors;
}

/** Renders the next input: a message, or the results of the tools that the model called. */
export function Composer({ calls, typed, errors }: ComposerProps) {
  if (calls.length === 0) {
    return <TextArea name="prompt" label="Message" defaultValue={typed.prompt} error={errors.prompt} />;
  }
  return (
    <div className="space-y-4">
      {calls.map(({ id, function: { name } }, index) => (
        <TextArea
          key={id}
          name={`result${index}`}
          label={`Result of ${name}`}
          hint="What your app would return: JSON or text."
          mono
          spellCheck={false}
          defaultValue={typed[`result${index}`]}
          error={errors[`result${index}`]}
        />
      ))}
    </div>
  );
}
