import type { ReactNode } from "react";
import { describeSessionRights, describeTokenRight } from "../apps/app-rights.ts";
import type { AppAccess, ConnectedApp } from "../apps/connected-apps.ts";
import { describeScopeRights } from "../openid/client-rights.ts";
import { useBrand } from "../ui/brand.ts";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { connectedAppsPath } from "./paths.ts";

/** Links to the page of connected apps. Lists no apps itself, so that only that page loads them. */
export function ConnectedAppsCard() {
  return (
    <Card
      id="apps"
      title="Connected apps"
      lead="Apps you’ve signed in to with this account."
      action={<ButtonLink href={connectedAppsPath}>Manage apps</ButtonLink>}
    />
  );
}

/** The maximum number of workspaces listed per app. Disconnecting ends access to the other workspaces too. */
const maxWorkspaces = 10;
const maxShownOrigins = 3;

/** Shows an app, what it may do and for how long, and a link to disconnect the app. */
export function ConnectedAppCard({ app }: { app: ConnectedApp }) {
  const product = useBrand().name;
  const { name, displayName, session, login, consent } = app;
  const [tokens, moreTokens] = [app.tokens.slice(0, maxWorkspaces), app.tokens.length - maxWorkspaces];
  const [origins, moreOrigins] = [app.origins.slice(0, maxShownOrigins), app.origins.length - maxShownOrigins];
  const websites = [...origins, ...(moreOrigins > 0 ? [`${moreOrigins} more`] : [])];
  return (
    <Card
      title={displayName}
      lead={websites.join(", ") || "No website listed"}
      action={
        <ButtonLink href={`${connectedAppsPath}/${name}/disconnect`} variant="danger">
          Disconnect<span className="sr-only"> {displayName}</span>
        </ButtonLink>
      }
    >
      <ul className="divide-y divide-line">
        {session ? <SignedInLine access={session} rights={describeSessionRights(session)} /> : null}
        {login ? <SignedInLine access={login} rights={describeScopeRights(login, product)} /> : null}
        {consent && !login ? (
          <li className="py-3 first:pt-0 last:pb-0">
            <Rights
              title="You’re signed out. When you sign in again, this app can do this without asking you:"
              rights={describeScopeRights(consent, product)}
            />
            <p className="mt-1.5 text-muted">
              Allowed <RelativeTime at={consent.grantedAt} />
            </p>
          </li>
        ) : null}
        {tokens.map((token, index) => {
          const right = describeTokenRight(token);
          return (
            // Two workspaces may have one name, and those that are closed to somebody have none.
            // biome-ignore lint/suspicious/noArrayIndexKey: the page is sent once
            <AccessLine key={index} access={token} what="Access" ends="unless the app renews it">
              {right ? (
                <Rights title="This app can:" rights={[right]} />
              ) : (
                <p className="font-medium">
                  This app has a token for {token.workspace ?? "a workspace"}, but can’t use it right now.
                </p>
              )}
            </AccessLine>
          );
        })}
        {moreTokens > 0 ? (
          <li className="pt-3 text-muted">
            {`And ${moreTokens} more ${moreTokens === 1 ? "workspace" : "workspaces"}.`}
          </li>
        ) : null}
      </ul>
    </Card>
  );
}

function SignedInLine({ access, rights }: { access: AppAccess; rights: string[] }) {
  return (
    <AccessLine access={access} what="Session" ends="">
      <Rights title="You’re signed in. This app can:" rights={rights} />
    </AccessLine>
  );
}

function Rights({ title, rights }: { title: string; rights: string[] }) {
  return (
    <>
      <p className="font-medium">{title}</p>
      <ul className="list-disc pl-5">
        {rights.map((right) => (
          <li key={right}>{right}</li>
        ))}
      </ul>
    </>
  );
}

interface AccessLineProps {
  access: AppAccess;
  /** The subject of the sentence "… expires", such as "Session". */
  what: string;
  ends: string;
  children: ReactNode;
}

function AccessLine({ access, what, ends, children }: AccessLineProps) {
  const { connectedAt, renewedAt, endsAt } = access;
  return (
    <li className="py-3 first:pt-0 last:pb-0">
      {children}
      <p className="mt-1.5 text-muted">
        Connected <RelativeTime at={connectedAt} />
        {renewedAt === connectedAt ? null : (
          <>
            {" · "}Last renewed <RelativeTime at={renewedAt} />
          </>
        )}
        {` · ${what} expires `}
        <RelativeTime at={endsAt} /> {ends}
      </p>
    </li>
  );
}
