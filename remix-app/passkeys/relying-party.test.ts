import { expect, test } from "vitest";
import { relyingPartyId } from "./relying-party.ts";

test.each([
  ["https://accounts.example.com", undefined, "example.com"],
  ["https://a.b.example.com", undefined, "example.com"],
  ["https://example.com", undefined, "example.com"],
  ["https://accounts.example.co.uk", undefined, "example.co.uk"],
  ["https://a.b.example.com", "b.example.com", "b.example.com"],
  ["https://b.example.com", "b.example.com", "b.example.com"],
  ["https://notb.example.com", "b.example.com", "example.com"],
  ["https://example.org", "example.com", "example.org"],
  ["http://localhost:3000", undefined, "localhost"],
  ["http://localhost:3000", "gatehouse.localhost", "localhost"],
  ["http://web.gatehouse.localhost:3000", "gatehouse.localhost", "gatehouse.localhost"],
  ["http://web.gatehouse.localhost:3000", undefined, "gatehouse.localhost"],
  ["http://127.0.0.1:3000", undefined, "127.0.0.1"],
  ["http://[::1]:3000", undefined, "[::1]"],
  // Previews must not share passkeys with other customers of the hosting provider.
  ["https://gatehouse.vercel.app", undefined, "gatehouse.vercel.app"],
  ["https://pr-7.gatehouse.vercel.app", undefined, "gatehouse.vercel.app"],
])("on %s with parent domain %s, passkeys are bound to %s", (origin, parentDomain, expected) => {
  expect(relyingPartyId({ origin, parentDomain })).toBe(expected);
});
