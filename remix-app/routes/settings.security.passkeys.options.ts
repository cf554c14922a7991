import type { ActionFunctionArgs } from "@remix-run/server-runtime";
import { requireFreshUser } from "../identity/user.ts";
import { startRegistration } from "../passkeys/manage.ts";

/** `POST /settings/security/passkeys/options`: a challenge for the script that adds a passkey. */
export async function action({ request, context }: ActionFunctionArgs) {
  await requireFreshUser(context, request);
  return Response.json(await startRegistration(context));
}
