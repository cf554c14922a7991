import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { type ProblemCode, problem } from "../../http/problem.ts";
import { requireProvider } from "../../oauth/begin-oauth.ts";
import { endPhoneLink } from "../../oauth/end-oauth.ts";
import { failureText, type OAuthFailure } from "../../oauth/failures.ts";
import { linkCompletion } from "../../session/operations.ts";
import { requirePhone } from "../../session/user.ts";

const problemCodeByFailure: Partial<Record<OAuthFailure, ProblemCode>> = {
  expired: "GONE",
  unavailable: "AUTH_UNAVAILABLE",
};

/** `POST /api/v1/users/me/identities/link/{provider}/complete`: completes a link on the phone that began it. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { name } = requireProvider(context, params.provider);
  const { user } = await requirePhone(context, request);
  const { requestId } = context;
  const completion = await readJson(request, { schema: linkCompletion, requestId });
  const failure = await endPhoneLink(context, { user, provider: name, ...completion });
  if (failure === null) return new Response(null, { status: 204 });
  throw problem(problemCodeByFailure[failure] ?? "CONFLICT", { requestId, detail: failureText(failure, name) });
}
