import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { consumeChallenge } from "../../qr-login/handoff.ts";
import { requireChallenge } from "../../session/challenge.ts";
import type { HandoffProgress } from "../../session/challenge-operations.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { requireBrowser, requireUser } from "../../session/user.ts";

/**
 * `GET /api/v1/auth/qr-login/challenges/{id}?secret=`: the asking session's poll. The one that finds it approved and is
 * first consumes it, and its answer signs the browser in anew. HEAD only looks.
 */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const claims = requireBrowser(context);
  const key = { id: params.id ?? "", secret: new URL(request.url).searchParams.get("secret") ?? "" };
  const { status } = await requireChallenge(context, { kind: "qr", key, sessionId: claims.session_id });
  if (status !== "approved" || request.method === "HEAD") return Response.json({ status });
  const user = await requireUser(context, request);
  const consumption = await consumeChallenge(context, { key, claims });
  if (!consumption.session) return Response.json({ status: consumption.status });
  context.session.store(consumption.session);
  await completeSignIn(context, { method: "qr", destination: "/", inPlaceOf: claims.session_id });
  const expiresAt = new Date(consumption.session.expires_at * 1000).toISOString();
  return Response.json({ status: "consumed", session: { userId: user.id, expiresAt } } satisfies HandoffProgress);
}
