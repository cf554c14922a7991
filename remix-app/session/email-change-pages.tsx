import { Form } from "@remix-run/react";
import type { ReactNode } from "react";
import { Button, ButtonLink } from "../ui/button.tsx";
import { EntryPage } from "../ui/entry-page.tsx";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { Notice } from "../ui/notice.tsx";
import type { LinkedEmailChange } from "./email-change.ts";
import { maskEmail } from "./mailed-link.ts";

/** A change as these pages show it to anyone who has the link: the account's own email is masked. */
export type ShownEmailChange = Omit<LinkedEmailChange, "userId">;

export function shownEmailChange({ userId: _, email, ...change }: LinkedEmailChange): ShownEmailChange {
  return { ...change, email: email === null ? null : maskEmail(email) };
}

const Address = ({ children }: { children: string | null }) => (
  <strong className="font-semibold text-ink">{children}</strong>
);

/** Asks one mailbox to confirm a change of address. */
export function ConfirmEmailChange({
  change,
  fields,
  message,
  otherAccount,
}: {
  change: ShownEmailChange;
  /** The link, as hidden inputs. */
  fields: ReactNode;
  message: string | null;
  /** The active account of this browser, if it is another one. */
  otherAccount: string | null;
}) {
  const { email, newEmail, mailbox, agreed } = change;
  return (
    <EntryPage
      title="Confirm your new email"
      lead={
        email === null ? (
          <>
            This sets the email of your account to <Address>{newEmail}</Address>.
          </>
        ) : (
          <>
            This changes the email of the account <Address>{email}</Address> to <Address>{newEmail}</Address>.
          </>
        )
      }
    >
      <ErrorSummary id="confirm-error" form={message} />
      {otherAccount ? (
        <Notice tone="warn">
          You are signed in as <Address>{otherAccount}</Address>. This link is for another account, and you stay signed
          in as you are.
        </Notice>
      ) : null}
      {email === null ? null : (
        <p>
          {agreed
            ? `${mailbox === "current" ? newEmail : email} has confirmed already: this is the last step.`
            : `Both addresses have to confirm; this link is for ${mailbox === "current" ? email : newEmail}.`}
        </p>
      )}
      <Form method="post" action="/auth/confirm" data-once>
        {fields}
        <Button className="w-full">Confirm</Button>
      </Form>
      <p className="text-muted">If you did not ask for this, leave it: nothing changes without you.</p>
    </EntryPage>
  );
}

/** Says what is still missing, or that the change is complete. */
export function EmailChangeConfirmed({
  change,
  complete,
  mailboxUrl,
}: {
  change: ShownEmailChange;
  complete: boolean;
  mailboxUrl: string | null;
}) {
  const { email, newEmail, mailbox } = change;
  if (complete) {
    return (
      <EntryPage
        title="Your email is changed"
        lead={
          <>
            From now on you sign in as <Address>{newEmail}</Address>.
          </>
        }
      >
        <ButtonLink href="/settings/profile#email" variant="primary" className="w-full">
          Continue
        </ButtonLink>
      </EntryPage>
    );
  }
  const [confirmed, missing] = mailbox === "current" ? [email, newEmail] : [newEmail, email];
  return (
    <EntryPage
      title="One mailbox to go"
      lead={
        <>
          <Address>{confirmed}</Address> has confirmed. Now open the mail that we sent to <Address>{missing}</Address>{" "}
          and confirm there too.
        </>
      }
    >
      {mailboxUrl ? (
        <ButtonLink href={mailboxUrl} variant="primary" className="w-full">
          Open the local mailbox
        </ButtonLink>
      ) : null}
      <p>
        No mail there?{" "}
        <a className="link" href="/settings/profile#email">
          Have both sent again
        </a>
      </p>
    </EntryPage>
  );
}
