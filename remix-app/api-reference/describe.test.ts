import { describe, expect, test } from "vitest";
import { operationsOf, parseErrorDescriptions, tagsOf } from "./describe.ts";
import { areas, documentOf } from "./documents.ts";

const operations = areas.flatMap((area) =>
  tagsOf(documentOf(area)).flatMap(({ slug }) => operationsOf(documentOf(area), { slug, origin: "https://a.test" })),
);
const tried = operations.filter(({ tryIt }) => tryIt !== null);

describe("the errors in the API reference", () => {
  test("parses the documented errors of a response with their codes", () => {
    expect(
      parseErrorDescriptions("FORBIDDEN: You don’t have access to this. rate_limit: Slow down. Retry: later."),
    ).toEqual([
      { code: "FORBIDDEN", meaning: "You don’t have access to this." },
      { code: "rate_limit", meaning: "Slow down." },
      { code: "Retry", meaning: "later." },
    ]);
    expect(parseErrorDescriptions("No code here.")).toEqual([{ code: "", meaning: "No code here." }]);
  });

  test("every documented error has a code and a meaning", () => {
    const bare = operations.flatMap(({ id, errors }) =>
      errors.filter(({ code, meaning }) => !code || !meaning).map(() => id),
    );
    expect(bare).toEqual([]);
  });
});

describe("requests from the API reference", () => {
  test("the API reference sends only GET requests, except for the playground's two model calls", () => {
    expect(tried.filter(({ tryIt }) => tryIt?.method !== "GET").map(({ id, tryIt }) => [id, tryIt?.path])).toEqual([
      ["createChatCompletion", "/api/v1/workspaces/{workspaceId}/ai/playground/chat"],
      ["createEmbeddings", "/api/v1/workspaces/{workspaceId}/ai/playground/embeddings"],
    ]);
    expect(tried.every(({ tryIt, method }) => tryIt?.method === method)).toBe(true);
  });

  test("requests sent from the API reference neither contain nor return a secret", () => {
    const secret = /secret|token$|password/i;
    // When secrets were created, and whether an account has a password.
    const harmless = ["claimsInIdToken", "hasPassword", "password", "secrets"];
    const named = tried.flatMap(({ id, tryIt, answers }) => {
      const fields = tryIt?.fields.map(({ name }) => name) ?? [];
      const members = answers.flatMap(({ sample }) =>
        [...(sample ?? "").matchAll(/"(\w+)":/g)].map(([, name]) => name),
      );
      return [...fields, ...members]
        .filter((name = "") => secret.test(name) && !harmless.includes(name))
        .map((name) => `${id}: ${name}`);
    });
    expect(named).toEqual([]);
    expect(tried.length).toBeGreaterThan(15);
  });
});
