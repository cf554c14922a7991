import { type ActionFunctionArgs, redirect } from "@remix-run/node";
import { useActionData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { denyAuthorization, issueCode, prepareDecision } from "../../openid/authorize.ts";
import { openAuthorization } from "../../openid/open-authorization.ts";
import { pageTitle } from "../../ui/brand.ts";
import { type Departure, LeavePage } from "../../ui/leave-page.tsx";

export const handle: RouteHandle = { methods: ["POST"] };
export const meta = pageTitle("Sign in to an app");

/** Records the decision made on the authorization page. The URL has the same query as that page. */
export async function action({ request, context }: ActionFunctionArgs): Promise<Departure> {
  const { search, searchParams: query } = new URL(request.url);
  const ask = () => redirect(`/oauth/authorize${search}`, 303);
  const authorization = await openAuthorization(context, { request, query });
  if ("fault" in authorization || authorization.requestUri === null) throw ask();
  const form = await readForm(request, context);
  const { displayName } = authorization;
  if (form.get("decision") === "cancel")
    return { address: await denyAuthorization(context, authorization), displayName };
  const decision = await prepareDecision(context, { request, authorization });
  if ("location" in decision) return { address: decision.location, displayName };
  // Another tab may have switched accounts since the page was rendered. A request with prompt=none never shows the
  // page.
  if (form.get("accountId") !== decision.user.id || decision.authorizationRequest.prompt.has("none")) throw ask();
  return { address: await issueCode(context, { authorization, decision, consents: true }), displayName };
}

export default function DecisionPage() {
  const departure = useActionData<typeof action>();
  return departure ? <LeavePage {...departure} /> : null;
}
