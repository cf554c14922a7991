import { formatDateTime, formatExactDateTime } from "../http/date-text.ts";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { lockSentence, recoveryEventLabel } from "./labels.ts";
import type { RecoveryOverview } from "./recovery.ts";

const row = "flex flex-wrap justify-between gap-x-6 gap-y-0.5 py-2.5 first:pt-0 last:pb-0";

/** Shows what keeps the owner of an email out of their account, and when they can try again. */
export function BlocksCard({ overview }: { overview: RecoveryOverview }) {
  const { account, locks } = overview;
  const isUnconfirmed = account !== null && !account.confirmedAt;
  return (
    <Card
      title="Sign-in limits"
      lead={
        account
          ? "Bans, blocks and limits that affect this email, beginning with what locks it now."
          : "No account has this email. If you send a recovery email, using its link creates one."
      }
      action={account ? <ButtonLink href={`/admin/users/${account.id}`}>View account</ButtonLink> : null}
    >
      <ul className="divide-y divide-line">
        {isUnconfirmed ? <li className={row}>The email isn’t confirmed.</li> : null}
        {locks.map((lock) => (
          <li key={JSON.stringify(lock)} className={`${row} items-center`}>
            <span className={lock.until ? "min-w-0 font-medium text-bad" : "min-w-0"}>{lockSentence(lock)}</span>
            <span className="flex flex-wrap items-center gap-x-4 gap-y-2 text-muted">
              {lock.until ? (
                <span>
                  until <time dateTime={lock.until}>{formatExactDateTime(lock.until)}</time>
                </span>
              ) : (
                "not locked"
              )}
              {lock.kind === "block" ? (
                <ButtonLink
                  href={`/admin/address-blocks/${lock.blockId}/lift`}
                  aria-label={`Lift the block of ${lock.address}`}
                >
                  Lift
                </ButtonLink>
              ) : null}
            </span>
          </li>
        ))}
      </ul>
      {isUnconfirmed || locks.length > 0 ? null : <p className="text-muted">No sign-in limits apply to this email.</p>}
    </Card>
  );
}

/** Lists the overrides of an email, with actions for the active ones. */
export function OverridesCard({ overview, lock }: { overview: RecoveryOverview; lock: string | null }) {
  const { email, overrides } = overview;
  const query = new URLSearchParams({ email });
  const active = overrides.some((override) => override.active);
  return (
    <Card
      title="Overrides"
      lead={
        lock ??
        "An override temporarily lets someone sign in despite a ban, an unconfirmed email or sign-in limits. MFA still applies."
      }
      action={
        active || lock ? null : (
          <ButtonLink href={`/admin/recovery/new?${query}`} variant="primary">
            Create override
          </ButtonLink>
        )
      }
    >
      {overrides.length === 0 ? <p className="text-muted">No overrides for this email yet.</p> : null}
      <ul className="divide-y divide-line">
        {overrides.map((override) => (
          <li key={override.id} className="space-y-2 py-3 first:pt-0 last:pb-0">
            <div className="flex flex-wrap justify-between gap-x-6 gap-y-0.5">
              <p className="min-w-0 font-medium">
                {stateOf(override)} · <span className="font-normal">Reason: {override.reason}</span>
              </p>
              <p className="wrap-anywhere min-w-0 text-muted">
                created <RelativeTime at={override.createdAt} /> by {override.createdBy ?? "a former admin"}
                {override.active ? (
                  <>
                    , {override.singleUse ? "ends when it is used, or" : "expires"}{" "}
                    <RelativeTime at={override.expiresAt} />
                  </>
                ) : null}
              </p>
            </div>
            <p className="text-muted">{describeAllowedActions(override)}</p>
            {override.active && !lock ? (
              <div className="flex flex-wrap gap-3">
                {override.recoveryEmail ? (
                  <ButtonLink href={`/admin/recovery/${override.id}/send?${query}`}>Send recovery email</ButtonLink>
                ) : null}
                <ButtonLink href={`/admin/recovery/${override.id}/revoke?${query}`}>Revoke override</ButtonLink>
              </div>
            ) : null}
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Says whether an override is in force, and when it was first used. */
function stateOf({ active, singleUse, revokedAt, usedAt }: RecoveryOverview["overrides"][number]): string {
  const use = usedAt === null ? null : `Used on ${formatDateTime(usedAt)}`;
  if (use && singleUse && !revokedAt) return use;
  const state = active ? "Active" : revokedAt ? "Revoked" : "Expired";
  return use ? `${state} · ${use}` : state;
}

/** Says what an override allows, such as "Allows password sign-in and recovery email". */
function describeAllowedActions({ normalLogin, recoveryEmail }: RecoveryOverview["overrides"][number]): string {
  if (normalLogin && recoveryEmail) return "Allows password sign-in and recovery email";
  return normalLogin ? "Allows password sign-in" : "Allows recovery email";
}

/** Lists the recovery events of an email. */
export function RecoveryEventsCard({ events }: Pick<RecoveryOverview, "events">) {
  return (
    <Card title="Events" lead="Newest first. Links and codes are never shown.">
      {events.length === 0 ? <p className="text-muted">No activity yet.</p> : null}
      <ol className="divide-y divide-line">
        {events.map((event) => (
          <li key={event.id} className={row}>
            <div className="min-w-0">
              <p className="font-medium">{recoveryEventLabel(event)}</p>
              {event.actor ? <p className="text-muted">by {event.actor}</p> : null}
            </div>
            <p className="text-muted">
              <RelativeTime at={event.createdAt} />
              {event.ip ? ` · ${event.ip}` : ""}
            </p>
          </li>
        ))}
      </ol>
    </Card>
  );
}
