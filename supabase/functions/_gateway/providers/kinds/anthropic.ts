import type { ProviderKind } from "./kind.ts";

const keyHeader = "x-api-key";

/**
 * Anthropic's Messages API. Every request names a version (https://platform.claude.com/docs/en/api/versioning). A list
 * of models has 20 entries unless the request asks for more (https://platform.claude.com/docs/en/api/models/list). A
 * refusal before any output is free (https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback).
 */
export const anthropic: ProviderKind = {
  name: "anthropic",
  baseUrl: "https://api.anthropic.com/v1",
  keyRequired: true,
  endpoints: {
    messages: { path: "/messages", keyHeader },
    count_tokens: { path: "/messages/count_tokens", keyHeader },
  },
  headers: { "anthropic-version": "2023-06-01" },
  models: { paths: ["/models?limit=1000"] },
  basePath: "/v1",
  outputLimit: "max_tokens",
  streamOptions: [],
  leftOut: [],
  unbilled: ["refusal"],
};
