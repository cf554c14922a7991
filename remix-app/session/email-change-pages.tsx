import type { ReactNode } from "react";
import { Button, ButtonLink } from "../ui/button.tsx";
import { EntryPage } from "../ui/entry-page.tsx";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { Notice } from "../ui/notice.tsx";
import type { LinkedEmailChange } from "./email-change.ts";
import { maskEmail } from "./mailed-link.ts";

/** A change of email as shown to anyone who has the link, with the account's own email masked. */
export type MaskedEmailChange = Omit<LinkedEmailChange, "userId">;

export function maskEmailChange({ userId: _, email, ...change }: LinkedEmailChange): MaskedEmailChange {
  return { ...change, email: email === null ? null : maskEmail(email) };
}

const Address = ({ children }: { children: string | null }) => (
  <strong className="font-semibold text-ink">{children}</strong>
);

/** Asks one mailbox to confirm a change of email. */
export function ConfirmEmailChange({
  change,
  fields,
  message,
  otherAccount,
}: {
  change: MaskedEmailChange;
  /** Hidden inputs with the values of the emailed link. */
  fields: ReactNode;
  message: string | null;
  /** The active account of this browser, if it isn't the account whose email changes. */
  otherAccount: string | null;
}) {
  const { email, newEmail, mailbox, agreed } = change;
  return (
    <EntryPage
      title="Confirm your new email"
      lead={
        email === null ? (
          <>
            Your account’s email will be <Address>{newEmail}</Address>.
          </>
        ) : (
          <>
            Your account’s email will change from <Address>{email}</Address> to <Address>{newEmail}</Address>.
          </>
        )
      }
    >
      <ErrorSummary id="confirm-error" form={message} />
      {otherAccount ? (
        <Notice tone="warn">
          You’re signed in as <Address>{otherAccount}</Address>. This link is for another account. You’ll stay signed in
          to this one.
        </Notice>
      ) : null}
      {email === null ? null : (
        <p>
          {agreed
            ? `${mailbox === "current" ? newEmail : email} is already confirmed. This is the last step.`
            : `Both addresses must be confirmed. This link confirms ${mailbox === "current" ? email : newEmail}.`}
        </p>
      )}
      <form method="post" action="/auth/confirm">
        {fields}
        <Button className="w-full">Confirm</Button>
      </form>
      <p className="text-muted">If you didn’t ask for this, close this page. Nothing changes unless you confirm.</p>
    </EntryPage>
  );
}

/** Shows which confirmation is missing, or that the change is complete. */
export function EmailChangeConfirmed({
  change,
  complete,
  mailboxUrl,
}: {
  change: MaskedEmailChange;
  complete: boolean;
  mailboxUrl: string | null;
}) {
  const { email, newEmail, mailbox } = change;
  if (complete) {
    return (
      <EntryPage
        title="Email changed"
        lead={
          <>
            You now sign in as <Address>{newEmail}</Address>.
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
      title="One more confirmation"
      lead={
        <>
          <Address>{confirmed}</Address> is confirmed. Now open the link we sent to <Address>{missing}</Address>.
        </>
      }
    >
      {mailboxUrl ? (
        <ButtonLink href={mailboxUrl} variant="primary" className="w-full">
          Open the local mailbox
        </ButtonLink>
      ) : null}
      <p>
        Didn’t get it? Check your spam folder, or resend it in your{" "}
        <a className="link" href="/settings/profile#email">
          email settings
        </a>
        .
      </p>
    </EntryPage>
  );
}
