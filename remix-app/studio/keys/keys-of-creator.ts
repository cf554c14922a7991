import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";

const listAnswer = z.object({
  outcome: z.literal("listed"),
  /** The number of keys that work. */
  count: z.number().int(),
  /** Up to 30 keys, newest first. Empty for callers without `manage_ai_keys`. */
  keys: z.array(z.object({ id: z.uuid(), name: z.string(), lookup: z.string(), lastUsedAt: z.string().nullable() })),
});

/** The keys of a workspace that a person made and that still work. */
type KeysOfCreator = Omit<z.output<typeof listAnswer>, "outcome">;

/**
 * Lists the keys of a workspace that a person made and that still work. Keys of coding agents are left out, because
 * they end when the person leaves.
 * @throws Response 403 FORBIDDEN if the caller may manage neither keys nor members; 503 UNAVAILABLE
 */
export async function listKeysOfCreator(
  context: AppLoadContext,
  { creatorId, ...member }: StudioMember & { creatorId: string },
): Promise<KeysOfCreator> {
  const answer = await callAsMember(context, {
    member,
    name: "list_keys_of_creator",
    args: { creator_id: creatorId },
    schema: z.union([listAnswer, z.object({ outcome: z.literal("not_allowed") })]),
  });
  if (answer.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId: context.requestId });
  return { count: answer.count, keys: answer.keys };
}
