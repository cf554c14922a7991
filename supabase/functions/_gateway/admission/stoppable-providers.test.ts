import { expect, test } from "vitest";
import type { Provider } from "../providers/provider-settings.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { listStoppableProviders } from "./stoppable-providers.ts";

const providers = new Map([
  ["stops", { drains: false }],
  ["drains", { drains: true }],
]) as unknown as ReadonlyMap<string, Provider>;

test.for<[string, object, string[] | undefined]>([
  ["a stream", {}, ["stops"]],
  ["a whole answer", { stream: false }, undefined],
  ["a stream with web search", { feeRequests: 3 }, undefined],
  ["a stream with tools at the provider", { inputReads: 4 }, undefined],
  ["a stream with server tools", { serverTools: { maxSteps: 2, tools: [] } }, undefined],
  ["a stream with reasoning_effort", { body: { reasoning_effort: "low" } }, undefined],
  ["a stream with thinking", { body: { thinking: {} } }, undefined],
  ["a stream with OpenRouter's reasoning", { others: { reasoning: {} } }, undefined],
  ["a stream with audio", { body: { modalities: ["audio"], audio: {} } }, undefined],
])("%s can be stopped at the providers %j", ([, changes, expected]) => {
  const request = { stream: true, body: { messages: [] }, ...changes } as ParsedRequest;
  expect(listStoppableProviders(providers, request)).toEqual(expected);
});
