import type { LoaderFunctionArgs } from "@remix-run/node";
import { pendingApprovals } from "../../mfa/mobile-approval/answer-approval.ts";
import type { ApprovalList } from "../../session/challenge-operations.ts";
import { requirePhone } from "../../session/user.ts";

/**
 * `GET /api/v1/auth/mfa/mobile/approvals`: lists the requests that wait for a phone at AAL2. There are at most 20, so
 * there is never a next page.
 */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { claims } = await requirePhone(context, request);
  return Response.json({ approvals: await pendingApprovals(context, claims), nextCursor: null } satisfies ApprovalList);
}
