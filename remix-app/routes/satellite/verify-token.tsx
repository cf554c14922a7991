import { type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { finishSignIn, previewSignIn } from "../../satellites/own/app-user.ts";
import { stateMatches } from "../../satellites/own/session-cookies.ts";
import { Address } from "../../ui/address.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { InlineScript } from "../../ui/inline-script.tsx";
import verifyTokenScript from "../../ui/verify-token.js?raw";

export const handle: RouteHandle = { side: "satellite", target: false };

// Nothing that this page loads is told its address, which holds the token until the script takes it out.
export const meta: MetaFunction = () => [{ title: "Signing in" }, { name: "referrer", content: "strict-origin" }];

/** Redeems nothing: a scanner that opens the link burns no token. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { searchParams } = new URL(request.url);
  const token = searchParams.get("token") ?? "";
  const state = searchParams.get("state") ?? "";
  const nextUrl = redirectTarget(searchParams.get("nextUrl"), { context, fallback: "/" });
  const startedHere = token !== "" && stateMatches(context, state);
  const person = token !== "" && !startedHere ? await previewSignIn(context, token) : null;
  return { token, state, nextUrl, startedHere, person };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  const token = String(form.get("token") ?? "");
  const state = form.has("state") ? String(form.get("state")) : undefined;
  const nextUrl = redirectTarget(form.get("nextUrl"), { context, fallback: "/" });
  if (await finishSignIn(context, { token, state })) throw redirect(nextUrl, 303);
  return data({ failed: true }, { status: 401 });
}

export default function VerifyTokenPage() {
  const { token, state, nextUrl, startedHere, person } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>()?.failed ?? false;
  if (failed || (!startedHere && !person)) return <LinkIsOver />;
  const name = person ? (person.email ?? person.name) : null;
  return (
    <>
      <EntryPage
        title={
          startedHere ? "Signing you in" : name ? <Address>{`Continue as ${name}?`}</Address> : "Continue signing in?"
        }
        lead={startedHere ? undefined : "This sign-in wasn’t started in this browser. Continue only if you started it."}
        themeSwitch={false}
      >
        <form
          id="handoff"
          method="post"
          action="/verify-token"
          data-once
          data-auto={startedHere ? "true" : "false"}
          className="space-y-3"
        >
          <input type="hidden" name="token" value={token} />
          <input type="hidden" name="nextUrl" value={nextUrl} />
          {startedHere ? <input type="hidden" name="state" value={state} /> : null}
          <Button className="w-full">
            <Address>{name ? `Continue as ${name}` : "Continue"}</Address>
          </Button>
          {startedHere ? null : (
            <ButtonLink href="/" className="w-full">
              Cancel
            </ButtonLink>
          )}
        </form>
      </EntryPage>
      <InlineScript source={verifyTokenScript} />
    </>
  );
}

function LinkIsOver() {
  return (
    <EntryPage
      title="This sign-in has expired"
      lead="It was already used, has expired, or was started in another browser."
      themeSwitch={false}
    >
      <ButtonLink href="/sign-in" variant="primary" className="w-full">
        Sign in again
      </ButtonLink>
    </EntryPage>
  );
}
