import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { listSessions, type SessionList } from "../../session/account-sessions.ts";
import { requireUser } from "../../session/user.ts";

/** `GET /api/v1/users/me/sessions`: where the account is signed in. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const sessions = await listSessions(context, await requireUser(context, request));
  return Response.json({
    sessions: sessions.map(({ id, current, createdAt, lastSeenAt, ip, userAgent, aal }) => ({
      id,
      current,
      createdAt,
      lastSeenAt,
      ip,
      userAgent,
      aal,
    })),
  } satisfies SessionList);
}
