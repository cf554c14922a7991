import { ErrorSummary } from "../../ui/error-summary.tsx";
import type { FieldErrors } from "./chat-form.ts";

/** What is wrong with a panel's form; each attempt takes the focus to it anew. */
export function FormErrors({ errors, attempts }: { errors: FieldErrors; attempts: number }) {
  const fields = Object.entries(errors).map(([fieldId, message]) => ({ fieldId, message }));
  return <ErrorSummary key={attempts} id="playground-error" form={undefined} fields={fields} />;
}
