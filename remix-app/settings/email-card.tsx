import type { PendingEmailChange } from "../session/email-change.ts";
import { AccountForm } from "../ui/account-form.tsx";
import { Address } from "../ui/address.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { CardNotice, Notice } from "../ui/notice.tsx";
import type { SettingsNotice } from "./settings-notice.ts";

const words = {
  sent: "We emailed both addresses. The change takes effect once both have confirmed.",
  resent: "We emailed both addresses again. Earlier links no longer work.",
  canceled: "The change is canceled. The links in the emails no longer work.",
  none: "There is no pending change.",
};
/** Where the account has no address yet. */
const firstWords = {
  ...words,
  sent: "We emailed the address. The change takes effect once you confirm it.",
  resent: "We emailed the address again. The earlier link no longer works.",
  canceled: "The change is canceled. The link in the email no longer works.",
};
const failures = {
  "too-soon": "We sent an email a moment ago. Wait a minute, then try again.",
  failed: "We could not send the emails. Try again in a moment.",
};
const actionPath = "/settings/profile/email-change";

/** The address of the account, and a change of it that waits for its mailboxes. */
export function EmailCard({
  email,
  change,
  notice,
  mailboxUrl,
}: {
  email: string;
  change: PendingEmailChange | null;
  notice: SettingsNotice | null;
  mailboxUrl: string | null;
}) {
  const failure = notice?.card === "email" ? failures[notice.done as keyof typeof failures] : undefined;
  return (
    <Card
      id="email"
      title="Email"
      lead={
        email ? (
          <strong className="font-semibold text-ink">
            <Address>{email}</Address>
          </strong>
        ) : (
          "This account has none yet."
        )
      }
      action={<ButtonLink href="/settings/profile/email">{email ? "Change email" : "Add email"}</ButtonLink>}
    >
      <CardNotice notice={notice} card="email" words={email ? words : firstWords} />
      {failure ? (
        <div className="mb-4">
          <Notice tone="warn">{failure}</Notice>
        </div>
      ) : null}
      {change ? <PendingChange change={change} mailboxUrl={mailboxUrl} /> : null}
    </Card>
  );
}

function PendingChange({ change, mailboxUrl }: { change: PendingEmailChange; mailboxUrl: string | null }) {
  const mailboxes = [
    ...(change.email === null ? [] : [{ address: change.email, agreed: change.agreed === "current" }]),
    { address: change.newEmail, agreed: change.agreed === "new" },
  ];
  return (
    <div className="space-y-4">
      <p>
        Changing to{" "}
        <strong className="font-semibold">
          <Address>{change.newEmail}</Address>
        </strong>
        , asked for <RelativeTime at={change.sentAt} />. {change.email === null ? "The" : "Each"} email has a link to
        confirm:
      </p>
      <dl className="space-y-1">
        {mailboxes.map(({ address, agreed }) => (
          <div key={address} className="flex flex-wrap gap-x-3">
            <dt className="min-w-0">
              <Address>{address}</Address>
            </dt>
            <dd className={agreed ? "text-good" : "text-warn"}>{agreed ? "has confirmed" : "has yet to confirm"}</dd>
          </div>
        ))}
      </dl>
      <AccountForm action={actionPath} data-once className="flex flex-wrap gap-3">
        <Button variant="secondary" name="do" value="resend">
          {change.email === null ? "Send the email again" : "Send the emails again"}
        </Button>
        <Button variant="secondary" name="do" value="cancel">
          Take the change back
        </Button>
        {mailboxUrl ? (
          <ButtonLink href={mailboxUrl} variant="quiet">
            Open the local mailbox
          </ButtonLink>
        ) : null}
      </AccountForm>
    </div>
  );
}
