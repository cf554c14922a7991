import type { ActionFunctionArgs } from "@remix-run/node";
import { requirePageAccount } from "../../http/form.ts";
import { readJson } from "../../http/json-body.ts";
import { startRegistration } from "../../passkeys/manage.ts";
import { startRegistrationSchema } from "../../passkeys/payloads.ts";
import { requireFreshUser } from "../../session/user.ts";

/** `POST /settings/security/passkeys/options`: returns a challenge for the script that adds a passkey. */
export async function action({ request, context }: ActionFunctionArgs) {
  await requireFreshUser(context, request);
  const { requestId } = context;
  const { pageAccount } = await readJson(request, { schema: startRegistrationSchema, requestId });
  if (pageAccount !== undefined) requirePageAccount(context, { request, pageAccount });
  return Response.json(await startRegistration(context));
}
