import { AccountForm } from "../ui/account-form.tsx";
import { Button } from "../ui/button.tsx";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { Field, Select } from "../ui/field.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { OpenInvitation } from "./invitations.ts";
import { roleLabel } from "./roles.ts";

/** Renders a form that invites a person by email, with one of the roles that the inviter may assign. */
export function InviteForm({
  roles,
  email,
  roleId,
  failed,
  aboutEmail,
  action,
}: {
  roles: { id: string; name: string }[];
  email: string;
  /** The role chosen for the last invitation, if it was not sent. */
  roleId: string;
  /** Why the last invitation was not sent. */
  failed: string | null;
  /** Whether the email is the cause of the failure. */
  aboutEmail: boolean;
  action: string;
}) {
  // The narrowest role is last and is the default.
  const chosen = roles.find(({ id }) => id === roleId) ?? roles.at(-1);
  const emailFault = aboutEmail ? failed : null;
  return (
    <AccountForm action={action} noValidate className="max-w-108 space-y-4">
      <ErrorSummary
        id="invite-error"
        form={failed && !emailFault ? [failed] : undefined}
        fields={{ "invite-email": emailFault }}
      />
      <input type="hidden" name="intent" value="invite" />
      <Field
        id="invite-email"
        name="email"
        label="Email"
        type="email"
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        required
        defaultValue={email}
        error={emailFault}
      />
      <Select id="invite-role" name="roleId" label="Role" defaultValue={chosen?.id}>
        {roles.map(({ id, name }) => (
          <option key={id} value={id}>
            {roleLabel(name)}
          </option>
        ))}
      </Select>
      <Button>Send invitation</Button>
    </AccountForm>
  );
}

export function InvitationList({
  invitations,
  here,
}: {
  /** One page of invitations. */
  invitations: OpenInvitation[];
  /** The page's URL. */
  here: string;
}) {
  if (invitations.length === 0) return <p className="mt-5 text-muted">No pending invitations.</p>;
  return (
    <>
      <h3 className="mt-6 font-medium">Pending invitations</h3>
      <ul>
        {invitations.map(({ id, email, role, sentAt, expiresAt }) => (
          <li
            key={id}
            className="flex flex-wrap items-center justify-between gap-3 border-line py-3 not-first:border-t last:pb-0"
          >
            <div className="min-w-0">
              <p className="wrap-anywhere">{email}</p>
              <p className="text-muted text-small">
                {roleLabel(role)} · Sent <RelativeTime at={sentAt} /> ·{" "}
                {Date.parse(expiresAt) > Date.now() ? "Expires" : "Expired"} <RelativeTime at={expiresAt} />
              </p>
            </div>
            <AccountForm action={here}>
              <input type="hidden" name="intent" value="withdraw" />
              <input type="hidden" name="invitationId" value={id} />
              <Button variant="secondary" aria-label={`Withdraw the invitation to ${email}`}>
                Withdraw
              </Button>
            </AccountForm>
          </li>
        ))}
      </ul>
    </>
  );
}
