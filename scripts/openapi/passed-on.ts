import { z } from "zod";
import { pageAccountHeader } from "../../remix-app/http/form.ts";
import { chatAnswer, embeddingsAnswer } from "../../supabase/functions/_gateway/answer-schemas.ts";
import { chatSchema } from "../../supabase/functions/_gateway/chat/schema.ts";
import { embeddingsSchema } from "../../supabase/functions/_gateway/embeddings/surface.ts";
import { gatewayOperations } from "../../supabase/functions/_gateway/operations.ts";
import { speechSchema } from "../../supabase/functions/_gateway/speech/request.ts";
import type { Operation } from "../../supabase/functions/_shared/operation.ts";

/**
 * Returns the gateway's operation with this id. The operations below are calls that the web server forwards to the
 * gateway.
 */
function ofGateway(id: string): Operation {
  const found = gatewayOperations.find((operation) => operation.id === id);
  if (!found) throw new Error(`The gateway has no operation ${id}.`);
  return found;
}

/** The legacy adapter's operation, at its original path on the web server. */
export const legacyOperation: Operation = {
  ...ofGateway("generate"),
  path: "/api/ai/generate",
  tag: "Legacy",
  description:
    "For older clients. Forwards to the gateway and returns its responses and errors. New clients should call the gateway.",
};

const chat = ofGateway("createChatCompletion");

/** The operation of the studio's playground, called with the member's own session. */
export const playgroundOperation: Operation = {
  id: "askAsMember",
  method: "POST",
  path: "/api/v1/workspaces/{workspaceId}/ai/playground/{endpoint}",
  tag: "AI studio",
  summary: "Send a playground request",
  description:
    "Calls the gateway's chat completions, speech or embeddings (endpoint is chat, speech or embeddings) with a member's session. Requires the use_ai_studio permission. Gateway errors are returned unchanged.",
  credentials: ["session", "bearer"],
  pathExamples: { endpoint: "chat" },
  headers: z.object({ [pageAccountHeader]: z.uuid().optional() }),
  body: { schema: z.union([chatSchema, embeddingsSchema, speechSchema]), example: chat.body?.example },
  answers: [
    {
      status: 200,
      description: "The gateway's response. Streams are passed on as they arrive.",
      schema: z.union([chatAnswer, embeddingsAnswer]),
      contentTypes: ["text/event-stream", "audio/wav", "audio/pcm"],
    },
  ],
  problems: [...chat.problems, "FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND", "CONFLICT"],
};
