import type { LinkedIdentity } from "../session/sign-in-methods.ts";
import { AccountForm } from "../ui/account-form.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { Notice } from "../ui/notice.tsx";
import { PageNav } from "../ui/page-nav.tsx";
import { ProviderIcon } from "../ui/provider-buttons.tsx";
import type { LinkableProvider, LinkNotice } from "./linked-accounts.ts";
import { UnconfirmedMark } from "./unconfirmed-mark.tsx";

export interface LinkedAccountsCardProps {
  providers: readonly LinkableProvider[];
  nextCursor: string | null;
  notice: LinkNotice | null;
}

/** Lists the available providers and the accounts linked at each. */
export function LinkedAccountsCard({ providers, nextCursor, notice }: LinkedAccountsCardProps) {
  if (providers.length === 0) return null;
  return (
    <Card id="linked-accounts" title="Linked accounts" lead="Sign in with an account you already have.">
      {notice ? (
        <div className="mb-4">
          <Notice tone={notice.tone}>{notice.text}</Notice>
        </div>
      ) : null}
      <ul className="divide-y divide-line">
        {providers.map((provider) => (
          <ProviderLine key={provider.name} {...provider} />
        ))}
      </ul>
      <PageNav label="Pages of linked accounts" nextCursor={nextCursor} param="linked" card="linked-accounts" />
    </Card>
  );
}

function ProviderLine({ name, label, offered, identities }: LinkableProvider) {
  return (
    <li className="py-3 first:pt-0 last:pb-0">
      <div className="flex min-h-10 flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <p className="flex items-center gap-2.5 font-medium">
          <ProviderIcon provider={name} />
          {label}
        </p>
        {offered ? (
          <AccountForm action={`/auth/oauth/${name}`}>
            <input type="hidden" name="intent" value="link" />
            <Button variant="secondary">
              {identities.length > 0 ? "Link another" : "Link"}
              <span className="sr-only"> {label} account</span>
            </Button>
          </AccountForm>
        ) : null}
      </div>
      {identities.length > 0 ? (
        <ul className="space-y-2 pt-2 pl-6.5">
          {identities.map((identity) => (
            <IdentityLine key={identity.id} identity={identity} label={label} />
          ))}
        </ul>
      ) : null}
      {offered ? null : <p className="pl-6.5 text-muted">Signing in with {label} is turned off here.</p>}
    </li>
  );
}

function IdentityLine({ identity, label }: { identity: LinkedIdentity; label: string }) {
  const { id, email, createdAt, unlinkable, unconfirmed } = identity;
  const name = email ?? `${label} account`;
  return (
    <li className="flex min-h-10 flex-wrap items-center justify-between gap-x-4 gap-y-1">
      <div className="min-w-0">
        <p className="break-words">
          {name} {unconfirmed ? <UnconfirmedMark /> : null}
        </p>
        <p className="text-muted text-small">
          Linked <RelativeTime at={createdAt} />
        </p>
      </div>
      {unlinkable ? (
        <ButtonLink href={`/settings/security/linked-accounts/${id}`}>
          Unlink<span className="sr-only"> {name}</span>
        </ButtonLink>
      ) : (
        <p className="text-muted text-small">Your only way to sign in</p>
      )}
    </li>
  );
}
