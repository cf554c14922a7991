import { RelativeTime } from "../ui/relative-time.tsx";
import type { FoundAccount } from "./accounts.ts";
import { policyWords } from "./policy-words.ts";

const cell = "border-line border-t py-2.5 pr-4 align-top last:pr-0";
const wide = `${cell} hidden sm:table-cell`;

/** Accounts as a table; a small screen shows who, and their policy. */
export function FoundAccounts({ accounts }: { accounts: readonly FoundAccount[] }) {
  if (accounts.length === 0) {
    return <p className="text-muted">No account matches. Look for a part of the email, or the whole id.</p>;
  }
  return (
    <table className="w-full text-left">
      <thead className="text-muted text-small">
        <tr>
          <th className="pr-4 pb-2 font-medium">Account</th>
          <th className="pr-4 pb-2 font-medium">MFA</th>
          <th className="hidden pr-4 pb-2 font-medium sm:table-cell">Authenticators</th>
          <th className="hidden pb-2 font-medium sm:table-cell">Last sign-in</th>
        </tr>
      </thead>
      <tbody>
        {accounts.map(({ id, email, displayName, policy, banned, authenticators, lastSignInAt }) => (
          <tr key={id}>
            <td className={cell}>
              <a href={`/admin/users/${id}`} className="link break-all font-medium">
                {email ?? id}
              </a>
              <p className="text-muted">
                {displayName}
                {banned ? <span className="text-bad"> Banned</span> : null}
              </p>
            </td>
            <td className={cell}>{policyWords[policy]}</td>
            <td className={`${wide} tabular-nums`}>{authenticators}</td>
            <td className={`${wide} text-muted`}>{lastSignInAt ? <RelativeTime at={lastSignInAt} /> : "Never"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
