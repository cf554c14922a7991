import { expect, test } from "vitest";
import { documentResponse, jsonDocument } from "./json-document.ts";

const document = jsonDocument({ issuer: "https://app.example.com" });
const ask = (tag?: string) =>
  documentResponse(document, new Request("https://a.test", { headers: tag ? { "if-none-match": tag } : {} }));

test("equal documents have equal entity tags, others have others", () => {
  expect(jsonDocument({ issuer: "https://app.example.com" })).toEqual(document);
  expect(jsonDocument({ issuer: "https://b.example.com" }).etag).not.toBe(document.etag);
});

test.each([undefined, '"another"', document.etag.slice(1, -1)])(
  "a client with the entity tag %j gets the whole document",
  async (tag) => {
    const response = ask(tag);
    expect([response.status, response.headers.get("etag"), response.headers.get("content-type")]).toEqual([
      ...[200, document.etag, "application/json"],
    ]);
    expect(await response.text()).toBe(document.body);
  },
);

test.each([document.etag, `W/${document.etag}`, `"a", ${document.etag},"b"`, "*"])(
  "a client that has the document, by %j, gets 304 without a body and with its lifetime",
  async (tag) => {
    const response = ask(tag);
    expect([response.status, response.headers.get("etag"), response.headers.get("cache-control")]).toEqual([
      ...[304, document.etag, "public, max-age=300"],
    ]);
    expect(await response.text()).toBe("");
  },
);
