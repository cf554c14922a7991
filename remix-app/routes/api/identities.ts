import type { LoaderFunctionArgs } from "@remix-run/node";
import { type IdentityList, listIdentities } from "../../session/sign-in-methods.ts";
import { requireUser } from "../../session/user.ts";

/** `GET /api/v1/users/me/identities`. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const identities = await listIdentities(context, await requireUser(context, request));
  return Response.json({
    identities: identities.map(({ unlinkable: _, unconfirmed: __, ...identity }) => identity),
    canUnlink: identities.some(({ unlinkable }) => unlinkable),
  } satisfies IdentityList);
}
