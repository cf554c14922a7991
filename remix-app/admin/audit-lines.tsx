import { EmailAddress } from "../ui/address.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { AuditLine } from "./audit-log.ts";
import { actionLabel, actorLabel } from "./labels.ts";

/**
 * Shows lines of the audit log: the action, its target, its admin and the reason. When unfolded, a line shows the state
 * before and after.
 */
export function AuditLines({ lines }: { lines: readonly AuditLine[] }) {
  return (
    <ol className="divide-y divide-line">
      {lines.map(
        ({ id, actorEmail, action, targetUserId, target, reason, before, after, requestId, ip, createdAt }) => (
          <li key={id} className="space-y-1 py-3 first:pt-0 last:pb-0">
            <div className="flex flex-wrap justify-between gap-x-6 gap-y-0.5">
              <p className="min-w-0 font-medium">
                {actionLabel(action)}:{" "}
                {targetUserId ? (
                  <a className="link" href={`/admin/users/${targetUserId}`}>
                    <EmailAddress>{target ?? targetUserId}</EmailAddress>
                  </a>
                ) : (
                  <span className="wrap-anywhere">{target}</span>
                )}
              </p>
              <p className="text-muted">
                <RelativeTime at={createdAt} />
              </p>
            </div>
            <p className="text-muted">
              {actorLabel({ actorEmail, action, requestId })}: {reason}
            </p>
            <details>
              <summary className="min-h-6 w-fit cursor-pointer rounded-button text-muted text-small hover:text-ink">
                Details
              </summary>
              <dl className="mt-2 space-y-1.5 text-small">
                <Detail label="Action" value={action} />
                <Detail label="Before" value={before} />
                <Detail label="After" value={after} />
                <Detail label="IP address" value={ip} />
                <Detail label="Request ID" value={requestId} />
                <Detail label="Time" value={createdAt} />
              </dl>
            </details>
          </li>
        ),
      )}
    </ol>
  );
}

function Detail({ label, value }: { label: string; value: unknown }) {
  if (value === null || value === undefined) return null;
  return (
    <div>
      <dt className="text-muted">{label}</dt>
      <dd className="whitespace-pre-wrap break-all font-mono">
        {typeof value === "string" ? value : JSON.stringify(value, null, 2)}
      </dd>
    </div>
  );
}
