import { expect, test } from "vitest";
import { readServiceAccountCommand, usage } from "./command.ts";

const now = Date.parse("2026-12-01T00:00:00Z");

test("the service account command accepts a name, scopes, a key, addresses, days and a reason", () => {
  expect(readServiceAccountCommand(["add", "CI", "--scope", "admin:books"], { now })).toEqual({
    verb: "add",
    name: "CI",
    scopes: ["admin:books"],
    allowedAddresses: [],
    expiresAt: "2027-03-01T00:00:00.000Z",
    keyFile: null,
    reason: "By the operator, on the command line",
  });
  const line = ["add", "Deploy", "--scope", "admin:apps:read", "--scope", "admin:apps:write", "--key", "ci.jwk"];
  expect(
    readServiceAccountCommand([...line, "--address", "192.0.2.0/24", "--days", "1", "--reason", " ticket 7 "], { now }),
  ).toEqual({
    verb: "add",
    name: "Deploy",
    scopes: ["admin:apps:read", "admin:apps:write"],
    allowedAddresses: ["192.0.2.0/24"],
    expiresAt: "2026-12-02T00:00:00.000Z",
    keyFile: "ci.jwk",
    reason: "ticket 7",
  });
});

test.each([
  [[], usage],
  [["remove", "CI"], usage],
  [["add"], "name the service account"],
  [["add", "CI"], "name a --scope"],
  [["add", "CI", "--scope", "use_ai_studio"], "--scope is one of the scopes below"],
  [["add", "CI", "--scope", "admin:books", "--address", "here"], "--address is an IP address"],
  [["add", "CI", "--scope", "admin:books", "--days", "366"], "--days is 1 to 365"],
  [["add", "CI", "--scope", "admin:books", "--days", "0"], "--days is 1 to 365"],
  [["add", "CI", "more", "--scope", "admin:books"], "more: one thing too many"],
  [["add", "CI", "--scope", "admin:books", "--reason", " "], "say why with --reason"],
])("the service account command refuses %j and says what to do", (argv, message) => {
  expect(() => readServiceAccountCommand(argv, { now })).toThrow(message);
});
