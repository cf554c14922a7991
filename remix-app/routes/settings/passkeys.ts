import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { finishRegistration } from "../../passkeys/manage.ts";
import { finishRegistrationSchema } from "../../passkeys/payloads.ts";
import { requireFreshUser } from "../../session/user.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";

/** `POST /settings/security/passkeys`: stores a new passkey and returns `{ redirectTo }`. */
export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const answer = await readJson(request, { schema: finishRegistrationSchema, requestId: context.requestId });
  await finishRegistration(context, { ...answer, userId: user.id });
  leaveNotice(context, { card: "passkeys", done: "added" });
  return Response.json({ redirectTo: "/settings/security#passkeys" });
}
