import type { ActionFunctionArgs } from "@remix-run/node";
import { problem } from "../../http/problem.ts";
import { requestApproval } from "../../mfa/mobile-approval/request-approval.ts";
import type { NewApprovalRequest } from "../../session/challenge-operations.ts";
import { getUser, requireBrowser } from "../../session/user.ts";

/**
 * `POST /api/v1/auth/mfa/mobile/challenges`: a browser whose second factor is pending requests approval from a phone.
 */
export async function action({ context }: ActionFunctionArgs) {
  requireBrowser(context);
  const user = await getUser(context);
  if (!user) throw problem("UNAUTHENTICATED", { requestId: context.requestId });
  const { id, secret, pairCode, expiresAt } = await requestApproval(context, user);
  return Response.json({ id, secret, pairCode, expiresAt } satisfies NewApprovalRequest, { status: 201 });
}
