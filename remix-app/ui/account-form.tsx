import type { ComponentPropsWithoutRef } from "react";
import { pageAccountField } from "../http/form.ts";
import { useSite } from "./site.ts";

/**
 * Renders a signed-in user's form with the page's account in a hidden field. If another tab has switched accounts
 * since, the form is refused instead of being applied to the other account (readForm).
 */
export function AccountForm({ children, ...form }: Omit<ComponentPropsWithoutRef<"form">, "method">) {
  return (
    <form {...form} method="post">
      <PageAccountField />
      {children}
    </form>
  );
}

/** Renders a hidden field with the page's account. AccountForm already includes this field. */
export function PageAccountField() {
  const account = useSite()?.account;
  return account ? <input type="hidden" name={pageAccountField} value={account} /> : null;
}
