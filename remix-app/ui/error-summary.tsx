import { useActionData } from "@remix-run/react";
import { CircleAlert } from "lucide-react";
import { useEffect, useRef } from "react";
import { FailedRequest } from "./failed-request.tsx";

type FieldErrors = Record<string, string | null | undefined>;

/**
 * What is wrong with a form, above it. Takes the focus with each answer to it, and each line leads to its field. A
 * failure of ours says what to quote.
 */
export function ErrorSummary({
  id,
  form,
  fields = {},
  requestId,
}: {
  id: string;
  /** What is wrong with the form as a whole: one message, or Conform's list. */
  form?: string | string[] | null | undefined;
  /** What is wrong with each field, by its id. */
  fields?: FieldErrors;
  /** Of a failure of ours, on a page that is alive; others know it. */
  requestId?: string | null;
}) {
  const formErrors = form ? [form].flat() : [];
  const faults = Object.entries(fields).filter(([, message]) => message);
  const summary = useRef<HTMLDivElement>(null);
  const failed = formErrors.length + faults.length > 0;
  // Where a script shows it: browsers heed autofocus on pages that arrive, and React on fields alone.
  const answer = useActionData<unknown>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: a second failure looks the same, but for being another answer
  useEffect(() => {
    if (failed) summary.current?.focus();
  }, [failed, answer]);
  if (!failed) return null;
  return (
    <div
      ref={summary}
      id={id}
      role="alert"
      tabIndex={-1}
      // biome-ignore lint/a11y/noAutofocus: the answer to a form that failed begins at what is wrong with it
      autoFocus
      className="flex gap-2.5 rounded-card border border-bad/40 bg-bad-soft p-3 outline-accent outline-offset-2 focus:outline-2"
    >
      <CircleAlert aria-hidden="true" className="mt-0.5 size-4 shrink-0 text-bad" />
      <div className="min-w-0 space-y-1">
        <ul className="space-y-1">
          {formErrors.map((message) => (
            <li key={message}>{message}</li>
          ))}
          {faults.map(([fieldId, message]) => (
            <li key={fieldId}>
              <a className="link text-bad hover:text-bad" href={`#${fieldId}`}>
                {message}
              </a>
            </li>
          ))}
        </ul>
        <FailedRequest id={requestId} />
      </div>
    </div>
  );
}

/** The first error of each of Conform's fields, for the summary. */
export function fieldErrors(fields: Record<string, { id: string; errors?: string[] | undefined }>): FieldErrors {
  return Object.fromEntries(Object.values(fields).map(({ id, errors }) => [id, errors?.[0]]));
}
