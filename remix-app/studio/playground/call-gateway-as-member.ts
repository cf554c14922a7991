import type { AppLoadContext } from "@remix-run/node";
import { callGateway, headersForClient } from "../../gateway/call-gateway.ts";
import { problem } from "../../http/problem.ts";
import { setApprovalProof } from "../../supabase/data-api.ts";

/** The playground's calls and their gateway paths. */
export const endpoints = { chat: "/chat/completions", speech: "/audio/speech", embeddings: "/embeddings" } as const;

export type PlaygroundEndpoint = keyof typeof endpoints;

/** Identifies the playground's runs in reports. */
const feature = "playground";

type MemberCall = { workspaceId: string; signal: AbortSignal } & (
  | { path: "/models" }
  | { path: (typeof endpoints)[PlaygroundEndpoint]; body: BodyInit; contentType: string | null }
);

/**
 * Calls the AI gateway as the member who sent this request. Uses the token of their session, which never reaches the
 * browser. The gateway authorizes the call itself. The call is a normal run of the workspace.
 * @returns the gateway's response, even if it is a refusal; streams are passed on
 * @throws Response 503 UNAVAILABLE if the gateway was not reached
 */
export async function callGatewayAsMember(context: AppLoadContext, memberCall: MemberCall): Promise<Response> {
  const { requestId, session } = context;
  if (session.auth.status !== "authenticated") throw problem("UNAUTHENTICATED", { requestId });
  const headers = new Headers({
    authorization: `Bearer ${session.auth.accessToken}`,
    "x-platform-workspace-id": memberCall.workspaceId,
    "x-platform-operation": feature,
  });
  setApprovalProof(headers, session.approvalProof());
  if ("body" in memberCall && memberCall.contentType !== null) headers.set("content-type", memberCall.contentType);
  const { path, signal } = memberCall;
  const call = "body" in memberCall ? { method: "POST" as const, body: memberCall.body } : { method: "GET" as const };
  const answer = await callGateway(context, { ...call, path, headers, signal });
  // A response without our request id did not come from the gateway itself.
  if (answer?.headers.get("x-request-id") !== requestId) {
    await answer?.body?.cancel();
    throw problem("UNAVAILABLE", { requestId, headers: { "Retry-After": "5" } });
  }
  return new Response(answer.body, { status: answer.status, headers: headersForClient(answer) });
}
