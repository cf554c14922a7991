import type { ComponentPropsWithoutRef } from "react";

type Variant = "primary" | "secondary" | "quiet" | "danger";

/** The look of a button, for links that lead on as one would: `button` in styles.css. */
export function buttonClass(variant: Variant = "primary"): string {
  return `button button-${variant}`;
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
