import { describe, expect, test } from "vitest";
import { configuredProviders, findProvider, providerLabel, providerOrigins } from "./oauth-providers.ts";

const settings = {
  OAUTH_PROVIDERS: ["github", "google"] as const,
  OAUTH_FORM_TARGETS: ["https://sso.example.com"],
  SUPABASE_URL: "https://ref.supabase.co",
};

describe("the list of providers", () => {
  test("lists the enabled providers in the configured order", () => {
    expect(configuredProviders(settings).map(({ name, label }) => [name, label])).toEqual([
      ["github", "GitHub"],
      ["google", "Google"],
    ]);
  });

  test.each([
    ["google", true],
    ["apple", false],
    ["Google", false],
    ["toString", false],
    ["", false],
    [undefined, false],
  ])("reports whether %s is an enabled provider: %s", (name, found) => {
    expect(findProvider(settings, name) !== null).toBe(found);
  });

  test("uses the brands' own names, and capitalizes the name of an unknown provider", () => {
    expect(["google", "github", "apple", "azure", "gitlab"].map(providerLabel)).toEqual([
      "Google",
      "GitHub",
      "Apple",
      "Microsoft",
      "Gitlab",
    ]);
  });

  test("lists the origins that forms may redirect to: the providers', the backend's, and the configured ones", () => {
    expect(providerOrigins(settings)).toEqual([
      "https://github.com",
      "https://accounts.google.com",
      "https://sso.example.com",
      "https://ref.supabase.co",
    ]);
    expect(providerOrigins({ ...settings, OAUTH_PROVIDERS: [] })).toEqual([]);
  });
});
