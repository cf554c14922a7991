import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { ConfirmCard } from "../../ui/confirm-card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { DotSeparated } from "../../ui/facts.tsx";
import { formatUsd } from "../../ui/format-amount.ts";
import { RelativeTime } from "../../ui/moment.tsx";
import { Usd } from "../../ui/money.tsx";
import type { AgentEnvelope } from "../agents/agent-schema.ts";
import type { CurrentKey, KeySummary } from "./key-schema.ts";

const states = { active: "Active", replaced: "Replaced", expired: "Expired", revoked: "Revoked" } as const;

/** The states of coding agents, as the gateway answers them. */
const agentStates = {
  good: "Active",
  over: "Sign-in or access ended",
  mfa_required: "Needs a second factor",
  unavailable: "Sign-in can’t be checked",
} as const;

const modelsNamed = 3;

/** Returns whether a key still works, or would work again without a new connection of its coding agent. */
export function isLive({ state, agent }: Pick<KeySummary, "state" | "agent">): boolean {
  return (
    state === "active" || state === "replaced" || (state === "expired" && agent !== null && agent.status !== "over")
  );
}

function stateText({ state, agent }: KeySummary): string {
  return agent && state === "expired" ? agentStates[agent.status] : states[state];
}

/** Returns a key's limits and bindings as short facts. */
export function factsOf(key: KeySummary): string[] {
  return [
    key.environment,
    key.agent ? "coding agent, key renewed every 8 hours" : "",
    key.externalApp ? `for the app ${key.externalApp.name}${key.externalApp.enabled ? "" : " (disabled)"}` : "",
    key.requestsPerMinute === null ? "" : `${key.requestsPerMinute} requests per minute`,
    key.tokensPerMinute === null ? "" : `${key.tokensPerMinute} tokens per minute`,
    key.allowedModels ? modelWords(key.allowedModels) : "",
    key.allowedAddresses ? `from ${key.allowedAddresses.join(", ")}` : "",
    key.strict ? "strict mode" : "",
  ].filter(Boolean);
}

