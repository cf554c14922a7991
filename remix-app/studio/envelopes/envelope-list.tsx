import { DotSeparated } from "../../ui/facts.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { EnvelopeMeter, envelopeName } from "./envelope-meter.tsx";
import type { Envelope } from "./envelope-schema.ts";

/** Lists task limits with what is used of them. Each links to its page. @param props.path the path of the list's page */
export function EnvelopeList({ envelopes, path }: { envelopes: readonly Envelope[]; path: string }) {
  return (
    <ul>
      {envelopes.map((envelope) => (
        <li key={envelope.id} className="space-y-1.5 border-line py-4 first:pt-0 last:pb-0 not-first:border-t">
          <p className="wrap-anywhere font-medium">
            <a className="link inline-block py-0.5" href={`${path}/${envelope.id}`}>
              {envelopeName(envelope)}
            </a>
          </p>
          <EnvelopeMeter envelope={envelope} />
          <p className="wrap-anywhere text-muted text-small">
            <DotSeparated facts={[holderText(envelope), stateText(envelope), refusalText(envelope)]} />
          </p>
        </li>
      ))}
    </ul>
  );
}

/** Returns whose requests a task limit holds, if its name doesn't say that already. */
function holderText({ label, principal, owner }: Envelope): string | null {
  const { kind, name } = principal;
  if (kind === "member")
    return label === "" ? "All requests of this person" : `Requests of ${name ?? "a former member"}`;
  const ofKey = label === "" ? "API key" : `API key ${name ?? "(deleted)"}`;
  return owner === null ? ofKey : `${ofKey} of ${owner}`;
}

function stateText({ state, endsAt, endedAt, endedBy }: Envelope) {
  if (state === "open")
    return (
      <span>
        Ends <RelativeTime at={endsAt} />
      </span>
    );
  if (state === "expired")
    return (
      <span>
        Expired <RelativeTime at={endsAt} />
      </span>
    );
  return (
    <span>
      Stopped {endedAt === null ? null : <RelativeTime at={endedAt} />}
      {endedBy === null ? null : ` by ${endedBy}`}
    </span>
  );
}

function refusalText({ state, lastRefusedAt }: Envelope) {
  if (state !== "open" || lastRefusedAt === null) return null;
  return (
    <span className="text-bad">
      Refused a request <RelativeTime at={lastRefusedAt} />
    </span>
  );
}
