import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readCrossOriginForm } from "../../http/form.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { isResumed } from "../../openid/authorization-request.ts";
import { issueCode, prepareDecision, refuseAuthorization } from "../../openid/authorize.ts";
import { describeScopeRights } from "../../openid/client-rights.ts";
import { describeRedirectTarget } from "../../openid/client-uris.ts";
import {
  type AuthorizationFault,
  type OpenAuthorization,
  openAuthorization,
  resumePath,
} from "../../openid/open-authorization.ts";
import { getUserLabel } from "../../session/user.ts";
import { AppConsent } from "../../ui/app-consent.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { LeavePage } from "../../ui/leave-page.tsx";

// Clients may submit an authorization request as a form from their own pages (OpenID Connect Core 1.0 section 3.1.2.1).
export const handle: RouteHandle = { takesForeignForms: true };
export const meta = pageTitle("Sign in to an app");

/** The authorization endpoint: answers the client immediately if no decision is needed, otherwise asks the person. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const query = new URL(request.url).searchParams;
  const authorization = await openAuthorization(context, { request, query });
  if ("fault" in authorization) return data({ kind: "fault" as const, ...authorization }, { status: 400 });
  const decision = await prepareDecision(context, { request, authorization });
  const { displayName, consentScopes, resource, target } = authorization;
  if ("location" in decision && isUntrusted(authorization))
    return showRedirectWarning(authorization, decision.location);
  if ("location" in decision || decision.page === null) {
    const address =
      "location" in decision
        ? decision.location
        : await issueCode(context, { authorization, decision, consents: false });
    if (!isResumed(query)) throw redirect(address, 303);
    return data({ kind: "leave" as const, address, displayName });
  }
  const { user, page } = decision;
  return data({
    kind: "ask" as const,
    displayName,
    place: describeRedirectTarget(target.redirectUri),
    resource: resource?.displayName,
    warning: warningOf(authorization),
    rights: describeScopeRights(
      { scopes: consentScopes, resources: resource ? [resource.displayName] : [] },
      context.env.BRAND_NAME,
    ),
    account: { id: user.id, email: getUserLabel(user) },
    others: context.session.accounts.filter(({ id }) => id !== user.id),
    here: page,
    action: page.replace("/oauth/authorize", "/oauth/authorize/decision"),
  });
}

/**
 * Stores a request that another site posts, and redirects to it as a GET, because browsers send the session cookie only
 * with the GET.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  const query = await readCrossOriginForm(request, context);
  const authorization = await openAuthorization(context, { request, query });
  if ("fault" in authorization) return data({ kind: "fault" as const, ...authorization }, { status: 400 });
  const { authorizationRequest } = authorization;
  const address =
    "error" in authorizationRequest
      ? await refuseAuthorization(context, { authorization, error: authorizationRequest })
      : await resumePath(context, { authorization, resumed: false });
  if ("error" in authorizationRequest && isUntrusted(authorization)) return showRedirectWarning(authorization, address);
  throw redirect(new URL(address, context.origin).href, 303);
}

/** Returns whether anybody could have registered the client, and so its redirect URIs. */
function isUntrusted({ registration }: OpenAuthorization): boolean {
  return registration !== "operator";
}

/**
 * Shows where an error would lead. Without a click, this platform's URL would redirect people to any site (RFC 9700
 * section 4.11.2).
 */
function showRedirectWarning({ displayName, target }: OpenAuthorization, address: string) {
  return data(
    { kind: "stop" as const, displayName, place: describeRedirectTarget(target.redirectUri), address },
    { status: 400 },
  );
}

/** Returns what the person should know about a client that chose its own name. */
function warningOf({ displayName, registration, target }: OpenAuthorization): string | undefined {
  switch (registration) {
    case "operator":
      return undefined;
    case "document":
      return `This app is from ${new URL(target.clientId).host}. Continue only if you started this there.`;
    case "dynamic":
      return `“${displayName}” is a name that the app chose itself. Continue only if you started this.`;
  }
}

const faults: Record<AuthorizationFault, { title: string; lead: (name: string) => string }> = {
  unreadable: {
    title: "This sign-in link is incomplete",
    lead: () => "It doesn’t say which app it’s for, or where to send you next. Go back to the app and try again.",
  },
  ended: {
    title: "This sign-in has ended",
    lead: () => "You already answered it, or it was open for more than ten minutes. Go back to the app and try again.",
  },
  unknown_client: {
    title: "This app isn’t registered",
    lead: () => "The page that sent you here doesn’t belong to an app we know. Nothing was shared with it.",
  },
  client_disabled: {
    title: "This app is turned off",
    lead: (name) => `You can’t sign in to ${name} until it’s turned on again. Contact the app’s owner.`,
  },
  document_unavailable: {
    title: "This app can’t be identified",
    lead: () => "Its description couldn’t be loaded. Nothing was shared with it. Go back to the app and try again.",
  },
  document_invalid: {
    title: "This app can’t be identified",
    lead: () => "Its description isn’t valid. Nothing was shared with it. Contact the app’s maker.",
  },
  redirect_uri: {
    title: "This sign-in link isn’t valid",
    lead: (name) =>
      `It leads to an address that isn’t registered for ${name}. Nothing was shared. Contact the app’s owner.`,
  },
};

export default function AuthorizePage() {
  const [loaded, posted] = [useLoaderData<typeof loader>(), useActionData<typeof action>()];
  const shown = posted ?? loaded;
  if (shown.kind === "leave") return <LeavePage {...shown} />;
  if (shown.kind === "ask") return <AppConsent {...shown} tellsApp />;
  if (shown.kind === "stop") {
    return (
      <EntryPage
        title="This app can’t continue"
        lead={`${shown.displayName} asked for something that isn’t possible. Nothing was shared with it.`}
        themeSwitch={false}
      >
        <ButtonLink href={shown.address} className="w-full">{`Return to ${shown.place}`}</ButtonLink>
      </EntryPage>
    );
  }
  const { title, lead } = faults[shown.fault];
  return (
    <EntryPage title={title} lead={lead(shown.displayName ?? "the app")} themeSwitch={false}>
      <ButtonLink href="/" variant="primary" className="w-full">
        Go to home page
      </ButtonLink>
    </EntryPage>
  );
}
