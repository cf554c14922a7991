import type { LoaderFunctionArgs } from "@remix-run/server-runtime";

/** `GET /.well-known/passkey-endpoints` (W3C, Passkey Endpoints): where passkeys are made and looked after. */
export function loader({ context: { origin } }: LoaderFunctionArgs) {
  return Response.json({
    enroll: `${origin}/settings/security/passkeys/new`,
    manage: `${origin}/settings/security#passkeys`,
  });
}
