import { Form, type FormProps } from "@remix-run/react";
import { forwardRef } from "react";
import { pageAccountField } from "../http/form.ts";
import { useSite } from "./site.ts";

/**
 * A signed-in user's form that states the account of its page. If another tab has switched accounts since, the form is
 * refused instead of being applied to the other account (readForm).
 */
export const AccountForm = forwardRef<HTMLFormElement, Omit<FormProps, "method">>(function AccountForm(
  { children, ...form },
  ref,
) {
  return (
    <Form ref={ref} {...form} method="post">
      <PageAccount />
      {children}
    </Form>
  );
});

/** States the page's account in a form that a script may send itself. */
export function PageAccount() {
  const account = useSite()?.account;
  return account ? <input type="hidden" name={pageAccountField} value={account} /> : null;
}
