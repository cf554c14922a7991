import type { PendingEmailChange } from "../session/email-change.ts";
import { AccountForm } from "../ui/account-form.tsx";
import { EmailAddress } from "../ui/address.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { CardNotice, Notice } from "../ui/notice.tsx";
import type { SettingsNotice } from "./settings-notice.ts";

const noticeTexts = {
  sent: "Email change requested.",
  resent: "We sent new links to both addresses. Earlier links no longer work.",
  canceled: "Email change canceled. The links we sent no longer work.",
  none: "There’s no pending email change.",
};
/** The texts for an account without an email. */
const firstEmailTexts = {
  ...noticeTexts,
  resent: "We sent a new link. The earlier link no longer works.",
  canceled: "Email change canceled. The link we sent no longer works.",
};
const failures = {
  "too-soon": "We just sent an email. Wait a minute, then try again.",
  failed: "We couldn’t send the emails. Try again in a moment.",
};
const actionPath = "/settings/profile/email-change";

/** Shows the account's email and a pending change of it. */
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
            <EmailAddress>{email}</EmailAddress>
          </strong>
        ) : (
          "No email yet"
        )
      }
      action={<ButtonLink href="/settings/profile/email">{email ? "Change email" : "Add email"}</ButtonLink>}
    >
      <CardNotice notice={notice} card="email" words={email ? noticeTexts : firstEmailTexts} />
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
          <EmailAddress>{change.newEmail}</EmailAddress>
        </strong>
        , requested <RelativeTime at={change.sentAt} />.{" "}
        {change.email === null
          ? "To finish, open the link we sent:"
          : "To finish, open the link we sent to each address:"}
      </p>
      <dl className="space-y-1">
        {mailboxes.map(({ address, agreed }) => (
          <div key={address} className="flex flex-wrap gap-x-3">
            <dt className="min-w-0">
              <EmailAddress>{address}</EmailAddress>
            </dt>
            <dd className={agreed ? "text-good" : "text-warn"}>{agreed ? "Confirmed" : "Not confirmed yet"}</dd>
          </div>
        ))}
      </dl>
      <AccountForm action={actionPath} className="flex flex-wrap gap-3">
        <Button variant="secondary" name="do" value="resend">
          {change.email === null ? "Resend email" : "Resend emails"}
        </Button>
        <Button variant="secondary" name="do" value="cancel">
          Cancel email change
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
