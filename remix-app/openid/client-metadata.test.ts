import { describe, expect, test } from "vitest";
import { canonicalResource } from "./authorization-request.ts";
import { isDocumentUrl, parseFreshnessSeconds, readDocument } from "./client-document.ts";
import { readClientMetadata } from "./client-metadata.ts";
import { providerMetadata } from "./discovery.ts";
import { registerClient } from "./register-client.ts";

const platform = "Gatehouse";
const redirect_uris = ["https://editor.example/callback"];
const url = "https://editor.example/client.json";
const read = (metadata: unknown) => readClientMetadata(metadata, { platform });
const document = (value: unknown) =>
  readDocument(new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value)), { url, platform });

describe("a client's metadata", () => {
  test.each([
    [undefined, "An unnamed app"],
    ["  ", "An unnamed app"],
    [" Claude\n Code ", "Claude Code"],
    ["x".repeat(81), "x".repeat(80)],
    ["😀".repeat(81), "😀".repeat(80)],
  ])("the name %j is shown as %j", (client_name, displayName) => {
    expect(read({ client_name, redirect_uris }).displayName).toBe(displayName);
  });

  test.each(["Gatehouse", "Gatehouse Support", "G\u202eatehouse", "Gаtehouse", "Ed\u200bitor"])(
    "the name %j is refused",
    (client_name) => expect(() => read({ client_name, redirect_uris })).toThrow("client_name"),
  );

  test.each([
    ["http://localhost:33418/", true],
    ["http://127.0.0.1/callback", true],
    ["com.example.app:/callback", true],
    ["cursor://anysphere.cursor-mcp/oauth/user-tools/callback", true],
    ["vscode://vscode.github-authentication/did-authenticate", true],
    ["cursor:alert(1)", false],
    ["cursor2://host/path", false],
    ["javascript:alert(1)", false],
    ["data:text/html,x", false],
    ["http://editor.example/callback", false],
    ["https://editor.example/#fragment", false],
    ["https://*.example/callback", false],
    ["/callback", false],
    ["", false],
  ])("the redirect URI %s is accepted: %s", (uri, isAccepted) => {
    const attempt = () => read({ redirect_uris: [uri] });
    if (isAccepted) expect(attempt().redirectUris).toEqual([uri]);
    else expect(attempt).toThrow();
  });

  test.each(["https://editor.example/", "cursor://anysphere.cursor-mcp/"])(
    "a redirect URI that begins with %s has at most 2,000 characters",
    (start) => {
      const uri = start.padEnd(2_000, "a");
      expect(read({ redirect_uris: [uri] }).redirectUris).toEqual([uri]);
      expect(() => read({ redirect_uris: [`${uri}a`] })).toThrow();
    },
  );

  test.each([20, 21])("at most 20 redirect URIs are accepted (%i)", (count) => {
    const uris = Array.from({ length: count }, (_, index) => `https://editor.example/${index}`);
    if (count > 20) expect(() => read({ redirect_uris: uris })).toThrow();
    else expect(read({ redirect_uris: uris }).redirectUris).toHaveLength(count);
  });
});

describe("a client's metadata document", () => {
  test.each([
    ["with unknown fields", { client_id: url, redirect_uris, jwks_uri: "https://a.example" }, true],
    ["of another URL", { client_id: `${url}?a`, redirect_uris }, false],
    ["without a client_id", { redirect_uris }, false],
    ["with a secret", { client_id: url, redirect_uris, client_secret: "s" }, false],
    [
      "with a client secret method",
      { client_id: url, redirect_uris, token_endpoint_auth_method: "client_secret_basic" },
      false,
    ],
    [
      "that is deeply nested",
      `{"client_id":"${url}","redirect_uris":["${redirect_uris[0]}"],"a":${"[".repeat(9)}${"]".repeat(9)}}`,
      false,
    ],
    ["with text that can't be stored", { client_id: url, redirect_uris, client_name: "a\0" }, false],
    ["that is not JSON", "<html>", false],
    ["that is null", "null", false],
  ])("a document %s is accepted: %#", (_, value, isAccepted) => {
    if (isAccepted) expect(document(value)).toEqual({ displayName: "An unnamed app", redirectUris: redirect_uris });
    else expect(() => document(value)).toThrow();
  });

  test.each([
    [undefined, 3_600],
    ["max-age=299", 300],
    ["public, max-age=301", 301],
    ["max-age=86401", 86_400],
    ["no-store", 300],
    ["no-cache, max-age=9999", 300],
    ["s-maxage=7200", 3_600],
    ["max-age=-5", 3_600],
  ])("with Cache-Control %j, a document is used for %i seconds", (header, seconds) => {
    expect(parseFreshnessSeconds(header)).toBe(seconds);
  });

  test.each([
    ["https://editor.example/client.json", true, true],
    ["https://editor.example/client.json?a=b", true, true],
    ["http://127.0.0.1:4000/client.json", true, false],
    ["http://editor.example/client.json", false, false],
    ["https://editor.example", false, false],
    ["https://editor.example/", false, false],
    ["https://editor.example/a#b", false, false],
    ["https://a:b@editor.example/c", false, false],
    ["https://editor.example/a/../b", false, false],
    ["HTTPS://editor.example/a", false, false],
    ["charts", false, false],
    ["urn:a:b", false, false],
  ])("the client id %s leads to a document on a platform on this machine: %s, elsewhere: %s", (id, here, elsewhere) => {
    const on = (BASE_URL: string) => isDocumentUrl(id, { env: { BASE_URL } } as Parameters<typeof isDocumentUrl>[1]);
    expect([on("http://localhost:3000"), on("https://app.example.com")]).toEqual([here, elsewhere]);
  });
});

test.each([
  ["https://Tools.Example/", "https://tools.example"],
  ["https://tools.example:443/mcp", "https://tools.example/mcp"],
  ["https://tools.example/mcp/", "https://tools.example/mcp/"],
  ["https://tools.example/mcp#a", null],
  ["https://tools.example/mcp#", null],
  ["https://a@tools.example/mcp", null],
  ["urn:tools", null],
  ["tools.example", null],
])("the resource %s is compared as %s", (text, expected) => {
  expect(canonicalResource(text)).toBe(expected);
});

test.each([
  [true, "https://app.example.com/oauth/register"],
  [false, undefined],
])("with registration allowed: %s, the metadata names the endpoint %s", (allowsRegistration, endpoint) => {
  const metadata = providerMetadata("https://app.example.com", { allowsRegistration });
  expect(metadata).toMatchObject({ client_id_metadata_document_supported: true });
  expect(metadata.registration_endpoint).toBe(endpoint);
});

test("clients can't register themselves unless the operator allows it", async () => {
  const context = { env: { OAUTH_CLIENT_REGISTRATION: false } } as Parameters<typeof registerClient>[0];
  const refused = registerClient(context, new Request("https://app.example.com/oauth/register", { method: "POST" }));
  await expect(refused).rejects.toMatchObject({ status: 404 });
});
