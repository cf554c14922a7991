import type { ComponentPropsWithoutRef } from "react";

export interface TextAreaProps extends ComponentPropsWithoutRef<"textarea"> {
  id: string;
  label: string;
  hint?: string | undefined;
  error?: string | undefined;
  /** For code and the like. */
  mono?: boolean;
}

/** A labelled field for longer texts; its hint and error stand above it and are tied to it, as a Field's. */
export function TextArea({ id, label, hint, error, mono = false, ...textarea }: TextAreaProps) {
  const hintId = `${id}-hint`;
  const errorId = `${id}-error`;
  const describedBy = [error ? errorId : "", hint ? hintId : ""].filter(Boolean).join(" ");
  return (
    <div className="space-y-1.5">
      <label htmlFor={id} className="block font-medium">
        {label}
      </label>
      {hint ? (
        <p id={hintId} className="text-muted text-small">
          {hint}
        </p>
      ) : null}
      {error ? (
        <p id={errorId} className="text-bad text-small">
          {error}
        </p>
      ) : null}
      <textarea
        rows={3}
        {...textarea}
        id={id}
        aria-invalid={error ? true : undefined}
        aria-describedby={describedBy || undefined}
        className={`block w-full min-w-0 rounded-card border bg-surface px-3 py-2 text-ink placeholder:text-muted ${mono ? "font-mono text-small" : "text-large sm:text-body"} ${error ? "border-bad" : "border-edge"}`}
      />
    </div>
  );
}
