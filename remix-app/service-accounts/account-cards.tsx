import { scopeLabel } from "../machines/scopes.ts";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { CopyableText } from "../ui/code-block.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { DotSeparated } from "../ui/facts.tsx";
import { ExactTime, RelativeTime, UtcDay } from "../ui/moment.tsx";
import { ShownOnce } from "../ui/shown-once.tsx";
import type { ServiceAccount, ServiceAccountCredential } from "./service-accounts.ts";

const stateLabels = { active: "Active", disabled: "Disabled", expired: "Expired", revoked: "Revoked" } as const;

/** Renders whether a service account can get tokens. */
function State({ state }: Pick<ServiceAccount, "state">) {
  return <span className={state === "active" ? "text-good" : "text-muted"}>{stateLabels[state]}</span>;
}

function LastUse({ at }: { at: string | null }) {
  return at ? <RelativeTime at={at} /> : "Never";
}

/** Lists service accounts, each linked to its page. */
export function ServiceAccountTable({ accounts, path }: { accounts: readonly ServiceAccount[]; path: string }) {
  return (
    <DataTable
      caption="Service accounts"
      from="lg"
      rows={accounts}
      rowKey={({ id }) => id}
      empty="No service accounts yet. Create one for each program, so you can revoke it without affecting the others."
      columns={[
        {
          label: "Name",
          cell: ({ id, name, scopes }) => (
            <>
              <a href={`${path}/${id}`} className="link font-medium">
                {name}
              </a>
              <span className="block font-normal text-muted text-small">
                {scopes.length === 1 ? scopes[0] : `${scopes.length} scopes`}
              </span>
            </>
          ),
        },
        { label: "Last used", cell: ({ lastUsedAt }) => <LastUse at={lastUsedAt} /> },
        { label: "Expires after", cell: ({ expiresAt }) => <UtcDay at={expiresAt} /> },
        { label: "State", small: "aside", cell: ({ state }) => <State state={state} /> },
      ]}
    />
  );
}

/** Renders what a service account may do, and its latest use. */
export function AccountCard({ account, path }: { account: ServiceAccount; path: string }) {
  const { id, clientId, scopes, allowedAddresses, state, enabled, createdAt, createdBy, expiresAt } = account;
  const facts = [
    ["State", <State key="state" state={state} />],
    ["Expires after", <UtcDay key="expiry" at={expiresAt} />],
    ["Allowed IP addresses", allowedAddresses.join(", ") || "Every address"],
    [
      "Last used",
      <DotSeparated key="use" facts={[<LastUse key="at" at={account.lastUsedAt} />, account.lastUsedIp]} />,
    ],
    ["Created", <ExactTime key="created" at={createdAt} />],
    ["Responsible", createdBy ?? "No person: created by the operator, or by an account that was deleted"],
  ] as const;
  return (
    <Card
      title="Service account"
      lead="A program with an identity of its own. It never signs in to pages."
      action={
        state === "revoked" ? null : (
          <div className="flex flex-wrap gap-3">
            <ButtonLink href={`${path}/${id}/edit`}>Edit</ButtonLink>
            <ButtonLink href={`${path}/${id}/${enabled ? "disable" : "enable"}`}>
              {enabled ? "Disable" : "Enable"}
            </ButtonLink>
            <ButtonLink href={`${path}/${id}/revoke`} variant="danger">
              Revoke
            </ButtonLink>
          </div>
        )
      }
    >
      <div className="space-y-5">
        <CopyableText label="Client ID" text={clientId} />
        <dl className="grid grid-cols-1 gap-x-6 gap-y-3 sm:grid-cols-2">
          {facts.map(([label, value]) => (
            <div key={label} className="min-w-0">
              <dt className="text-muted text-small">{label}</dt>
              <dd className="wrap-anywhere">{value}</dd>
            </div>
          ))}
        </dl>
        <div>
          <h3 className="font-medium">Scopes</h3>
          <ul className="mt-1 space-y-1">
            {scopes.map((scope) => (
              <li key={scope}>
                {scopeLabel(scope)} <span className="text-muted text-small">{scope}</span>
              </li>
            ))}
          </ul>
        </div>
      </div>
    </Card>
  );
}

/** Describes a credential: its kind, and the ID and algorithm of a key. */
export function describeCredential({ kind, kid, algorithm }: ServiceAccountCredential): string {
  return kind === "secret" ? "Secret" : `Key ${kid ?? ""}${algorithm === null ? "" : `, ${algorithm}`}`;
}

/** Renders the credentials that work, and the ways to replace them. */
export function CredentialsCard({ account, path }: { account: ServiceAccount; path: string }) {
  const base = `${path}/${account.id}`;
  return (
    <Card
      title="Credentials"
      lead="To replace one without interruption, add the new one, let the program use it, then remove the earlier one."
      action={
        account.state === "revoked" ? null : (
          <div className="flex flex-wrap gap-3">
            <ButtonLink href={`${base}/add-key`}>Add public key</ButtonLink>
            <ButtonLink href={`${base}/rotate`}>New secret</ButtonLink>
          </div>
        )
      }
    >
      <DataTable
        caption="Credentials"
        rows={account.credentials}
        rowKey={({ id }) => id}
        empty="No credential works. Add a public key or create a secret, so that the program can get tokens."
        columns={[
          { label: "Credential", cell: (credential) => describeCredential(credential) },
          {
            label: "Added",
            cell: ({ createdAt, createdBy }) => (
              <DotSeparated facts={[<RelativeTime key="at" at={createdAt} />, createdBy]} />
            ),
          },
          { label: "Last used", cell: ({ lastUsedAt }) => <LastUse at={lastUsedAt} /> },
          {
            label: "Ends",
            cell: ({ expiresAt }) => (expiresAt ? <RelativeTime at={expiresAt} /> : "With the service account"),
          },
          {
            label: "Remove",
            small: "aside",
            cell: (credential) => (
              <a href={`${base}/remove?${new URLSearchParams({ credential: credential.id })}`} className="link">
                Remove<span className="sr-only"> {describeCredential(credential)}</span>
              </a>
            ),
          },
        ]}
      />
    </Card>
  );
}

/** Shows a new secret. No other page shows it. */
export function NewSecretCard({
  created: { clientId, secret, tokenEndpoint },
  href,
}: {
  created: { clientId: string; secret: string; tokenEndpoint: string };
  /** The service account's page. */
  href: string;
}) {
  return (
    <Card
      title="The new secret"
      lead="Copy it to the program’s settings now. We store only its hash, so we can’t show it again."
    >
      <ShownOnce label="Secret of the service account">
        <CopyableText label="Client ID" text={clientId} />
        <CopyableText label="Client secret" text={secret} />
        <CopyableText label="Token endpoint" text={tokenEndpoint} />
        <ButtonLink href={href} variant="primary">
          I’ve copied it
        </ButtonLink>
      </ShownOnce>
    </Card>
  );
}
