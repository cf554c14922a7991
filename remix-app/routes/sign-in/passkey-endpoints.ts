import type { LoaderFunctionArgs } from "@remix-run/node";

/** `GET /.well-known/passkey-endpoints` (W3C, Passkey Endpoints): returns where passkeys are created and managed. */
export function loader({ context: { origin } }: LoaderFunctionArgs) {
  return Response.json({
    enroll: `${origin}/settings/security/passkeys/new`,
    manage: `${origin}/settings/security#passkeys`,
  });
}
