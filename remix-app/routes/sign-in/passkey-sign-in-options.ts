import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { startSignInSchema } from "../../passkeys/payloads.ts";
import { startSignIn } from "../../passkeys/sign-in.ts";

/** `POST /login/passkey/options`: returns a challenge for the sign-in page's script, `{ challengeId, options }`. */
export async function action({ request, context }: ActionFunctionArgs) {
  const { requestId } = context;
  return Response.json(await startSignIn(context, await readJson(request, { schema: startSignInSchema, requestId })));
}
