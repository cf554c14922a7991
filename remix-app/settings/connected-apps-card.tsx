import type { ReactNode } from "react";
import { rightOfToken, rightsOfSession } from "../apps/app-rights.ts";
import type { ConnectedApp, HeldByApp } from "../apps/connected-apps.ts";
import { rightsOfScopes } from "../openid/client-rights.ts";
import { useBrand } from "../ui/brand.ts";
import { ButtonLink, buttonClass } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { Moment } from "../ui/moment.tsx";
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

/** Shows an app, what it may do and for how long, and a link to disconnect the app. */
export function ConnectedAppCard({ app }: { app: ConnectedApp }) {
  const product = useBrand().name;
  const { name, displayName, session, login, consent } = app;
  const [tokens, moreTokens] = [app.tokens.slice(0, workspacesShown), app.tokens.length - workspacesShown];
  const [origins, moreOrigins] = [app.origins.slice(0, originsShown), app.origins.length - originsShown];
  const websites = [...origins, ...(moreOrigins > 0 ? [`${moreOrigins} more`] : [])];
  return (
    <Card
      title={displayName}
      lead={websites.join(", ") || "No website listed"}
      action={
        <a href={`${connectedAppsPath}/${name}/disconnect`} className={buttonClass("danger")}>
          Disconnect<span className="sr-only"> {displayName}</span>
        </a>
      }
    >
      <ul className="divide-y divide-line">
        {session ? <SignedInLine held={session} rights={rightsOfSession(session)} /> : null}
        {login ? <SignedInLine held={login} rights={rightsOfScopes(login, product)} /> : null}
        {consent && !login ? (
          <li className="py-3 first:pt-0 last:pb-0">
            <Rights
              title="You’re signed out. When you sign in again, this app can do this without asking you:"
              rights={rightsOfScopes(consent, product)}
            />
            <p className="mt-1.5 text-muted">
              Allowed <Moment at={consent.grantedAt} />
            </p>
          </li>
        ) : null}
        {tokens.map((token, index) => {
          const right = rightOfToken(token);
          return (
            // Two workspaces may have one name, and those that are closed to somebody have none.
            // biome-ignore lint/suspicious/noArrayIndexKey: the page is sent once
            <HeldLine key={index} held={token} what="Access" ends="unless the app renews it">
              {right ? (
                <Rights title="This app can:" rights={[right]} />
              ) : (
                <p className="font-medium">
                  This app has a token for {token.workspace ?? "a workspace"}, but can’t use it right now.
                </p>
              )}
            </HeldLine>
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

function SignedInLine({ held, rights }: { held: HeldByApp; rights: string[] }) {
  return (
    <HeldLine held={held} what="Session" ends="">
      <Rights title="You’re signed in. This app can:" rights={rights} />
    </HeldLine>
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

interface HeldLineProps {
  held: HeldByApp;
  /** The subject of the sentence "… expires", such as "Session". */
  what: string;
  ends: string;
  children: ReactNode;
}

function HeldLine({ held, what, ends, children }: HeldLineProps) {
  const { connectedAt, renewedAt, endsAt } = held;
  return (
    <li className="py-3 first:pt-0 last:pb-0">
      {children}
      <p className="mt-1.5 text-muted">
        Connected <Moment at={connectedAt} />
        {renewedAt === connectedAt ? null : (
          <>
            {" · "}Last renewed <Moment at={renewedAt} />
          </>
        )}
        {` · ${what} expires `}
        <Moment at={endsAt} /> {ends}
      </p>
    </li>
  );
}
