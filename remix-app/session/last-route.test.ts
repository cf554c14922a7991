import { expect, test } from "vitest";
import { lastRoute } from "./switch-account.ts";

const context = { origin: "https://app.example.com", isPage: () => true };

test.each([
  "/",
  "/workspaces?tab=1#members",
  "/loginx",
  "/accounts",
  "/apis",
  "/settings/security",
  "/settings/100%",
  "/x?next=/login.data",
])("%s is a place to come back to", (path) => {
  expect(lastRoute(path, context)).toBe(path);
});

test.each([
  "/login",
  "/login/passkey",
  "/LOGIN",
  "/login?returnUrl=/",
  "/add-account",
  "/add-account#x",
  "/logout",
  "/auth/callback?code=1",
  "/api/v1/auth/session",
  "/%6cogin",
  "/%6Cogin?returnUrl=/",
  "/%61dd-account",
  "/login.data",
  "/logout.data?x#y",
  "/%6cogin%2Edata",
  "/auth%2Fcallback",
  "/x/../login",
  "//evil.example",
  "https://evil.example/",
  "/\\evil.example",
  `/${"a".repeat(2_048)}`,
  "",
  null,
  7,
])("%j is none", (input) => {
  expect(lastRoute(input, context)).toBeNull();
});
