import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { finishSignInSchema } from "../../passkeys/payloads.ts";
import { finishSignIn } from "../../passkeys/sign-in.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";

/**
 * `POST /login/passkey`: verifies a browser's answer to a challenge. Returns `{ redirectTo }` and sets the session
 * cookie.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  const { requestId } = context;
  const { returnUrl, ...answer } = await readJson(request, { schema: finishSignInSchema, requestId });
  const session = await finishSignIn(context, answer);
  const destination = redirectTarget(returnUrl, { context, fallback: "/" });
  // If the browser has the maximum number of accounts, completeSignIn throws a redirect to another page. The script
  // receives the URL of that page as JSON.
  const next = await completeSignIn(context, { session, method: "passkey", destination }).catch((answer: unknown) => {
    if (answer instanceof Response && answer.headers.has("Location")) return answer;
    throw answer;
  });
  return Response.json({ redirectTo: next.headers.get("Location") ?? destination });
}
