import type { LoaderFunctionArgs } from "@remix-run/node";
import { readPageQuery } from "../../http/list-page.ts";
import { listSessions, type SessionList } from "../../session/account-sessions.ts";
import { requireUser } from "../../session/user.ts";

/** `GET /api/v1/users/me/sessions`: lists where the account is signed in. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { sessions, nextCursor } = await listSessions(context, { user, ...readPageQuery(request, context) });
  return Response.json({
    sessions: sessions.map(({ id, current, createdAt, lastSeenAt, ip, place, userAgent, aal }) => ({
      id,
      current,
      createdAt,
      lastSeenAt,
      ip,
      place,
      userAgent,
      aal,
    })),
    nextCursor,
  } satisfies SessionList);
}
