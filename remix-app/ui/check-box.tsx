import type { ComponentPropsWithoutRef } from "react";

/** A switch of a form, with its label beside it. */
export function CheckBox({
  id,
  label,
  hint,
  ...input
}: Omit<ComponentPropsWithoutRef<"input">, "type"> & { id: string; label: string; hint?: string }) {
  const hintId = `${id}-hint`;
  return (
    <div className="flex gap-2.5">
      <input
        {...input}
        id={id}
        type="checkbox"
        aria-describedby={hint ? hintId : undefined}
        className="mt-0.5 size-4 shrink-0 cursor-pointer accent-accent"
      />
      <div className="min-w-0">
        <label htmlFor={id} className="-my-0.5 inline-block cursor-pointer py-0.5 font-medium">
          {label}
        </label>
        {hint ? (
          <p id={hintId} className="text-muted text-small">
            {hint}
          </p>
        ) : null}
      </div>
    </div>
  );
}
