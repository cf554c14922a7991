import { describe, expect, test } from "vitest";
import { computeSessionTag, openAccountKeys, openSession, sealSession } from "./vault.ts";

const secret = "a secret of at least thirty-two characters";
const deviceId = "6b1c7c5e-0f9d-4a53-9a35-3c4f5d0b7a11";
const userId = "6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11";
const session = {
  access_token: "header.payload.signature",
  refresh_token: "refresh-token",
  expires_at: 1_800_000_000,
  expires_in: 3_600,
  token_type: "bearer",
} as const;

/** Each call derives its own keys, as separate processes do. */
const keysOf = (current: string, ...earlier: string[]) =>
  openAccountKeys({
    SUPABASE_SECRET_KEY: "sb_secret_x",
    WEB_MULTI_ACCOUNT_SESSION_SECRET: current,
    WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS: earlier,
  });

async function seal() {
  const keys = await keysOf(secret);
  return { keys, sealed: await sealSession(session, { keys, deviceId, userId }) };
}

function flip(text: string, at: number): string {
  const bytes = Buffer.from(text, "base64url");
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return bytes.toString("base64url");
}

describe("a sealed session", () => {
  test("a sealed session reveals no content, and every server can open it for the same browser and account", async () => {
    const { sealed } = await seal();
    expect(await openSession(sealed, { keys: await keysOf(secret), deviceId, userId })).toEqual(session);
    expect(Buffer.from(sealed.sealed, "base64url").toString("latin1")).not.toContain("refresh-token");
    expect(sealed.tag).not.toContain("refresh-token");
  });

  test("sealing a session twice gives different ciphertexts but the same session tag", async () => {
    const [one, other] = [await seal(), await seal()];
    expect(one.sealed.sealed).not.toBe(other.sealed.sealed);
    expect(one.sealed.tag).toBe(other.sealed.tag);
    expect(computeSessionTag({ refresh_token: "another" }, one.keys)).not.toBe(one.sealed.tag);
  });

  test("a sealed session cannot be opened if any of its bits was flipped", async () => {
    const { keys, sealed } = await seal();
    const { length } = Buffer.from(sealed.sealed, "base64url");
    for (const at of [0, 11, 12, 40, length - 16, length - 1]) {
      const flipped = { ...sealed, sealed: flip(sealed.sealed, at) };
      expect(await openSession(flipped, { keys, deviceId, userId })).toBeNull();
    }
  });

  test("a sealed session does not open if truncated, empty or malformed", async () => {
    const { keys, sealed } = await seal();
    for (const cut of [sealed.sealed.slice(0, -4), sealed.sealed.slice(0, 16), sealed.sealed.slice(0, 8), "", "§"]) {
      expect(await openSession({ ...sealed, sealed: cut }, { keys, deviceId, userId })).toBeNull();
    }
  });

  test("a sealed session does not open for another device, for another user, or under another key id", async () => {
    const { keys, sealed } = await seal();
    const stranger = crypto.randomUUID();
    expect(await openSession(sealed, { keys, deviceId: stranger, userId })).toBeNull();
    expect(await openSession(sealed, { keys, deviceId, userId: stranger })).toBeNull();
    expect(await openSession({ ...sealed, keyId: "other" }, { keys, deviceId, userId })).toBeNull();
  });

  test("a sealed session opens under a new secret while the old one is listed, and is sealed again with the new one", async () => {
    const { sealed } = await seal();
    const rotated = await keysOf(`another ${secret}`, secret);
    expect(await openSession(sealed, { keys: rotated, deviceId, userId })).toEqual(session);
    const renewed = await sealSession(session, { keys: rotated, deviceId, userId });
    expect(renewed.keyId).not.toBe(sealed.keyId);
    expect(await openSession(sealed, { keys: await keysOf(`another ${secret}`), deviceId, userId })).toBeNull();
  });

  test("session sealing falls back to the project's own secret, and never to a key for another purpose", async () => {
    const fallback = await openAccountKeys({ SUPABASE_SECRET_KEY: secret });
    const { sealed } = await seal();
    expect(await openSession(sealed, { keys: fallback, deviceId, userId })).toEqual(session);
    const keys = Object.values(fallback).map(({ current }) => Buffer.from(current.key).toString("hex"));
    expect(new Set(keys).size).toBe(keys.length);
  });
});
