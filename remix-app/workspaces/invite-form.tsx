import { Button } from "../ui/button.tsx";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { Field, Select } from "../ui/field.tsx";
import { Moment } from "../ui/moment.tsx";
import { PostForm } from "../ui/post-form.tsx";
import type { OpenInvitation } from "./invitations.ts";
import { roleLabel } from "./roles.ts";

/** Renders a form that invites a person by email, with one of the roles that the inviter may assign. */
export function InviteForm({
  roles,
  email,
  roleId,
  failed,
  sent,
  aboutEmail,
  requestId,
  action,
}: {
  roles: { id: string; name: string }[];
  email: string;
  /** The role chosen for the last invitation, if it was not sent. */
  roleId: string;
  /** Why the last invitation was not sent. */
  failed: string | null;
  /** The notice about the last invitation, if it was sent. */
  sent: string | null;
  /** Whether the email is the cause of the failure. */
  aboutEmail: boolean;
  /** The request id to quote for an error on our side. */
  requestId: string | null;
  action: string;
}) {
  // The narrowest role is last and is the default.
  const chosen = roles.find(({ id }) => id === roleId) ?? roles.at(-1);
  const emailFault = aboutEmail ? failed : null;
  return (
    <PostForm action={action} noValidate className="max-w-108 space-y-4">
      <ErrorSummary
        id="invite-error"
        form={failed && !emailFault ? [failed] : undefined}
        fields={{ "invite-email": emailFault }}
        requestId={requestId}
      />
      <input type="hidden" name="intent" value="invite" />
      <Field
        // Clears the field after each invitation that is sent.
        key={sent}
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
    </PostForm>
  );
}

export function InvitationList({
  invitations,
  here,
  now,
}: {
  /** One page of invitations. */
  invitations: OpenInvitation[];
  /** The page's URL. */
  here: string;
  now: string;
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
                {roleLabel(role)} · Sent <Moment at={sentAt} now={now} /> · {expiresAt > now ? "Expires" : "Expired"}{" "}
                <Moment at={expiresAt} now={now} />
              </p>
            </div>
            <PostForm action={here}>
              <input type="hidden" name="intent" value="withdraw" />
              <input type="hidden" name="invitationId" value={id} />
              <Button variant="secondary" aria-label={`Withdraw the invitation to ${email}`}>
                Withdraw
              </Button>
            </PostForm>
          </li>
        ))}
      </ul>
    </>
  );
}
