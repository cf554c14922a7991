import { expect, test } from "vitest";
import { anthropicListing } from "./anthropic-listing.ts";

const model = (id: string) => ({ id, created: 0, platform: { name: `Model ${id}` } });
const chat = ["/v1/chat/completions", "/v1/responses"];
const messages = ["/v1/messages"];
const described = (id: string) => ({
  type: "model",
  id,
  display_name: `Model ${id}`,
  created_at: "1970-01-01T00:00:00.000Z",
});

test("Anthropic's list names only models that the Messages API serves", () => {
  const listing = JSON.stringify({ data: ["a", "b", "c", "d"].map(model) });
  const list = anthropicListing({ listing, endpoints: [chat, messages, ["/v1/embeddings"], [...chat, ...messages]] });
  expect(list).toEqual({ data: ["b", "d"].map(described), first_id: "b", last_id: "d", has_more: false });
  const none = anthropicListing({ listing, endpoints: [chat, chat, [], []] });
  expect(none).toEqual({ data: [], first_id: null, last_id: null, has_more: false });
});

test("a model that the Messages API does not serve is not found in Anthropic's format", () => {
  const listing = JSON.stringify(model("a"));
  expect(anthropicListing({ listing, endpoints: [messages] })).toEqual(described("a"));
  expect(() => anthropicListing({ listing, endpoints: [chat] })).toThrow(
    expect.objectContaining({ code: "model_not_found" }),
  );
});
