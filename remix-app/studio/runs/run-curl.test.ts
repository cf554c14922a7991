import { expect, test } from "vitest";
import { draftOf, playgroundSearch, repeatAsCurl } from "./run-curl.ts";

const url = "https://gateway.example/v1";
const call = { model: "m", streamed: false, feature: "chat" };

test.each([
  ["chat", "/chat/completions", "chat"],
  ["responses", "/responses", "chat"],
  ["messages", "/messages", "chat"],
  ["embeddings", "/embeddings", "embeddings"],
  ["speech", "/audio/speech", "speech"],
  ["a-label-of-the-client", "/chat/completions", "chat"],
])("the curl command of a call with the feature %s posts to %s", (feature, path, kind) => {
  const command = repeatAsCurl({ ...call, feature }, url);
  expect(command).toContain(`${url}${path} \\`);
  expect(command).toContain('-H "Authorization: Bearer $GATEHOUSE_API_KEY"');
  expect(command).toContain('"model": "m"');
  expect(playgroundSearch({ ...call, feature })).toBe(`?kind=${kind}&model=m`);
});

test("the curl command of a refused call posts to its endpoint, and streams if the call did", () => {
  const command = repeatAsCurl({ ...call, feature: null, endpoint: "/v1/embeddings", streamed: true }, url);
  expect(command).toContain(`curl -N ${url}/embeddings`);
  expect(command).toContain('"stream": true');
});

test("the curl command has the captured body, quoted for a shell", () => {
  const body = { model: "m", input: "It's raining", extra: 1 };
  const command = repeatAsCurl({ ...call, feature: "custom", body }, url);
  expect(command).toContain(`${url}/responses`);
  expect(command).toContain(`"input": "It'\\''s raining"`);
  expect(command).toContain('"extra": 1');
});

test.each([
  ["embedding", "/embeddings"],
  ["speech", "/audio/speech"],
] as const)("the curl command of a labelled call of a model of kind %s posts to %s", (modelKind, path) => {
  const labelled = { ...call, feature: "my-label", modelKind };
  expect(repeatAsCurl(labelled, url)).toContain(`${url}${path} \\`);
});

test("a captured conversation of texts becomes a draft of the playground", () => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Hi" },
    { role: "assistant", content: "Hello." },
    { role: "user", content: "Bye" },
  ];
  const conversation = JSON.stringify(messages.slice(1, 3).map((message) => ({ message })));
  expect(draftOf({ ...call, body: { messages } })).toEqual({ system: "Be brief.", conversation, prompt: "Bye" });
  expect(draftOf({ ...call, feature: "responses", body: { input: "Hi", instructions: "Be brief." } })).toEqual({
    system: "Be brief.",
    conversation: "[]",
    prompt: "Hi",
  });
});

test.each([
  null,
  {},
  { messages: [] },
  { messages: [{ role: "assistant", content: "Hello." }] },
  { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
  { messages: [null] },
])("a captured request without a text to continue from has no draft: %j", (body) => {
  expect(draftOf({ ...call, body })).toBeNull();
});

test("a captured request for embeddings has no draft", () => {
  expect(draftOf({ ...call, feature: "embeddings", body: { input: "Hi" } })).toBeNull();
});
