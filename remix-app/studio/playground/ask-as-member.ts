import type { AppLoadContext } from "@remix-run/server-runtime";
import { askGateway, headersForClient } from "../../gateway/ask-gateway.ts";
import { problem } from "../../http/problem.ts";
import { setApprovalProof } from "../../supabase/data-api.ts";

/** What the playground asks of the gateway, and where. */
export const endpoints = { chat: "/chat/completions", speech: "/audio/speech", embeddings: "/embeddings" } as const;

export type PlaygroundEndpoint = keyof typeof endpoints;

/** By what its runs are told from others in reports. */
const feature = "playground";

type Asked = { workspaceId: string; signal: AbortSignal } & (
  | { path: "/models" }
  | { path: (typeof endpoints)[PlaygroundEndpoint]; body: BodyInit; contentType: string | null }
);

/**
 * Asks the AI gateway in the name of the member whose request this is, by their own session, which never reaches the
 * browser; the gateway judges it again. What is asked is a run of the workspace as any other.
 * @returns the gateway's own word, refusals too, streams as they come
 * @throws Response 503 UNAVAILABLE where it was not reached
 */
export async function askAsMember(context: AppLoadContext, asked: Asked): Promise<Response> {
  const { requestId, session } = context;
  if (session.auth.status !== "authenticated") throw problem("UNAUTHENTICATED", { requestId });
  const headers = new Headers({
    authorization: `Bearer ${session.auth.accessToken}`,
    "x-platform-workspace-id": asked.workspaceId,
    "x-platform-operation": feature,
  });
  setApprovalProof(headers, session.approvalProof());
  if ("body" in asked && asked.contentType !== null) headers.set("content-type", asked.contentType);
  const { path, signal } = asked;
  const call = "body" in asked ? { method: "POST" as const, body: asked.body } : { method: "GET" as const };
  const answer = await askGateway(context, { ...call, path, headers, signal });
  // What does not name our request is not of the gateway itself.
  if (answer?.headers.get("x-request-id") !== requestId) {
    await answer?.body?.cancel();
    throw problem("UNAVAILABLE", { requestId, headers: { "Retry-After": "5" } });
  }
  return new Response(answer.body, { status: answer.status, headers: headersForClient(answer) });
}
