import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { providerLabel } from "../../config/oauth-providers.ts";
import { readForm } from "../../http/form.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { endOAuth, type OAuthReturn } from "../../oauth/end-oauth.ts";
import { failureText } from "../../oauth/failures.ts";
import { getUser } from "../../session/user.ts";
import { linkNotice } from "../../settings/linked-accounts.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";

/** HEAD would complete the sign-in like GET, and HEAD must not change anything. */
export const handle: RouteHandle = { methods: ["GET", "POST"], target: false };

export const meta = pageTitle("Sign in");

type View =
  | { kind: "foreign"; signedIn: boolean }
  | { kind: "ask"; provider: string; email: string | null; visitor: string; code: string; state: string }
  | { kind: "failed"; text: string; goOn: string };

/** Handles the redirect with which the identity backend returns a browser from a provider. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  return finishOAuth(context, { query: new URL(request.url).searchParams, agreed: false });
}

/** Records a signed-in person's confirmation that another account may become the active one. */
export async function action({ request, context }: ActionFunctionArgs) {
  const { code, state } = Object.fromEntries(await readForm(request, context));
  return finishOAuth(context, {
    query: new URLSearchParams({ code: String(code ?? ""), state: String(state ?? "") }),
    agreed: true,
  });
}

async function finishOAuth(context: AppLoadContext, given: OAuthReturn) {
  const outcome = await endOAuth(context, given);
  if (outcome.status === "signed_in") throw outcome.response;
  if (outcome.status === "foreign") {
    return respondWithView({ kind: "foreign", signedIn: (await getUser(context)) !== null }, 403);
  }
  const { provider, purpose, returnTo } = outcome.payload;
  if (outcome.status === "linked") {
    leaveNotice(context, linkNotice(provider, "linked"));
    throw redirect(returnTo);
  }
  if (outcome.status === "ask") {
    const { email, visitor } = outcome;
    const values = { code: given.query.get("code") ?? "", state: given.query.get("state") ?? "" };
    return respondWithView(
      { kind: "ask", provider: providerLabel(provider), email, visitor: visitor.email, ...values },
      200,
    );
  }
  const { failure, visitor } = outcome;
  if (purpose === "link") {
    leaveNotice(context, linkNotice(provider, failure));
    throw redirect(returnTo);
  }
  if (!visitor) throw redirect(`/login?${new URLSearchParams({ oauth: failure, provider, returnUrl: returnTo })}`);
  return respondWithView({ kind: "failed", text: failureText(failure, provider), goOn: returnTo }, 403);
}

function respondWithView(view: View, status: number) {
  return data(view, { status });
}

export default function OAuthCallbackPage() {
  const loaded = useLoaderData<typeof loader>();
  const view = useActionData<typeof action>() ?? loaded;
  if (view.kind === "foreign") {
    return (
      <EntryPage
        title="This sign-in can’t be finished here"
        lead="It has expired, was already finished, or was started in another browser. Nothing has changed. Start again in the browser you want to use."
        themeSwitch={false}
      >
        <ButtonLink href={view.signedIn ? "/" : "/login"} variant="primary" className="w-full">
          {view.signedIn ? "Go to home page" : "Go to sign in"}
        </ButtonLink>
      </EntryPage>
    );
  }
  if (view.kind === "failed") {
    return (
      <EntryPage title="We couldn’t sign you in" lead={view.text} themeSwitch={false}>
        <ButtonLink href={view.goOn} variant="primary" className="w-full">
          Back to your account
        </ButtonLink>
      </EntryPage>
    );
  }
  const { provider, email, visitor, code, state } = view;
  return (
    <EntryPage
      title={<EmailAddress>{email ? `Continue as ${email}?` : `Continue with ${provider}?`}</EmailAddress>}
      lead={
        <EmailAddress whole>
          {`You’re signed in as ${visitor}. If you continue, you’ll also be signed in ${email ? `as ${email}` : `with ${provider}`}, and we’ll switch you to that account.`}
        </EmailAddress>
      }
      themeSwitch={false}
    >
      <form method="post" action="/auth/callback" className="space-y-3">
        <input type="hidden" name="code" value={code} />
        <input type="hidden" name="state" value={state} />
        <Button className="w-full">
          <EmailAddress whole>{email ? `Continue as ${email}` : `Continue with ${provider}`}</EmailAddress>
        </Button>
        <ButtonLink href="/" className="w-full">
          <EmailAddress whole>{`Stay signed in as ${visitor}`}</EmailAddress>
        </ButtonLink>
      </form>
    </EntryPage>
  );
}
