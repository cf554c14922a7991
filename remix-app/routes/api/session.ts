import type { LoaderFunctionArgs } from "@remix-run/node";
import { problem } from "../../http/problem.ts";
import type { SessionAnswer } from "../../session/account-operations.ts";
import { getUser } from "../../session/user.ts";

/** `GET /api/v1/auth/session`: returns the signed-in user, even if a second step is still pending. */
export async function loader({ context }: LoaderFunctionArgs) {
  const user = await getUser(context);
  if (!user) {
    throw problem("UNAUTHENTICATED", { requestId: context.requestId, headers: { "WWW-Authenticate": "Bearer" } });
  }
  const { id, email, displayName, avatarUrl, sessionId, aal } = user;
  const { required, satisfied } = user.mfa;
  return Response.json({
    user: { id, email, displayName, avatarUrl },
    sessionId,
    aal,
    mfa: { required, satisfied },
    activeAccountId: id,
  } satisfies SessionAnswer);
}
