import { Form, type FormProps } from "@remix-run/react";
import { forwardRef } from "react";
import { pageAccountField } from "../http/form.ts";
import { useSite } from "./site.ts";

/**
 * A form of whoever is signed in, which says whose page it is on: sent once another tab has switched accounts, it is
 * refused rather than done to the other one (readForm).
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

/** Whose page it is, in a form that a script sends in a way of its own where there is one. */
export function PageAccount() {
  const account = useSite()?.account;
  return account ? <input type="hidden" name={pageAccountField} value={account} /> : null;
}
