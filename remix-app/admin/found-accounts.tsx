import { Address } from "../ui/address.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { Dotted } from "../ui/facts.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { FoundAccount } from "./accounts.ts";
import { policyWords } from "./words.ts";

/** Accounts as a table; a small screen shows who, and their policy. */
export function FoundAccounts({ accounts }: { accounts: readonly FoundAccount[] }) {
  return (
    <DataTable
      caption="Accounts"
      rows={accounts}
      rowKey={({ id }) => id}
      empty="No account matches. Look for a part of the email, or the whole id."
      columns={[
        {
          label: "Account",
          cell: ({ id, email, displayName, singleSignOn, banned }) => (
            <>
              <a href={`/admin/users/${id}`} className="link wrap-anywhere font-medium">
                {email ? <Address>{email}</Address> : id}
              </a>
              <span className="block text-muted">
                <Dotted facts={[displayName, singleSignOn ? "Single sign-on" : ""]} />
                {banned ? <span className="text-bad"> Banned</span> : null}
              </span>
            </>
          ),
        },
        { label: "MFA", small: "aside", cell: ({ policy }) => policyWords[policy] },
        { label: "Authenticators", numeric: true, small: "hidden", cell: ({ authenticators }) => authenticators },
        {
          label: "Last sign-in",
          small: "hidden",
          cell: ({ lastSignInAt }) => (lastSignInAt ? <RelativeTime at={lastSignInAt} /> : "Never"),
        },
      ]}
    />
  );
}
