import { Form, useActionData, useLoaderData } from "@remix-run/react";
import {
  type ActionFunctionArgs,
  type AppLoadContext,
  data,
  type LoaderFunctionArgs,
  redirect,
} from "@remix-run/server-runtime";
import { readForm } from "../../http/form.ts";
import { detour } from "../../http/redirect-target.ts";
import { appDestination, findVerifyRoute, verifyTokenAddress } from "../../satellites/app-destination.ts";
import { rightsOfApp } from "../../satellites/app-rights.ts";
import { mintCrossAppToken } from "../../satellites/handoff.ts";
import { requireUser, shownAs } from "../../session/user.ts";
import { AccountChoices } from "../../ui/account-choices.tsx";
import { Address } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";

export const meta = pageTitle("Sign in to an app");

const tokenLifetimeSeconds = 300;

async function openContinuation(context: AppLoadContext, request: Request) {
  const user = await requireUser(context, request);
  const { pathname, search, searchParams } = new URL(request.url);
  return {
    user,
    here: `${pathname}${search}`,
    destination: await appDestination(context, searchParams.get("returnUrl")),
    state: searchParams.get("state"),
  };
}

/** Asks before it hands anybody over: an app's link alone signs nobody in there. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { user, here, destination } = await openContinuation(context, request);
  if (destination) context.allowFormTarget(destination.origin);
  const answer = {
    accountId: user.id,
    email: shownAs(user),
    others: context.session.accounts.filter(({ id }) => id !== user.id),
    here,
    app: destination && {
      displayName: destination.app.displayName,
      enabled: destination.app.enabled,
      rights: rightsOfApp(destination.app),
      host: new URL(destination.origin).host,
    },
  };
  return data(answer, { status: destination ? 200 : 404 });
}

export async function action({ request, context }: ActionFunctionArgs) {
  const { user, here, destination, state } = await openContinuation(context, request);
  // The account that the page has named, whichever another tab has switched to since.
  if ((await readForm(request, context)).get("accountId") !== user.id) throw redirect(here, 303);
  if (!destination?.app.enabled) return data({ message: "This app can’t sign anyone in right now." }, { status: 404 });
  context.allowFormTarget(destination.origin);
  const { displayName, name } = destination.app;
  const route = await findVerifyRoute(destination.origin);
  if (route !== "present") {
    const message =
      route === "missing"
        ? `${displayName} isn’t set up to finish sign-ins: ${destination.origin}/verify-token is missing. Contact the app’s owner.`
        : `${displayName} isn’t responding. Try again in a moment.`;
    return data({ message }, { status: 503 });
  }
  const { token } = await mintCrossAppToken(context, { user, targetApp: name, expirySeconds: tokenLifetimeSeconds });
  throw redirect(verifyTokenAddress(destination, { token, state }), 303);
}

export default function ContinuePage() {
  const { accountId, email, others, here, app } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  if (!app?.enabled) {
    return (
      <EntryPage
        title={app ? `${app.displayName} is turned off` : "This app isn’t registered"}
        lead={
          app
            ? "You can’t sign in to it until it’s turned on again. Contact the app’s owner."
            : "The page that sent you here doesn’t belong to an app we know. Nothing was shared with it."
        }
      >
        <ButtonLink href="/" variant="primary" className="w-full">
          Go to Home
        </ButtonLink>
      </EntryPage>
    );
  }
  return (
    <EntryPage title={`Sign in to ${app.displayName}`} lead={`You’ll be signed in at ${app.host}.`}>
      <ErrorSummary id="continue-error" form={failed?.message} />
      <section aria-labelledby="rights" className="wrap-anywhere space-y-2">
        <h2 id="rights" className="font-medium">
          {app.displayName} will be able to
        </h2>
        <ul className="list-disc space-y-1 pl-5">
          {app.rights.map((right) => (
            <li key={right}>{right}</li>
          ))}
        </ul>
        <p className="text-muted">You can disconnect it at any time under Connected apps in your security settings.</p>
      </section>
      <Form method="post" data-once>
        <input type="hidden" name="accountId" value={accountId} />
        <Button className="w-full">
          <Address>{`Continue as ${email}`}</Address>
        </Button>
      </Form>
      <AccountChoices accounts={others} returnUrl={here} verb="Continue as" />
      <div className="space-y-1">
        <ButtonLink href={detour("/add-account", here)} variant="quiet" className="w-full">
          Use another account
        </ButtonLink>
        <ButtonLink href="/" variant="quiet" className="w-full">
          Cancel
        </ButtonLink>
      </div>
    </EntryPage>
  );
}
