import type { ActionFunctionArgs } from "@remix-run/node";
import { beginHandoff, challengeLink } from "../../qr-login/handoff.ts";
import type { NewHandoff } from "../../session/challenge-operations.ts";
import { requireBrowser, requireUser } from "../../session/user.ts";

/**
 * `POST /api/v1/auth/qr-login/challenges`: asks the account's phones to approve a fresh session for a signed-in
 * browser.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  requireBrowser(context);
  const user = await requireUser(context, request);
  const challenge = await beginHandoff(context, user);
  const { id, secret, expiresAt } = challenge;
  const answer = { id, secret, payload: challengeLink(challenge, context), expiresAt } satisfies NewHandoff;
  return Response.json(answer, { status: 201 });
}
