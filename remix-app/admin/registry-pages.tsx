import type { ComponentProps } from "react";
import { ButtonLink } from "../ui/button.tsx";
import { Card, Panel } from "../ui/card.tsx";
import { CopyableText } from "../ui/code-block.tsx";
import { DotSeparated } from "../ui/facts.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { Page } from "../ui/page.tsx";
import { ShownOnce } from "../ui/shown-once.tsx";
import { ChangeForm } from "./change-form.tsx";

/** Renders the page of a registry form. It is the only page that ever shows the secret that the form created. */
export function RegistryFormPage({
  title,
  createdTitle = title,
  lead,
  created,
  pages,
  ...form
}: ComponentProps<typeof ChangeForm> & {
  title: string;
  createdTitle?: string;
  lead?: string;
  created: { name: string; secret: string } | null | undefined;
  /** Base path of the registrations' pages. */
  pages: string;
}) {
  const pageLead = lead ?? created?.name;
  return (
    <Page title={created ? createdTitle : title} {...(pageLead !== undefined && { lead: pageLead })}>
      {created ? (
        <Card
          title="The new secret"
          lead="Copy it to the app’s environment now. We store only its hash, so we can’t show it again."
        >
          <ShownOnce label={`Secret of ${created.name}`}>
            <CopyableText label={`Secret of ${created.name}`} text={created.secret} />
            <ButtonLink href={`${pages}/${created.name}`} variant="primary">
              I’ve copied it
            </ButtonLink>
          </ShownOnce>
        </Card>
      ) : (
        <Panel>
          <ChangeForm {...form} />
        </Panel>
      )}
    </Page>
  );
}

/** Renders the addresses and scopes of a registration. */
export function RegistrationCard({
  base,
  enabled,
  facts,
}: {
  base: string;
  enabled: boolean;
  facts: readonly { label: string; values: readonly string[]; none: string }[];
}) {
  return (
    <Card
      title="Registration"
      lead="Addresses and scopes."
      action={
        <div className="flex flex-wrap gap-3">
          <ButtonLink href={`${base}/edit`}>Edit</ButtonLink>
          <ButtonLink href={`${base}/${enabled ? "disable" : "enable"}`} variant={enabled ? "danger" : "secondary"}>
            {enabled ? "Disable" : "Enable"}
          </ButtonLink>
        </div>
      }
    >
      <dl className="grid grid-cols-1 gap-x-6 gap-y-3 sm:grid-cols-2">
        {facts.map(({ label, values, none }) => (
          <div key={label} className="min-w-0">
            <dt className="text-muted text-small">{label}</dt>
            {values.length === 0 ? <dd>{none}</dd> : null}
            {values.map((value) => (
              <dd key={value} className="break-all font-mono">
                {value}
              </dd>
            ))}
          </div>
        ))}
      </dl>
    </Card>
  );
}

/** Renders the secrets that still work, and the way to rotate them. */
export function SecretsCard({
  what,
  base,
  secrets,
}: {
  what: "app" | "client";
  base: string;
  secrets: readonly { createdAt: string; expiresAt: string | null }[];
}) {
  return (
    <Card
      title="Secrets"
      lead={`The ${what} authenticates with a secret. After a rotation, the old one can keep working for a while.`}
      action={<ButtonLink href={`${base}/rotate`}>Rotate secret</ButtonLink>}
    >
      {secrets.length === 0 && <p>It has no secret that works. Rotate the secret to get one.</p>}
      <ul className="divide-y divide-line">
        {secrets.map(({ createdAt, expiresAt }) => (
          <li
            key={createdAt}
            className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 py-2.5 first:pt-0 last:pb-0"
          >
            <span>
              Created <RelativeTime at={createdAt} />
            </span>
            <span className="text-muted">
              {expiresAt ? (
                <>
                  ends <RelativeTime at={expiresAt} />
                </>
              ) : (
                "current"
              )}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const maxAddresses = 3;

/** Lists registrations, each with the first of its addresses. */
export function RegistrationList({
  pages,
  registrations,
}: {
  pages: string;
  registrations: readonly {
    name: string;
    displayName: string;
    kind: string;
    enabled: boolean;
    addresses: readonly string[];
    scopes: readonly string[];
  }[];
}) {
  return (
    <ul className="divide-y divide-line">
      {registrations.map(({ name, displayName, kind, enabled, addresses, scopes }) => (
        <li key={name} className="space-y-0.5 py-3 first:pt-0 last:pb-0">
          <p>
            <a href={`${pages}/${name}`} className="link font-medium">
              {displayName}
            </a>{" "}
            <span className="text-muted">
              {name} · {kind}
            </span>
            {enabled ? null : <span className="text-bad"> · disabled</span>}
          </p>
          <p className="wrap-anywhere text-muted text-small">
            <DotSeparated facts={[...truncateAddresses(addresses), scopes.join(" ")]} />
          </p>
        </li>
      ))}
    </ul>
  );
}

function truncateAddresses(addresses: readonly string[]): string[] {
  const more = addresses.length - maxAddresses;
  return [...addresses.slice(0, maxAddresses), ...(more > 0 ? [`and ${more} more`] : [])];
}
