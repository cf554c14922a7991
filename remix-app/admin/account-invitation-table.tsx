import { EmailAddress } from "../ui/address.tsx";
import { ButtonLink } from "../ui/button.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { AccountInvitation } from "./account-invitations.ts";

/** Lists invitations. Each open one has a link to revoke it. */
export function AccountInvitationTable({ invitations }: { invitations: readonly AccountInvitation[] }) {
  return (
    <DataTable
      caption="Invitations"
      rows={invitations}
      rowKey={({ id }) => id}
      empty="No invitations yet. Invited people can create an account, even while sign-up is by invitation."
      columns={[
        {
          label: "Email",
          cell: ({ email, userId, reason, invitedBy }) => (
            <>
              {userId ? (
                <a href={`/admin/users/${userId}`} className="link wrap-anywhere font-medium">
                  <EmailAddress>{email}</EmailAddress>
                </a>
              ) : (
                <span className="wrap-anywhere font-medium">
                  <EmailAddress>{email}</EmailAddress>
                </span>
              )}
              <span className="wrap-anywhere block text-muted text-small">
                {reason} · {invitedBy ?? "A former admin"}
              </span>
            </>
          ),
        },
        { label: "Invited", small: "hidden", cell: ({ createdAt }) => <RelativeTime at={createdAt} /> },
        { label: "State", cell: (invitation) => <State invitation={invitation} /> },
        {
          label: "Revoke",
          small: "aside",
          cell: ({ id, email, state }) =>
            state === "open" ? (
              <ButtonLink href={`/admin/invitations/${id}/revoke`} aria-label={`Revoke the invitation of ${email}`}>
                Revoke
              </ButtonLink>
            ) : null,
        },
      ]}
    />
  );
}

function State({ invitation: { state, expiresAt } }: { invitation: AccountInvitation }) {
  switch (state) {
    case "open":
      return (
        <>
          Expires <RelativeTime at={expiresAt} />
        </>
      );
    case "accepted":
      return <span className="text-good">Has an account</span>;
    case "revoked":
      return <span className="text-muted">Revoked</span>;
    case "expired":
      return (
        <span className="text-muted">
          Expired <RelativeTime at={expiresAt} />
        </span>
      );
  }
}
