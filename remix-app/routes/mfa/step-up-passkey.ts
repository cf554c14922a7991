import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { problem } from "../../http/problem.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { requireSameAccount } from "../../mfa/require-same-account.ts";
import { finishSignInSchema } from "../../passkeys/payloads.ts";
import { finishSignIn } from "../../passkeys/sign-in.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { getUser } from "../../session/user.ts";

/**
 * `POST /step-up/passkey`: confirms the signed-in person's identity with a passkey. Returns `{ redirectTo }` and sets
 * the cookie of a session that replaces the old one. Refused if an authenticator is enrolled, because its code is
 * required.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  const { requestId } = context;
  const user = await getUser(context);
  if (!user) throw problem("UNAUTHENTICATED", { requestId });
  if (user.mfa.enrolled) throw problem(user.mfa.satisfied ? "STEP_UP_REQUIRED" : "MFA_REQUIRED", { requestId });
  const { returnUrl, ...answer } = await readJson(request, { schema: finishSignInSchema, requestId });
  const session = await finishSignIn(context, answer);
  await requireSameAccount(context, { user, session });
  const destination = redirectTarget(returnUrl, { context, fallback: "/" });
  const next = await completeSignIn(context, { session, method: "passkey", destination });
  return Response.json({ redirectTo: next.headers.get("Location") ?? destination });
}
