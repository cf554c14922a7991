import { AccountForm } from "../ui/account-form.tsx";
import { Button } from "../ui/button.tsx";
import { CopyableText } from "../ui/code-block.tsx";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { Select, TextArea } from "../ui/field.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { ShownOnce } from "../ui/shown-once.tsx";
import type { OpenInvitation } from "./invitations.ts";
import { type AssignableRole, roleLabel } from "./roles.ts";
import type { InvitationOutcome } from "./send-invitations.ts";

/** The maximum number of roles that are shown with their descriptions. More are a list, so that the page stays small. */
const maxDescribedRoles = 20;

/** Renders a form that invites people by email, with one of the roles that the inviter may assign. */
export function InviteForm({
  roles,
  emails,
  roleId,
  failed,
  aboutEmail,
  action,
  presetLink,
}: {
  roles: readonly AssignableRole[];
  /** The addresses to which no invitation was sent. */
  emails: string;
  /** The role chosen for the last invitation, if it was not sent. */
  roleId: string;
  /** Why the last invitation was not sent. */
  failed: string | null;
  /** Whether the email is the cause of the failure. */
  aboutEmail: boolean;
  action: string;
  /** Where to add the Finance role, or null if it is not offered. */
  presetLink: string | null;
}) {
  // The narrowest role is last and is the default.
  const chosen = roles.find(({ id }) => id === roleId) ?? roles.at(-1);
  const emailFault = aboutEmail ? failed : null;
  return (
    <AccountForm action={action} noValidate className="max-w-160 space-y-4">
      <ErrorSummary
        id="invite-error"
        form={failed && !emailFault ? [failed] : undefined}
        fields={{ "invite-email": emailFault }}
      />
      <input type="hidden" name="intent" value="invite" />
      <TextArea
        id="invite-email"
        name="email"
        label="Email addresses"
        hint="Up to 10, separated by spaces, commas or line breaks."
        rows={2}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        required
        defaultValue={emails}
        error={emailFault}
      />
      <RoleChoice roles={roles} chosenId={chosen?.id} />
      {presetLink ? (
        <p className="text-small">
          <a className="link" href={presetLink}>
            Add a Finance role
          </a>{" "}
          for people who only need costs and invoices.
        </p>
      ) : null}
      <Button>Send invitations</Button>
    </AccountForm>
  );
}

function RoleChoice({ roles, chosenId }: { roles: readonly AssignableRole[]; chosenId: string | undefined }) {
  if (roles.length > maxDescribedRoles) {
    return (
      <Select id="invite-role" name="roleId" label="Role" defaultValue={chosenId}>
        {roles.map(({ id, name }) => (
          <option key={id} value={id}>
            {roleLabel(name)}
          </option>
        ))}
      </Select>
    );
  }
  return (
    <fieldset className="space-y-3">
      <legend className="mb-1.5 font-medium">Role</legend>
      {roles.map(({ id, name, description }) => (
        <div key={id}>
          <label htmlFor={`invite-role-${id}`} className="flex min-h-6 cursor-pointer items-start gap-2.5 font-medium">
            <input
              id={`invite-role-${id}`}
              type="radio"
              name="roleId"
              value={id}
              defaultChecked={id === chosenId}
              aria-describedby={`invite-role-${id}-description`}
              className="mt-0.75 size-4 shrink-0 cursor-pointer accent-accent"
            />
            <span className="wrap-anywhere min-w-0">{roleLabel(name)}</span>
          </label>
          <p id={`invite-role-${id}-description`} className="max-w-prose pl-6.5 text-muted text-small">
            {description}
          </p>
        </div>
      ))}
    </fieldset>
  );
}

/** The id of {@link InvitedPeople}, which is the fragment that forms send along, so that the answer is in view. */
export const invitedFragment = "invited";

/** Lists what became of each invited address, with the links, which no other page shows. */
export function InvitedPeople({ invited }: { invited: readonly InvitationOutcome[] }) {
  return (
    <ShownOnce
      id={invitedFragment}
      label={invited.length === 1 ? "Invitation link" : "Invitation links"}
      hasHeading
      className="rounded-card border border-line bg-surface p-4 sm:p-5"
    >
      <p className="max-w-prose text-muted">
        You can also send a link yourself. Each works only for its address, and is shown only now. “Resend” makes a new
        one.
      </p>
      <ul className="space-y-4">
        {invited.map(({ email, link, failure }) => (
          <li key={email} className="space-y-1">
            {link === null ? (
              <p className="wrap-anywhere font-medium">{email}</p>
            ) : (
              <CopyableText label={email} text={link} />
            )}
            {failure ? <p className="text-bad text-small">{failure.message}</p> : null}
          </li>
        ))}
      </ul>
    </ShownOnce>
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
            <div className="flex flex-wrap gap-2">
              <AccountForm action={`${here}#${invitedFragment}`}>
                <input type="hidden" name="intent" value="resend" />
                <input type="hidden" name="invitationId" value={id} />
                <Button variant="secondary" aria-label={`Resend the invitation to ${email}, with a new link`}>
                  Resend
                </Button>
              </AccountForm>
              <AccountForm action={here}>
                <input type="hidden" name="intent" value="withdraw" />
                <input type="hidden" name="invitationId" value={id} />
                <Button variant="secondary" aria-label={`Withdraw the invitation to ${email}`}>
                  Withdraw
                </Button>
              </AccountForm>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}
