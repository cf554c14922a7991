import { ErrorSummary } from "../ui/error-summary.tsx";
import { CheckBox, Field, type FieldProps } from "../ui/field.tsx";
import type { Confirmation } from "./confirmation.ts";
import type { FailedChange } from "./failed-change.ts";

type Failed = { failed: FailedChange | undefined };

/** Renders a text field of a change with the typed value, or else the current one, and what is wrong with it. */
export function ChangeField({
  name,
  value,
  failed,
  ...field
}: Failed & { name: string; value?: string | number | null | undefined } & Omit<FieldProps, "name" | "value">) {
  return (
    <Field
      autoComplete="off"
      {...field}
      name={name}
      defaultValue={failed?.typed[name] ?? value ?? ""}
      error={failed?.fields[name]?.[0]}
    />
  );
}

/** Renders a checkbox of a change as it was sent, or else with the current setting. */
export function ChangeTick({
  name,
  value,
  failed,
  ...box
}: Failed & { name: string; label: string; hint?: string; value: boolean }) {
  return <CheckBox {...box} name={name} defaultChecked={failed ? name in failed.typed : value} />;
}

/** Renders the field for the reason of a change. */
export function ReasonField(props: Pick<FieldProps, "defaultValue" | "error">) {
  return (
    <Field
      {...props}
      name="reason"
      label="Reason"
      hint="Recorded permanently in the audit log."
      maxLength={500}
      required
      autoComplete="off"
    />
  );
}

/** Renders the field in which an admin types a text to confirm a change. */
export function ConfirmationField({ text, what, failed }: Failed & Confirmation) {
  return (
    <Field
      name="confirmation"
      label={`Type “${text}” to confirm`}
      hint={`This is ${what}.`}
      required
      autoComplete="off"
      autoCapitalize="none"
      spellCheck={false}
      // Empty if another admin made a change first, so that this admin looks again before confirming.
      defaultValue={failed?.message ? undefined : failed?.typed.confirmation}
      error={failed?.fields.confirmation?.[0]}
    />
  );
}

/** Lists why a change failed, with the errors of its reason and confirmation last. Renders nothing if nothing failed. */
export function ChangeErrors({ failed }: Failed) {
  const { reason, confirmation, ...others } = failed?.fields ?? {};
  const faults = Object.entries({ ...others, reason, confirmation }).map(([name, messages]) => [name, messages?.[0]]);
  return <ErrorSummary id="change-error" form={failed?.message} fields={Object.fromEntries(faults)} />;
}
