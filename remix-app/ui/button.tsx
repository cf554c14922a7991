import type { ComponentPropsWithoutRef } from "react";

type Variant = "primary" | "secondary" | "quiet" | "danger";

const base =
  "inline-flex min-h-10 items-center justify-center gap-2 rounded-button border px-4 py-1.5 text-center font-medium text-body transition-colors duration-100 disabled:opacity-60 aria-disabled:cursor-not-allowed aria-disabled:opacity-60 not-disabled:cursor-pointer";

const variants: Record<Variant, string> = {
  primary: "border-transparent bg-accent text-on-accent hover:bg-accent-strong",
  secondary: "border-line bg-surface text-ink hover:bg-sunken",
  quiet: "border-transparent bg-transparent text-muted hover:bg-sunken hover:text-ink",
  danger: "border-bad/40 bg-surface text-bad hover:bg-bad-soft",
};

/** The look of a button, for links that lead on as one would. */
export function buttonClass(variant: Variant = "primary"): string {
  return `${base} ${variants[variant]}`;
}

/** A button that says what it does. Submits its form unless told otherwise. */
export function Button({
  variant = "primary",
  className = "",
  type = "submit",
  ...props
}: ComponentPropsWithoutRef<"button"> & { variant?: Variant }) {
  return <button type={type} className={`${buttonClass(variant)} ${className}`} {...props} />;
}

/** A link that looks like a button. */
export function ButtonLink({
  variant = "secondary",
  className = "",
  ...props
}: ComponentPropsWithoutRef<"a"> & { variant?: Variant }) {
  return <a className={`${buttonClass(variant)} ${className}`} {...props} />;
}
