import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { describeAppRights } from "../../apps/app-rights.ts";
import { readForm } from "../../http/form.ts";
import { appDestination, findVerifyRoute, verifyTokenAddress } from "../../satellites/app-destination.ts";
import { mintCrossAppToken } from "../../satellites/handoff.ts";
import { getUserLabel, requireUser } from "../../session/user.ts";
import { AppConsent } from "../../ui/app-consent.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";

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

/** Asks for consent before signing a person in to an app. Opening an app's link must not sign anyone in. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { user, here, destination } = await openContinuation(context, request);
  if (destination) context.allowFormTarget(destination.origin);
  const answer = {
    accountId: user.id,
    email: getUserLabel(user),
    others: context.session.accounts.filter(({ id }) => id !== user.id),
    here,
    app: destination && {
      displayName: destination.app.displayName,
      enabled: destination.app.enabled,
      rights: describeAppRights(destination.app),
      host: new URL(destination.origin).host,
    },
  };
  return data(answer, { status: destination ? 200 : 404 });
}

export async function action({ request, context }: ActionFunctionArgs) {
  const { user, here, destination, state } = await openContinuation(context, request);
  // The answer counts only for the account that the page named. Another tab may have switched accounts since.
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
          Go to home page
        </ButtonLink>
      </EntryPage>
    );
  }
  return (
    <AppConsent
      displayName={app.displayName}
      place={app.host}
      rights={app.rights}
      account={{ id: accountId, email }}
      others={others}
      here={here}
      message={failed?.message}
    />
  );
}
