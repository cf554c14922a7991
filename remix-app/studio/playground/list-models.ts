import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callGatewayAsMember } from "./call-gateway-as-member.ts";

const listed = z.object({
  data: z.array(
    z
      .object({
        id: z.string(),
        platform: z.object({
          name: z.string(),
          kind: z.enum(["chat", "embedding", "speech"]),
          voices: z.array(z.string()).optional(),
          endpoints: z.array(z.string()),
        }),
      })
      .transform(({ id, platform: { name, kind, voices = [], endpoints } }) => ({
        id,
        name,
        kind,
        voices,
        isChat: endpoints.includes("/v1/chat/completions"),
      })),
  ),
});

/**
 * A model that the workspace may use now. Only speech models have voices, with the default voice first. A text model
 * that is not a chat model is served by other endpoints, such as the Messages API.
 */
export type PlaygroundModel = z.infer<typeof listed>["data"][number];

/**
 * Returns the models that a member can use in a workspace, in the gateway's order, or null if the gateway did not
 * answer.
 */
export async function listPlaygroundModels(
  context: AppLoadContext,
  call: { workspaceId: string; signal: AbortSignal },
): Promise<PlaygroundModel[] | null> {
  const text = await readModelListing(context, call);
  return text === null ? null : listed.parse(JSON.parse(text)).data;
}

/**
 * Returns the gateway's list of the models that a member can use in a workspace, as JSON text with exact prices, or null
 * if the gateway refused or did not answer.
 */
export async function readModelListing(
  context: AppLoadContext,
  { workspaceId, signal }: { workspaceId: string; signal: AbortSignal },
): Promise<string | null> {
  try {
    const answer = await callGatewayAsMember(context, { path: "/models", workspaceId, signal });
    if (answer.ok) return await answer.text();
    await answer.body?.cancel();
  } catch {
    // The page says that the list could not be loaded.
  }
  return null;
}
