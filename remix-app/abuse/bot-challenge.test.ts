import { describe, expect, test } from "vitest";
import { parseEnv } from "../config/env.server.ts";
import { hasBotChallenge } from "./bot-challenge.ts";

const env = (changes: Record<string, string>) =>
  parseEnv({
    NODE_ENV: "test",
    BASE_URL: "https://app.example.com",
    SUPABASE_URL: "https://ref.supabase.co",
    SUPABASE_PUBLISHABLE_KEY: "sb_publishable_x",
    SUPABASE_SECRET_KEY: "sb_secret_x",
    ...changes,
  });
const configured = { TURNSTILE_SITE_KEY: "1x00000000000000000000AA" };

describe("a bot challenge", () => {
  test("requires a bot challenge if and only if a site key is set", () => {
    expect(hasBotChallenge(env(configured))).toBe(true);
    expect(hasBotChallenge(env({}))).toBe(false);
    expect(hasBotChallenge(env({ TURNSTILE_SITE_KEY: "" }))).toBe(false);
  });

  test.each(["http://127.0.0.1:54321", "http://localhost:54321", "http://[::1]:54321"])(
    "with the backend at %s, omits the bot challenge only if the bypass is set",
    (SUPABASE_URL) => {
      expect(hasBotChallenge(env({ ...configured, SUPABASE_URL, E2E_BOT_CHALLENGE_BYPASS: "on" }))).toBe(false);
      expect(hasBotChallenge(env({ ...configured, SUPABASE_URL, E2E_BOT_CHALLENGE_BYPASS: "off" }))).toBe(true);
      expect(hasBotChallenge(env({ ...configured, SUPABASE_URL }))).toBe(true);
    },
  );

  test.each([
    "https://ref.supabase.co",
    "https://localhost.evil.example",
    "https://127.0.0.1.evil.example",
    "https://localhost@ref.supabase.co",
    "http://10.0.0.1:54321",
  ])("with the backend at %s, requires the bot challenge even if the bypass is set", (SUPABASE_URL) => {
    expect(hasBotChallenge(env({ ...configured, SUPABASE_URL, E2E_BOT_CHALLENGE_BYPASS: "on" }))).toBe(true);
  });
});
