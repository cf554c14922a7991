import { EmailAddress } from "../ui/address.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { DotSeparated } from "../ui/facts.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { FoundAccount } from "./accounts.ts";
import { policyLabels } from "./labels.ts";

/** Lists accounts. A small screen shows only their names and badges. */
export function FoundAccounts({ accounts }: { accounts: readonly FoundAccount[] }) {
  return (
    <DataTable
      caption="Accounts"
      rows={accounts}
      rowKey={({ id }) => id}
      empty="No account matches. Search for part of the email, or the full ID."
      columns={[
        {
          label: "Account",
          cell: (account) => (
            <>
              {account.deleted ? (
                <span className="wrap-anywhere font-medium text-muted">{nameOf(account)}</span>
              ) : (
                <a href={`/admin/users/${account.id}`} className="link wrap-anywhere font-medium">
                  {nameOf(account)}
                </a>
              )}
              <span className="block text-muted">
                <DotSeparated facts={[account.displayName]} />
              </span>
              <Badges badges={badgesOf(account)} />
            </>
          ),
        },
        { label: "Authenticators", numeric: true, small: "hidden", cell: ({ authenticators }) => authenticators },
        {
          label: "Last sign-in",
          small: "hidden",
          cell: ({ lastSignInAt }) => (lastSignInAt ? <RelativeTime at={lastSignInAt} /> : "Never"),
        },
        {
          label: "Created",
          small: "aside",
          cell: ({ createdAt }) => (
            <span className="whitespace-nowrap">
              <RelativeTime at={createdAt} />
            </span>
          ),
        },
      ]}
    />
  );
}

function nameOf({ id, email }: FoundAccount) {
  return email ? <EmailAddress>{email}</EmailAddress> : id;
}

type Badge = { label: string; tone: keyof typeof tones };

/** Returns an account's badges, most serious first. */
function badgesOf(account: Omit<FoundAccount, "createdAt" | "lastSignInAt">): Badge[] {
  const { deleted, banned, confirmed, consoleRole, policy, singleSignOn } = account;
  const badges: (Badge | false)[] = [
    deleted && { label: "Deleted", tone: "bad" },
    banned && { label: "Banned", tone: "bad" },
    !confirmed && { label: "Email not confirmed", tone: "warn" },
    consoleRole !== null && { label: consoleRole === "admin" ? "Admin" : "Finance", tone: "accent" },
    policy !== "optional" && {
      label: `MFA ${policyLabels[policy].toLowerCase()}`,
      tone: policy === "required" ? "good" : "warn",
    },
    singleSignOn && { label: "Single sign-on", tone: "plain" },
  ];
  return badges.filter((badge) => badge !== false);
}

const tones = {
  bad: "bg-bad-soft text-bad",
  warn: "bg-warn-soft text-warn",
  good: "bg-good-soft text-good",
  accent: "bg-accent-soft text-accent",
  plain: "bg-sunken text-muted",
} as const;

function Badges({ badges }: { badges: readonly Badge[] }) {
  if (badges.length === 0) return null;
  return (
    <ul aria-label="State" className="mt-1 flex flex-wrap gap-1.5">
      {badges.map(({ label, tone }) => (
        <li key={label} className={`rounded-button px-2 py-0.5 font-normal text-small ${tones[tone]}`}>
          {label}
        </li>
      ))}
    </ul>
  );
}
