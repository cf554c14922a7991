import { eventLabel } from "../activity/event-kinds.ts";
import { methodLabel } from "../activity/method-label.ts";
import { Dotted } from "../ui/facts.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { Account, TimelineEntry } from "./accounts.ts";
import { actionLabel, actorLabel } from "./words.ts";

const row = "flex flex-wrap justify-between gap-x-6 gap-y-0.5 py-2.5 first:pt-0 last:pb-0";

/** An account's second factors. */
export function FactorList({ factors }: Pick<Account, "factors">) {
  if (factors.length === 0) return <p className="text-muted">No authenticator is enrolled.</p>;
  return (
    <ul className="divide-y divide-line">
      {factors.map(({ id, name, type, verified, createdAt, lastUsedAt }) => (
        <li key={id} className={row}>
          <p className="min-w-0 font-medium">
            {name || "Without a name"}
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

/** Where an account is signed in. */
export function SessionList({ sessions }: Pick<Account, "sessions">) {
  if (sessions.length === 0) return <p className="text-muted">Nobody is signed in to this account.</p>;
  return (
    <ul className="divide-y divide-line">
      {sessions.map(({ id, createdAt, lastSeenAt, ip, device, method, aal }) => (
        <li key={id} className={row}>
          <div className="min-w-0">
            <p className="font-medium">{device}</p>
            <p className="text-muted">
              <Dotted facts={[method && methodLabel(method), aal === "aal1" ? "one factor" : "two factors"]} />
            </p>
          </div>
          <div className="min-w-0 text-muted sm:text-right">
            <p>
              Seen <RelativeTime at={lastSeenAt} />, since <RelativeTime at={createdAt} />
            </p>
            <p>{ip}</p>
          </div>
        </li>
      ))}
    </ul>
  );
}

/** What happened to an account: by its owner, and by admins, whose reasons stand beside it. */
export function Timeline({ entries }: { entries: readonly TimelineEntry[] }) {
  if (entries.length === 0) return <p className="text-muted">Nothing has happened yet.</p>;
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
              <Dotted facts={[device, ip]} />
            </p>
          </div>
        </li>
      ))}
    </ol>
  );
}
