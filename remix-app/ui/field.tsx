import type { ComponentPropsWithoutRef, ReactNode } from "react";

/** A field as Conform describes it. */
export interface FormField {
  id: string;
  name: string;
  initialValue?: string | undefined;
  errors?: string[] | undefined;
}

interface Described {
  label: string;
  hint?: string | undefined;
  error?: string | null | undefined;
  /** Content next to the label, such as a link that helps with this field. */
  aside?: ReactNode;
}

export interface FieldProps extends ComponentPropsWithoutRef<"input">, Described {
  /**
   * Provides the name, the id, the initial value and the error. Without a form field, the id defaults to the input's
   * name.
   */
  field?: FormField;
  /** An element shown at the end of the input, such as a button that shows the password. */
  trailing?: ReactNode;
}

const controlClass = "w-full min-w-0 rounded-card border bg-surface px-3 text-ink";
const largeText = "text-large sm:text-body";

/** Renders the text above a control, linked to it by {@link getControlAttributes}. */
function Description({ id, label, hint, error, aside }: Described & { id: string }) {
  return (
    <>
      <div className="flex items-baseline justify-between gap-4">
        <label id={`${id}-label`} htmlFor={id} className="wrap-anywhere min-w-0 font-medium">
          {label}
        </label>
        {aside}
      </div>
      {hint ? (
        <p id={`${id}-hint`} className="text-muted text-small">
          {hint}
        </p>
      ) : null}
      {error ? (
        <p id={`${id}-error`} className="text-bad text-small">
          {error}
        </p>
      ) : null}
    </>
  );
}

function getControlAttributes(id: string, { hint, error }: Omit<Described, "label">) {
  return {
    id,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": [error && `${id}-error`, hint && `${id}-hint`].filter(Boolean).join(" ") || undefined,
  };
}

/** Renders a labelled input with its hint and error above it, linked for assistive technology. */
export function Field({ field, label, hint, error = field?.errors?.[0], aside, trailing, ...input }: FieldProps) {
  const id = input.id ?? field?.id ?? input.name ?? "";
  return (
    <div className="space-y-1.5">
      <Description id={id} label={label} hint={hint} error={error} aside={aside} />
      <div className="relative">
        <input
          name={field?.name}
          defaultValue={field?.initialValue}
          {...input}
          {...getControlAttributes(id, { hint, error })}
          // As a block, WebKit shows a date at the top of its field.
          className={`flex ${controlClass} h-10 placeholder:text-muted ${largeText} ${error ? "border-bad" : "border-edge"} ${trailing ? "pr-18" : ""}`}
        />
        {trailing}
      </div>
    </div>
  );
}

/** Renders the input for the email of an account, with autocomplete for password managers. */
export function EmailField(props: Omit<FieldProps, "type" | "label">) {
  return (
    <Field autoComplete="username" {...props} label="Email" type="email" autoCapitalize="none" spellCheck={false} />
  );
}

/** Renders a password input with a button that shows the password. */
export function PasswordField(props: Omit<FieldProps, "type" | "trailing"> & { field: FormField }) {
  const { id } = props.field;
  return (
    <Field
      {...props}
      // The typed password is never sent back.
      defaultValue={undefined}
      type="password"
      required
      spellCheck={false}
      autoCapitalize="none"
      trailing={
        <button
          type="button"
          data-reveals={id}
          aria-pressed="false"
          aria-controls={id}
          aria-describedby={`${id}-label`}
          className="absolute inset-y-1 right-1 cursor-pointer rounded-button px-2.5 font-medium text-muted text-small hover:bg-sunken hover:text-ink"
        >
          <span>Show</span>
        </button>
      }
    />
  );
}

export function NewPasswordField(props: Pick<FieldProps, "label"> & { field: FormField }) {
  const hint = "At least 8 characters. A few unrelated words make a good one.";
  return <PasswordField {...props} hint={hint} autoComplete="new-password" />;
}

export function CodeField({ field, autoFocus }: { field: FormField; autoFocus?: boolean }) {
  return (
    <Field
      field={field}
      label="6-digit code"
      type="text"
      inputMode="numeric"
      autoComplete="one-time-code"
      spellCheck={false}
      required
      autoFocus={autoFocus}
      defaultValue={undefined}
    />
  );
}

export interface TextAreaProps extends ComponentPropsWithoutRef<"textarea">, Omit<Described, "aside"> {
  name: string;
  /** Uses a monospaced font, for example for code. */
  mono?: boolean;
}

export function TextArea({ label, hint, error, mono = false, ...textarea }: TextAreaProps) {
  const id = textarea.id ?? textarea.name;
  return (
    <div className="space-y-1.5">
      <Description id={id} label={label} hint={hint} error={error} />
      <textarea
        rows={3}
        {...textarea}
        {...getControlAttributes(id, { hint, error })}
        className={`block ${controlClass} py-2 placeholder:text-muted ${mono ? "font-mono text-small" : largeText} ${error ? "border-bad" : "border-edge"}`}
      />
    </div>
  );
}

export function Select({
  id,
  label,
  hint,
  error,
  hideLabel = false,
  className = "",
  ...select
}: ComponentPropsWithoutRef<"select"> & Omit<Described, "aside"> & { name: string; hideLabel?: boolean }) {
  const selectId = id ?? select.name;
  return (
    <div className={`space-y-1.5 ${className}`}>
      {hideLabel ? (
        <label htmlFor={selectId} className="sr-only">
          {label}
        </label>
      ) : (
        <Description id={selectId} label={label} hint={hint} error={error} />
      )}
      <select
        {...select}
        {...getControlAttributes(selectId, { hint, error })}
        className={`block ${controlClass} h-10 cursor-pointer ${error ? "border-bad" : "border-edge"} ${largeText}`}
      />
    </div>
  );
}

export function CheckBox({
  label,
  hint,
  ...input
}: Omit<ComponentPropsWithoutRef<"input">, "type"> & { name: string; label: string; hint?: string }) {
  const { name } = input;
  return (
    <div className="flex gap-2.5">
      <input
        {...input}
        {...getControlAttributes(name, { hint })}
        type="checkbox"
        className="mt-0.5 size-4 shrink-0 cursor-pointer accent-accent"
      />
      <div className="min-w-0">
        <label htmlFor={name} className="-my-0.5 inline-block cursor-pointer py-0.5 font-medium">
          {label}
        </label>
        {hint ? (
          <p id={`${name}-hint`} className="text-muted text-small">
            {hint}
          </p>
        ) : null}
      </div>
    </div>
  );
}
