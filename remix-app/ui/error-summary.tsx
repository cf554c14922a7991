import { CircleAlert } from "lucide-react";
import { FailedRequest } from "./failed-request.tsx";

type FieldErrors = Record<string, string | null | undefined>;

/**
 * Lists a form's errors above it. Takes the focus when the page loads, and each line links to its field. Errors on our
 * side include the request id to quote.
 */
export function ErrorSummary({
  id,
  form,
  fields = {},
}: {
  id: string;
  /** Errors of the form as a whole: one message, or Conform's list. */
  form?: string | string[] | null | undefined;
  /** Error messages of fields, keyed by the field's element id. */
  fields?: FieldErrors;
}) {
  const formErrors = form ? [form].flat() : [];
  const faults = Object.entries(fields).filter(([, message]) => message);
  if (formErrors.length + faults.length === 0) return null;
  return (
    <div
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
        <FailedRequest />
      </div>
    </div>
  );
}

/** Returns the first error of each of Conform's fields, for the summary. */
export function fieldErrors(fields: Record<string, { id: string; errors?: string[] | undefined }>): FieldErrors {
  return Object.fromEntries(Object.values(fields).map(({ id, errors }) => [id, errors?.[0]]));
}
