import type { ReactNode } from "react";
import { providerLabel } from "../config/oauth-providers.ts";
import { RelativeTime } from "../ui/moment.tsx";
import type { Account } from "./accounts.ts";
import type { AccountPolicy } from "./mfa-policy.ts";
import { count, policyWords } from "./words.ts";

/** What is the case with an account now. */
export function AccountState({
  account,
  policy,
}: {
  account: Account;
  policy: Pick<AccountPolicy, "state" | "generation">;
}) {
  const { methods, factors, sessions } = account;
  const ways = [
    account.singleSignOn ? "single sign-on" : "",
    methods.password ? "password" : "",
    methods.passkeys > 0 ? count(methods.passkeys, "passkey") : "",
    ...methods.identities.flatMap(({ provider }) =>
      provider === "email" || provider.startsWith("sso:") ? [] : [providerLabel(provider)],
    ),
  ].filter(Boolean);
  const verified = factors.filter((factor) => factor.verified).length;
  return (
    <dl className="grid grid-cols-1 gap-x-6 gap-y-3 sm:grid-cols-2 lg:grid-cols-4">
      <Fact label="MFA">
        {policyWords[policy.state]}
        {policy.generation > 0 ? <span className="text-muted"> (change {policy.generation})</span> : null}
      </Fact>
      <Fact label="Authenticators">{verified === 0 ? "None" : verified}</Fact>
      <Fact label="Sessions">{sessions.length === 0 ? "None" : sessions.length}</Fact>
      <Fact label="Ban">
        {account.bannedUntil ? (
          <span className="text-bad">
            Banned, ends <RelativeTime at={account.bannedUntil} />
          </span>
        ) : (
          "None"
        )}
      </Fact>
      <Fact label="Signs in by">
        <span className="inline-block first-letter:uppercase">{ways.join(", ") || "nothing that works"}</span>
      </Fact>
      <Fact label="Email">
        {account.confirmedAt ? (
          <>
            Confirmed <RelativeTime at={account.confirmedAt} />
          </>
        ) : (
          "Not confirmed"
        )}
      </Fact>
      <Fact label="Last sign-in">{account.lastSignInAt ? <RelativeTime at={account.lastSignInAt} /> : "Never"}</Fact>
      <Fact label="Created">
        <RelativeTime at={account.createdAt} />
      </Fact>
    </dl>
  );
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-muted text-small">{label}</dt>
      <dd className="font-medium">{children}</dd>
    </div>
  );
}
