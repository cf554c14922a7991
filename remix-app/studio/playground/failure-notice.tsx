import { CircleAlert } from "lucide-react";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import type { FieldErrors } from "./chat-form.ts";
import type { Failure } from "./failure.ts";

/** Why there is no answer, and what to quote. */
export function FailureNotice({ failure }: { failure: Failure | null }) {
  if (!failure) return null;
  return (
    <div role="alert" className="flex gap-2.5 rounded-card border border-bad/40 bg-bad-soft p-3">
      <CircleAlert aria-hidden="true" className="mt-0.5 size-4 shrink-0 text-bad" />
      <div className="min-w-0 space-y-1">
        <p>{failure.sentence}</p>
        {failure.requestId ? (
          <p className="text-muted text-small">
            Request id <code className="break-all font-mono">{failure.requestId}</code>
          </p>
        ) : null}
      </div>
    </div>
  );
}

/** The errors of a panel's form. Each attempt moves the focus to them. */
export function FormErrors({ errors, attempts }: { errors: FieldErrors; attempts: number }) {
  return <ErrorSummary key={attempts} id="playground-error" fields={errors} />;
}
