import type { LoaderFunctionArgs } from "@remix-run/node";
import { problem } from "../../http/problem.ts";
import { bindApproval } from "../../mfa/mobile-approval/bind-approval.ts";
import { requireChallenge } from "../../session/challenge.ts";
import { getUser, requireBrowser } from "../../session/user.ts";

/**
 * `GET /api/v1/auth/mfa/mobile/challenges/{id}?secret=`: lets the requesting session poll its challenge. After
 * approval, binds the challenge to that session and sets the approval cookie. HEAD only reads.
 */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const claims = requireBrowser(context);
  const key = { id: params.id ?? "", secret: new URL(request.url).searchParams.get("secret") ?? "" };
  if (request.method === "HEAD") {
    await requireChallenge(context, { kind: "mfa_mobile", key, sessionId: claims.session_id });
    return new Response(null);
  }
  if (!(await getUser(context))) throw problem("UNAUTHENTICATED", { requestId: context.requestId });
  const { status, validUntil } = await bindApproval(context, { key, claims });
  return Response.json({ status, ...(validUntil ? { validUntil } : {}) });
}
