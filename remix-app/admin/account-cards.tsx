import type { ReactNode } from "react";
import { eventLabel } from "../activity/event-kinds.ts";
import { methodLabel } from "../activity/method-label.ts";
import { providerLabel } from "../config/oauth-providers.ts";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { countText } from "../ui/count-text.ts";
import { DotSeparated } from "../ui/facts.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { Notice } from "../ui/notice.tsx";
import { isPermanentBan } from "./account-access-card.tsx";
import type { Account, TimelineEntry } from "./accounts.ts";
import { actionLabel, actorLabel } from "./audit-actions.ts";
import { formatQuantity, policyLabels } from "./labels.ts";
import type { AccountPolicy } from "./mfa-policy.ts";
import { listAvailableSteps, mfaPolicyChanges } from "./policy-step.ts";

export function AccountState({ account, policy }: { account: Account; policy: Pick<AccountPolicy, "state"> }) {
  const { methods, factors, sessionCount } = account;
  const signInMethods = [
    account.singleSignOn ? "single sign-on" : "",
    methods.password ? "password" : "",
    methods.passkeys > 0 ? formatQuantity(methods.passkeys, "passkey") : "",
    ...methods.identities.flatMap(({ provider }) =>
      provider === "email" || provider.startsWith("sso:") ? [] : [providerLabel(provider)],
    ),
  ].filter(Boolean);
  const verified = factors.filter((factor) => factor.verified).length;
  return (
    <dl className="grid grid-cols-1 gap-x-6 gap-y-3 sm:grid-cols-2 lg:grid-cols-4">
      <Fact label="MFA">{policyLabels[policy.state]}</Fact>
      <Fact label="Authenticators">{verified === 0 ? "None" : verified}</Fact>
      <Fact label="Sessions">{sessionCount === 0 ? "None" : countText(sessionCount)}</Fact>
      <Fact label="Ban">
        {account.bannedUntil ? (
          <span className="text-bad">
            {isPermanentBan(account.bannedUntil) ? (
              "Banned until lifted"
            ) : (
              <>
                Banned, ends <RelativeTime at={account.bannedUntil} />
              </>
            )}
          </span>
        ) : (
          "None"
        )}
      </Fact>
      <Fact label="Signs in with">
        <span className="inline-block first-letter:uppercase">{signInMethods.join(", ") || "nothing that works"}</span>
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

/** Links to the console's other pages about an account. */
export function AccountLinks({ id, email }: Pick<Account, "id" | "email">) {
  const links = [
    ...(email ? [{ label: "Recovery", to: `/admin/recovery?${new URLSearchParams({ email })}` }] : []),
    { label: "Workspaces", to: `/admin/workspaces?${new URLSearchParams({ q: id })}` },
    { label: "Credits", to: `/admin/credits/member/${id}` },
    { label: "Audit log", to: `/admin/audit?${new URLSearchParams({ target: id })}` },
  ];
  return (
    <nav aria-label="About this account" className="mt-4 flex flex-wrap gap-x-5 gap-y-2">
      {links.map(({ label, to }) => (
        <a key={label} className="link" href={to}>
          {label}
        </a>
      ))}
    </nav>
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

const descriptions = {
  optional: "MFA is optional for this account.",
  required: "MFA is required for this account. Sessions that verified before the last change must verify again.",
  recovery_in_progress:
    "A reset of the authenticators has started. The account can’t be used until the reset is finished.",
  malformed: "This account’s MFA policy can’t be read, so the account is locked. Require MFA to replace it.",
} as const;

/** Shows an account's policy with the possible changes, or why it can't be changed. */
export function PolicyCard({ id, policy }: { id: string; policy: Pick<AccountPolicy, "state" | "locks"> }) {
  const { state, locks } = policy;
  const reasons = [...new Set([locks.policy, locks.reset].filter((lock) => lock !== null))];
  return (
    <Card id="policy" title="MFA" lead={descriptions[state]}>
      <div className="space-y-4">
        {state === "recovery_in_progress" ? (
          <Notice tone="warn">The reset isn’t finished. Finish it below.</Notice>
        ) : null}
        {reasons.map((reason) => (
          <Notice key={reason}>{reason}</Notice>
        ))}
        <div className="flex flex-wrap gap-3">
          {listAvailableSteps(policy).map((step) => (
            <ButtonLink
              key={step}
              href={`/admin/users/${id}/mfa/${step}`}
              variant={mfaPolicyChanges[step].destroys ? "danger" : "secondary"}
            >
              {step === "reset" && state === "recovery_in_progress" ? "Finish reset" : mfaPolicyChanges[step].title}
            </ButtonLink>
          ))}
        </div>
      </div>
    </Card>
  );
}

const row = "flex flex-wrap justify-between gap-x-6 gap-y-0.5 py-2.5 first:pt-0 last:pb-0";

export function FactorList({ factors }: Pick<Account, "factors">) {
  if (factors.length === 0) return <p className="text-muted">No authenticators yet.</p>;
  return (
    <ul className="divide-y divide-line">
      {factors.map(({ id, name, type, verified, createdAt, lastUsedAt }) => (
        <li key={id} className={row}>
          <p className="min-w-0 font-medium">
            {name || "Unnamed"}
            <span className="font-normal text-muted"> · {type === "totp" ? "authenticator app" : type}</span>
            {verified ? null : <span className="font-normal text-warn"> · not finished</span>}
          </p>
          <p className="text-muted">
            added <RelativeTime at={createdAt} /> ·{" "}
            {lastUsedAt ? (
              <>
                last used <RelativeTime at={lastUsedAt} />
              </>
            ) : (
              "not used yet"
            )}
          </p>
        </li>
      ))}
    </ul>
  );
}

export function SessionList({ sessions, sessionCount }: Pick<Account, "sessions" | "sessionCount">) {
  if (sessions.length === 0) return <p className="text-muted">This account has no active sessions.</p>;
  return (
    <ul className="divide-y divide-line">
      {sessions.map(({ id, createdAt, lastSeenAt, ip, device, method, aal }) => (
        <li key={id} className={row}>
          <div className="min-w-0">
            <p className="font-medium">{device}</p>
            <p className="text-muted">
              <DotSeparated facts={[method && methodLabel(method), aal === "aal1" ? "one factor" : "two factors"]} />
            </p>
          </div>
          <div className="min-w-0 text-muted sm:text-right">
            <p>
              Last active <RelativeTime at={lastSeenAt} /> · signed in <RelativeTime at={createdAt} />
            </p>
            <p>{ip}</p>
          </div>
        </li>
      ))}
      {sessionCount > sessions.length ? (
        <li className={`${row} text-muted`}>
          The {sessions.length} most recently active of {countText(sessionCount)}.
        </li>
      ) : null}
    </ul>
  );
}

const otherKinds: Record<Account["others"][number]["kind"], string> = {
  recovery_codes: "Recovery codes",
  recovery_mail: "Recovery email",
  phone_approval: "Approval by phone",
  app: "App",
  device: "Device",
  agent: "Coding agent",
};

/** Lists the apps, devices and coding agents that act for an account, and ways to recover it. */
export function OtherAccessList({ others }: Pick<Account, "others">) {
  if (others.length === 0) return <p className="text-muted">Nothing else acts for this account.</p>;
  return (
    <ul className="divide-y divide-line">
      {others.map(({ key, kind, name, addedAt, lastUsedAt, device, address }) => (
        <li key={key} className={row}>
          <div className="min-w-0">
            <p className="wrap-anywhere font-medium">{name ?? otherKinds[kind]}</p>
            {name ? <p className="text-muted">{otherKinds[kind]}</p> : null}
          </div>
          <div className="min-w-0 text-muted sm:text-right">
            <p>
              Added <RelativeTime at={addedAt} />
              {lastUsedAt ? (
                <>
                  {" · "}last used <RelativeTime at={lastUsedAt} />
                </>
              ) : null}
            </p>
            <p>
              <DotSeparated facts={[device, address]} />
            </p>
          </div>
        </li>
      ))}
    </ul>
  );
}

/** Shows an account's timeline: its owner's actions, and admins' actions with their reasons. */
export function Timeline({ entries }: { entries: readonly TimelineEntry[] }) {
  if (entries.length === 0) return <p className="text-muted">No activity yet.</p>;
  return (
    <ol className="divide-y divide-line">
      {entries.map(({ id, source, kind, method, device, ip, reason, actorEmail, requestId, createdAt }) => (
        <li key={id} className={row}>
          <div className="min-w-0">
            <p className="font-medium">{source === "audit" ? actionLabel(kind) : eventLabel(kind)}</p>
            {source === "audit" ? (
              <p className="text-muted">
                {actorLabel({ actorEmail, action: kind, requestId })}: {reason}
              </p>
            ) : (
              <p className="text-muted">{method ? methodLabel(method) : null}</p>
            )}
          </div>
          <div className="min-w-0 text-muted sm:text-right">
            <p>
              <RelativeTime at={createdAt} />
            </p>
            <p>
              <DotSeparated facts={[device, ip]} />
            </p>
          </div>
        </li>
      ))}
    </ol>
  );
}
