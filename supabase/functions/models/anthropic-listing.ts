import { z } from "zod";
import { GatewayError } from "../_gateway/http/errors.ts";

const listed = z.object({ id: z.string(), created: z.number(), platform: z.object({ name: z.string() }) });
const listing = z.union([z.object({ data: z.array(listed) }), listed]);

/** A model as Anthropic describes it (https://platform.claude.com/docs/en/api/models/list). */
type AnthropicModel = { type: "model"; id: string; display_name: string; created_at: string };
type AnthropicList = { data: AnthropicModel[]; first_id: string | null; last_id: string | null; has_more: false };

/**
 * Returns the models of the database's listing that the Messages API serves, or the one model that was asked for, in
 * Anthropic's format. The list has one page.
 * @param answer.listing JSON
 * @param answer.endpoints the paths that serve each model of the listing
 * @throws GatewayError `model_not_found` if the Messages API does not serve the one model
 */
export function anthropicListing(answer: {
  listing: string;
  endpoints: readonly (readonly string[])[];
}): AnthropicList | AnthropicModel {
  const value = listing.parse(JSON.parse(answer.listing));
  const isServed = (place: number) => answer.endpoints[place]?.includes("/v1/messages") === true;
  if (!("data" in value)) {
    if (!isServed(0)) throw new GatewayError("model_not_found");
    return convertModel(value);
  }
  const data = value.data.filter((_, place) => isServed(place)).map(convertModel);
  return { data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more: false };
}

function convertModel({ id, created, platform }: z.infer<typeof listed>): AnthropicModel {
  const created_at = new Date(created * 1_000).toISOString();
  return { type: "model", id, display_name: platform.name, created_at };
}
