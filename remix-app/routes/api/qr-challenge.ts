import type { LoaderFunctionArgs } from "@remix-run/node";
import { consumeChallenge } from "../../qr-login/handoff.ts";
import { readHandoffRequest } from "../../qr-login/read-request.ts";
import { requireChallenge } from "../../session/challenge.ts";
import type { HandoffProgress, HandoffRequest } from "../../session/challenge-operations.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { requireBrowser, requirePhone, requireUser } from "../../session/user.ts";

/**
 * `GET /api/v1/auth/qr-login/challenges/{id}?secret=`: polled by the requesting session. The first poll after the
 * approval consumes the challenge and gives the browser a new session. HEAD only reads. A phone's request returns a
 * description of the requesting device, which the phone shows before its user decides.
 */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const key = { id: params.id ?? "", secret: new URL(request.url).searchParams.get("secret") ?? "" };
  const { auth } = context.session;
  if (auth.status === "authenticated" && auth.via === "bearer") {
    const { claims } = await requirePhone(context, request);
    return Response.json((await readHandoffRequest(context, { key, claims })) satisfies HandoffRequest);
  }
  const claims = requireBrowser(context);
  const { status } = await requireChallenge(context, { kind: "qr", key, sessionId: claims.session_id });
  // Consuming the challenge has ended the requesting session, so requireUser would refuse this poll.
  if (status === "consumed") return Response.json({ status });
  const user = await requireUser(context, request);
  if (status !== "approved" || request.method === "HEAD") return Response.json({ status });
  const consumption = await consumeChallenge(context, { key, claims });
  const { session } = consumption;
  if (!session) return Response.json({ status: consumption.status });
  await completeSignIn(context, { session, method: "qr", destination: "/", inPlaceOf: claims.session_id });
  const expiresAt = new Date(session.expires_at * 1000).toISOString();
  return Response.json({ status: "consumed", session: { userId: user.id, expiresAt } } satisfies HandoffProgress);
}
