import type { ReactNode } from "react";
import { rightsOfScopes } from "../openid/client-rights.ts";
import { rightOfToken, rightsOfSession } from "../satellites/app-rights.ts";
import type { ConnectedApp, HeldByApp } from "../satellites/connected-apps.ts";
import { useBrand } from "../ui/brand.ts";
import { ButtonLink, buttonClass } from "../ui/button.tsx";
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
const workspacesShown = 10;
const originsShown = 3;

/** Shows an app, its permissions and their dates, and a link to disconnect it. */
export function ConnectedAppCard({ app }: { app: ConnectedApp }) {
  const product = useBrand().name;
  const { name, displayName, session, login, consent } = app;
  const [tokens, moreTokens] = [app.tokens.slice(0, workspacesShown), app.tokens.length - workspacesShown];
  const [origins, moreOrigins] = [app.origins.slice(0, originsShown), app.origins.length - originsShown];
  const websites = [...origins, ...(moreOrigins > 0 ? [`${moreOrigins} more`] : [])];
  return (
    <Card
      title={displayName}
      lead={websites.join(", ") || (login || consent ? "Signs in with OpenID Connect" : "No website registered")}
      action={
        <a href={`${connectedAppsPath}/${name}/disconnect`} className={buttonClass("danger")}>
          Disconnect<span className="sr-only"> {displayName}</span>
        </a>
      }
    >
      <ul className="divide-y divide-line">
        {session ? <SignedInLine held={session} rights={rightsOfSession(session)} /> : null}
        {login ? <SignedInLine held={login} rights={rightsOfScopes(login.scopes, product)} /> : null}
        {consent && !login ? (
          <li className="py-3 first:pt-0 last:pb-0">
            <p className="font-medium">Allowed to sign you in without asking again</p>
            <RightsList rights={rightsOfScopes(consent.scopes, product)} />
            <p className="mt-1.5 text-muted">
              Allowed <RelativeTime at={consent.grantedAt} />
            </p>
          </li>
        ) : null}
        {tokens.map((token, index) => (
          // Two workspaces may have one name, and those that are closed to somebody have none.
          // biome-ignore lint/suspicious/noArrayIndexKey: the page is sent once
          <HeldLine key={index} held={token} ends="unless it’s renewed">
            <p className="font-medium">{rightOfToken(token)}</p>
          </HeldLine>
        ))}
        {moreTokens > 0 ? (
          <li className="pt-3 text-muted">
            {`And ${moreTokens} more ${moreTokens === 1 ? "workspace" : "workspaces"}.`}
          </li>
        ) : null}
      </ul>
    </Card>
  );
}

function SignedInLine({ held, rights }: { held: HeldByApp; rights: string[] }) {
  return (
    <HeldLine held={held} ends="">
      <p className="font-medium">Signed in. This app can:</p>
      <RightsList rights={rights} />
    </HeldLine>
  );
}

function RightsList({ rights }: { rights: string[] }) {
  return (
    <ul className="list-disc pl-5">
      {rights.map((right) => (
        <li key={right}>{right}</li>
      ))}
    </ul>
  );
}

function HeldLine({ held, ends, children }: { held: HeldByApp; ends: string; children: ReactNode }) {
  const { connectedAt, renewedAt, endsAt } = held;
  return (
    <li className="py-3 first:pt-0 last:pb-0">
      {children}
      <p className="mt-1.5 text-muted">
        Connected <RelativeTime at={connectedAt} />
        {renewedAt === connectedAt ? null : (
          <>
            {" · "}Renewed <RelativeTime at={renewedAt} />
          </>
        )}
        {" · "}Expires <RelativeTime at={endsAt} /> {ends}
      </p>
    </li>
  );
}
