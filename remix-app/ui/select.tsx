import type { ComponentPropsWithoutRef } from "react";

/** The browser's own list of choices, in our dress, with a label. */
export function Select({
  id,
  label,
  hideLabel = false,
  className = "",
  ...select
}: ComponentPropsWithoutRef<"select"> & { id: string; label: string; hideLabel?: boolean }) {
  return (
    <div className={`space-y-1.5 ${className}`}>
      <label htmlFor={id} className={hideLabel ? "sr-only" : "block font-medium"}>
        {label}
      </label>
      <select
        {...select}
        id={id}
        className="block h-10 w-full min-w-0 cursor-pointer rounded-card border border-edge bg-surface px-3 text-ink text-large sm:text-body"
      />
    </div>
  );
}