function modelWords(models: readonly string[]): string {
  const more = models.length - modelsNamed;
  if (models.length === 0) return "no models";
  return `models: ${models.slice(0, modelsNamed).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

export interface KeyListProps {
  keys: CurrentKey[];
  mayRotate: boolean;
  /** The path of the list. */
  path: string;
  /** The query string of the list's current page. */
  page: string;
}

/** Lists a workspace's keys, with links to edit, rotate and revoke those that work. */
export function KeyList({ keys, mayRotate, path, page }: KeyListProps) {
  return (
    <DataTable
      caption="API keys"
      from="lg"
      rows={keys}
      rowKey={({ id }) => id}
      empty={
        mayRotate
          ? "No API keys yet. Create one for each app, so you can revoke it without affecting the others."
          : "No API keys yet. You can create keys once this workspace is approved."
      }
      columns={[
        { label: "Name", cell: (key) => <KeyName data={key} {...{ mayRotate, path, page }} /> },
        {
          label: "Last used",
          cell: ({ lastUsedAt }) => (lastUsedAt ? <RelativeTime at={lastUsedAt} /> : "Never"),
        },
        { label: "Spent this month", numeric: true, cell: (key) => <KeySpend data={key} /> },
        { label: "Expires", cell: (key) => <Expiry data={key} /> },
        {
          label: "State",
          small: "aside",
          cell: (key) => <span className={key.state === "active" ? "text-good" : "text-muted"}>{stateText(key)}</span>,
        },
      ]}
    />
  );
}

function KeyName({ data: key, mayRotate, path, page }: Omit<KeyListProps, "keys"> & { data: CurrentKey }) {
  return (
    <>
      <bdi className={isLive(key) ? "font-medium" : "text-muted"}>{key.name}</bdi>
      <code className="block break-all font-mono font-normal text-muted text-small">{key.prefix}…</code>
      <span className="block font-normal text-muted text-small">
        <DotSeparated facts={factsOf(key)} /> · created <RelativeTime at={key.createdAt} />
        {key.createdBy ? (
          <>
            {" "}
            by <bdi>{key.createdBy}</bdi>
          </>
        ) : null}
      </span>
      {key.agent?.envelope && isLive(key) ? <EnvelopeLink data={key.agent.envelope} path={path} /> : null}
      {isLive(key) ? (
        <span className="mt-2 flex flex-wrap gap-2 font-normal">
          {key.state === "active" && key.agent === null ? (
            <ButtonLink href={`${path}/${key.id}/edit`} aria-label={`Edit ${key.name}`}>
              Edit
            </ButtonLink>
          ) : null}
          {mayRotate && key.state === "active" && key.agent === null ? (
            <ButtonLink href={`${path}/${key.id}/rotate`} aria-label={`Rotate ${key.name}`}>
              Rotate
            </ButtonLink>
          ) : null}
          <RevokeLink data={key} {...{ path, page }} label={`Revoke ${key.name}`} />
        </span>
      ) : null}
      {key.replaced.length > 0 ? <ReplacedKeys keys={key.replaced} {...{ path, page }} /> : null}
    </>
  );
}

/** Links to the page where the owner of a coding agent's task limit raises or stops it. */
function EnvelopeLink({ data, path }: { data: AgentEnvelope; path: string }) {
  const { id, state, limitUsd, spentUsd } = data;
  const amounts =
    limitUsd === null || spentUsd === null ? "" : `: ${formatUsd(spentUsd)} of ${formatUsd(limitUsd)} spent`;
  const end = { open: "", ended: " (stopped)", expired: " (expired)" }[state];
  return (
    <a href={`${path.replace(/keys$/, "envelopes")}/${id}`} className="link block w-fit py-1 font-normal text-small">
      {`Task limit${amounts}${end}`}
    </a>
  );
}

type ListPlace = Pick<KeyListProps, "path" | "page">;

function RevokeLink({ data: { id }, path, page, label }: ListPlace & { data: KeySummary; label: string }) {
  return (
    <ButtonLink href={`${path}${page}${page ? "&" : "?"}revoke=${id}`} variant="danger" aria-label={label}>
      Revoke
    </ButtonLink>
  );
}

/** Lists the keys that a key replaced. Open while one of them still works. */
function ReplacedKeys({ keys, ...place }: ListPlace & { keys: KeySummary[] }) {
  return (
    <details open={keys.some(isLive)} className="mt-2 font-normal text-small">
      <summary className="w-fit cursor-pointer text-muted">
        {keys.length === 1 ? "1 replaced key" : `${keys.length} replaced keys`}
      </summary>
      <ul className="mt-1.5 space-y-2 border-line border-l pl-3">
        {keys.map((key) => (
          <li key={key.id} className="text-muted">
            <code className="block break-all font-mono">{key.prefix}…</code>
            {stateText(key)}
            {isLive(key) && key.expiresAt ? (
              <>
                , stops working <RelativeTime at={key.expiresAt} />
              </>
            ) : null}{" "}
            · {key.lastUsedAt ? "last used " : "never used"}
            {key.lastUsedAt ? <RelativeTime at={key.lastUsedAt} /> : null}
            {isLive(key) ? (
              <span className="mt-1 block">
                <RevokeLink data={key} {...place} label={`Revoke the replaced key ${key.prefix}`} />
              </span>
            ) : null}
          </li>
        ))}
      </ul>
    </details>
  );
}

/**
 * Shows when a key stops working. A coding agent renews its key until its login ends, so its key shows the end of the
 * login.
 */
function Expiry({ data: { agent, expiresAt, state } }: { data: KeySummary }) {
  if (state === "revoked") return "–";
  if (agent?.endsAt) {
    return (
      <>
        Connection ends <RelativeTime at={agent.endsAt} />
      </>
    );
  }
  return expiresAt ? <RelativeTime at={expiresAt} /> : "Never";
}

/**
 * Shows a key's spend this month, and its budget if it has one. Shows no amount if the workspace hides provider costs.
 */
function KeySpend({ data: { spentThisMonthUsd, budget } }: { data: KeySummary }) {
  return budget ? (
    <>
      <Usd amount={budget.spentUsd} of={budget.limitUsd} /> of {formatUsd(budget.limitUsd)}
    </>
  ) : (
    <Usd amount={spentThisMonthUsd} />
  );
}

/** Asks to confirm the revocation of a key or of a connected coding agent. */
export function KeyRevocation({
  id,
  name,
  isAgent,
  here,
}: {
  id: string;
  name: string;
  isAgent: boolean;
  /** The URL of the list that contains the key. */
  here: string;
}) {
  return (
    <ConfirmCard
      title={`Revoke ${name}?`}
      lead={
        isAgent
          ? "The agent stops working immediately and can’t get another key until someone connects it again."
          : "Apps that use it stop working immediately. This can’t be undone. To replace it without downtime, rotate it instead."
      }
      cancelTo={here}
    >
      <AccountForm action={here}>
        <input type="hidden" name="keyId" value={id} />
        <Button variant="danger">{isAgent ? "Revoke agent" : "Revoke key"}</Button>
      </AccountForm>
    </ConfirmCard>
  );
}
