import { z } from "zod";

const listed = z.object({ id: z.string(), created: z.number(), platform: z.object({ name: z.string() }) });
const listing = z.union([z.object({ data: z.array(listed) }), listed]);

/** A model as Anthropic describes it (https://platform.claude.com/docs/en/api/models/list). */
type AnthropicModel = { type: "model"; id: string; display_name: string; created_at: string };
type AnthropicList = { data: AnthropicModel[]; first_id: string | null; last_id: string | null; has_more: false };

/**
 * Returns the database's listing, of all models or of one, in Anthropic's format. The list has one page.
 * @param text JSON
 */
export function anthropicListing(text: string): AnthropicList | AnthropicModel {
  const value = listing.parse(JSON.parse(text));
  if (!("data" in value)) return modelOf(value);
  const data = value.data.map(modelOf);
  return { data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more: false };
}

function modelOf({ id, created, platform }: z.infer<typeof listed>): AnthropicModel {
  const created_at = new Date(created * 1_000).toISOString();
  return { type: "model", id, display_name: platform.name, created_at };
}
