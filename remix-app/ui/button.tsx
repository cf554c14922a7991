import type { ComponentPropsWithoutRef } from "react";

type Variant = "primary" | "secondary" | "quiet" | "danger";

/** Returns the classes of a button, defined in styles.css. */
function buttonClass(variant: Variant = "primary"): string {
  return `button button-${variant}`;
}

/** Renders a button with a label. It submits its form by default. */
export function Button({
  variant = "primary",
  className = "",
  type = "submit",
  ...props
}: ComponentPropsWithoutRef<"button"> & { variant?: Variant }) {
  return <button type={type} className={`${buttonClass(variant)} ${className}`} {...props} />;
}

/** Renders a link that looks like a button. */
export function ButtonLink({
  variant = "secondary",
  className = "",
  ...props
}: ComponentPropsWithoutRef<"a"> & { variant?: Variant }) {
  return <a className={`${buttonClass(variant)} ${className}`} {...props} />;
}
