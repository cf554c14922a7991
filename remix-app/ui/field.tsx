import type { ComponentPropsWithoutRef, ReactNode } from "react";

export interface FieldProps extends ComponentPropsWithoutRef<"input"> {
  id: string;
  label: string;
  errorId: string;
  errors: string[] | undefined;
  hint?: string;
  /** Beside the label, such as a link to what helps with this field. */
  aside?: ReactNode;
  /** Inside the field's end, such as a button that shows a password. */
  trailing?: ReactNode;
}

const inputClass =
  "block h-10 w-full min-w-0 rounded-card border bg-surface px-3 text-ink text-large placeholder:text-muted sm:text-body";

/** A labelled input; its hint and error stand above it and are tied to it. */
export function Field({ id, label, errorId, errors, hint, aside, trailing, ...input }: FieldProps) {
  const invalid = errors !== undefined && errors.length > 0;
  const hintId = `${id}-hint`;
  const describedBy = [invalid ? errorId : "", hint ? hintId : ""].filter(Boolean).join(" ");
  return (
    <div className="space-y-1.5">
      <div className="flex items-baseline justify-between gap-4">
        <label id={`${id}-label`} htmlFor={id} className="wrap-anywhere min-w-0 font-medium">
          {label}
        </label>
        {aside}
      </div>
      {hint ? (
        <p id={hintId} className="text-muted text-small">
          {hint}
        </p>
      ) : null}
      {invalid ? (
        <p id={errorId} className="text-bad text-small">
          {errors[0]}
        </p>
      ) : null}
      <div className="relative">
        <input
          {...input}
          id={id}
          aria-invalid={invalid || undefined}
          aria-describedby={describedBy || undefined}
          className={`${inputClass} ${invalid ? "border-bad" : "border-edge"} ${trailing ? "pr-18" : ""}`}
        />
        {trailing}
      </div>
    </div>
  );
}

/** The input of the email address that names an account, for password managers too. */
export function EmailField(props: Omit<FieldProps, "type" | "label">) {
  return (
    <Field autoComplete="username" {...props} label="Email" type="email" autoCapitalize="none" spellCheck={false} />
  );
}

/** A password's input, with a button that shows it; the button appears where its script runs. */
export function PasswordField(props: Omit<FieldProps, "type" | "trailing">) {
  return (
    <Field
      {...props}
      type="password"
      spellCheck={false}
      autoCapitalize="none"
      trailing={
        <button
          type="button"
          hidden
          data-reveals={props.id}
          aria-pressed="false"
          aria-controls={props.id}
          aria-describedby={`${props.id}-label`}
          className="absolute inset-y-1 right-1 cursor-pointer rounded-button px-2.5 font-medium text-muted text-small hover:bg-sunken hover:text-ink"
        >
          <span>Show</span>
        </button>
      }
    />
  );
}
