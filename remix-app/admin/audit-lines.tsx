import { formatExactDateTime } from "../http/date-text.ts";
import { EmailAddress } from "../ui/address.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { actionLabel, actorLabel } from "./audit-actions.ts";
import type { FieldChange } from "./audit-change.ts";
import type { AuditEntry } from "./audit-log.ts";

/**
 * Shows entries of the audit log: the action, its target, a summary of the change, its admin and the reason. When
 * unfolded, an entry shows the fields that changed.
 */
export function AuditLines({ entries }: { entries: readonly AuditEntry[] }) {
  return (
    <ol className="audit-log">
      {entries.map((entry) => (
        <li key={entry.id}>
          <div>
            <p>
              {`${actionLabel(entry.action)}: `}
              <Target entry={entry} />
            </p>
            <RelativeTime at={entry.createdAt} />
          </div>
          {entry.summary ? <p>{entry.summary}</p> : null}
          <p className="text-muted">
            <Actor entry={entry} />
            {`: ${entry.reason}`}
          </p>
          <details>
            <summary>Details</summary>
            {entry.changes.length > 0 ? <ChangeTable changes={entry.changes} /> : null}
            <dl>
              <Detail label="Action" value={entry.action} />
              <Detail label="Target" value={entry.target === nameOf(entry) ? null : entry.target} />
              <Detail label="IP address" value={entry.ip} />
              <Detail label="Request ID" value={entry.requestId} />
              <Detail label="Time" value={formatExactDateTime(entry.createdAt)} />
            </dl>
          </details>
        </li>
      ))}
    </ol>
  );
}

function nameOf({ targetName, target, targetUserId }: AuditEntry): string {
  return targetName ?? target ?? targetUserId ?? "unknown";
}

function Actor({ entry }: { entry: AuditEntry }) {
  if (entry.serviceAccountId === null) return actorLabel(entry);
  return (
    <a className="link" href={`/admin/service-accounts/${entry.serviceAccountId}`}>
      {actorLabel(entry)}
    </a>
  );
}

function Target({ entry }: { entry: AuditEntry }) {
  const text = nameOf(entry);
  const name = text.includes("@") ? <EmailAddress>{text}</EmailAddress> : text;
  if (entry.targetPath === null) return name;
  return (
    <a className="link" href={entry.targetPath}>
      {name}
    </a>
  );
}

function ChangeTable({ changes }: { changes: readonly FieldChange[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>Field</th>
          <th>Before</th>
          <th>After</th>
        </tr>
      </thead>
      <tbody>
        {changes.map(({ field, label, from, to }) => (
          <tr key={field}>
            <th>{label}</th>
            <td>{from ?? "–"}</td>
            <td>{to ?? "–"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Detail({ label, value }: { label: string; value: string | null }) {
  if (value === null) return null;
  return (
    <>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </>
  );
}
