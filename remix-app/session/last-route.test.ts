import { expect, test } from "vitest";
import { parseLastRoute } from "./switch-account.ts";

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
])("%s can be saved as an account's last page", (path) => {
  expect(parseLastRoute(path, context)).toBe(path);
});

test.each([
  "/login",
  "/login/passkey",
  "/LOGIN",
  "/login?returnUrl=/",
  "/add-account",
  "/add-account#x",
  "/auth/callback?code=1",
  "/%6cogin",
  "/%6Cogin?returnUrl=/",
  "/%61dd-account",
  "/auth%2Fcallback",
  "/x/../login",
  "//evil.example",
  "https://evil.example/",
  "/\\evil.example",
  `/${"a".repeat(2_048)}`,
  "",
  null,
  7,
])("%j cannot be saved as an account's last page", (input) => {
  expect(parseLastRoute(input, context)).toBeNull();
});

test("a URL that is not a page cannot be saved as an account's last page", () => {
  expect(parseLastRoute("/logout", { ...context, isPage: (pathname) => pathname !== "/logout" })).toBeNull();
});
