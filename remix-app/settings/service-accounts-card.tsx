import type { AccountAccess } from "../session/account-access.ts";
import { Card } from "../ui/card.tsx";
import { DotSeparated } from "../ui/facts.tsx";
import { RelativeTime, UtcDay } from "../ui/moment.tsx";

/** Lists the service accounts that a person is responsible for. Renders nothing without any. */
export function ServiceAccountsCard({ accounts }: { accounts: AccountAccess["serviceAccounts"] }) {
  if (accounts.length === 0) return null;
  return (
    <Card
      title="Service accounts"
      lead="Programs that you’re responsible for. They don’t act for your account, so signing out doesn’t end them. Revoke them on their pages."
    >
      <ul className="divide-y divide-line">
        {accounts.map(({ id, name, workspaceId, workspace, lastUsedAt, endsAt }) => (
          <li key={id} className="space-y-0.5 py-3 first:pt-0 last:pb-0">
            <a
              href={`${workspaceId === null ? "/admin" : `/workspaces/${workspaceId}`}/service-accounts/${id}`}
              className="link font-medium"
            >
              {name}
            </a>
            <p className="text-muted text-small">
              <DotSeparated
                facts={[
                  workspace ?? "Platform",
                  lastUsedAt ? (
                    <>
                      last used <RelativeTime at={lastUsedAt} />
                    </>
                  ) : (
                    "never used"
                  ),
                  <>
                    expires after <UtcDay at={endsAt} />
                  </>,
                ]}
              />
            </p>
          </li>
        ))}
      </ul>
    </Card>
  );
}
