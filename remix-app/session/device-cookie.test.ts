import { describe, expect, test } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import { deriveSuccessor, newDevice, readDeviceCookie, writeDeviceCookie } from "./cookies.ts";
import { openAccountKeys } from "./vault.ts";

const origin = "https://app.example.com";
const keys = await openAccountKeys({ SUPABASE_SECRET_KEY: "sb_secret_a" });
const { cookie } = keys;

function written(at = origin) {
  const jar = createCookieJar(null);
  const device = newDevice();
  writeDeviceCookie(jar, { origin: at, cookie, device });
  return { device, header: jar.setCookieHeaders()[0] ?? "", value: jar.getAll()[0]?.value ?? "" };
}

const read = (header: string, at = origin) => readDeviceCookie(createCookieJar(header), { origin: at, cookie });

describe("the device cookie", () => {
  test("the device cookie is host-only, HttpOnly and Secure on https, and is read back unchanged", () => {
    const { header, value, device } = written();
    expect(header).toMatch(/^__Host-gh_device=/);
    expect(header).toMatch(/; HttpOnly/);
    expect(header).toMatch(/; Secure/);
    expect(header).toMatch(/; SameSite=Lax/);
    expect(header).toMatch(/; Path=\//);
    expect(header).not.toMatch(/Domain/i);
    expect(read(`__Host-gh_device=${value}`)).toEqual(device);
  });

  test("the device cookie has no prefix on plain http, and requires the prefix on https", () => {
    const { header, value, device } = written("http://localhost:3000");
    expect(header).toMatch(/^gh_device=/);
    expect(header).not.toMatch(/Secure/);
    expect(read(`gh_device=${value}`, "http://localhost:3000")).toEqual(device);
    expect(read(`gh_device=${value}`)).toBeNull();
  });

  test("a device cookie without our signature is ignored", async () => {
    const { value } = written();
    const [id = "", secret = "", keyId = "", signature = ""] = value.split(".");
    const foreign = await openAccountKeys({ SUPABASE_SECRET_KEY: "sb_secret_b" });
    const planted = createCookieJar(null);
    writeDeviceCookie(planted, { origin, cookie: foreign.cookie, device: newDevice() });
    for (const text of [
      [crypto.randomUUID(), secret, keyId, signature].join("."),
      [id, "A".repeat(43), keyId, signature].join("."),
      [id, secret, "other", signature].join("."),
      [id, secret, keyId, "A".repeat(43)].join("."),
      [id, secret, keyId].join("."),
      planted.getAll()[0]?.value ?? "",
      "",
    ]) {
      expect(read(`__Host-gh_device=${text}`)).toBeNull();
    }
  });

  test("the device cookie stays valid after the server secret changes if the old secret is listed as a previous secret", async () => {
    const { value, device } = written();
    const rotated = await openAccountKeys({
      SUPABASE_SECRET_KEY: "sb_secret_b",
      WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS: ["sb_secret_a"],
    });
    const jar = createCookieJar(`__Host-gh_device=${value}`);
    expect(readDeviceCookie(jar, { origin, cookie: rotated.cookie })).toEqual(device);
  });

  test("every server derives the same next device cookie from a device cookie, and no one else can derive it", async () => {
    const { device } = written();
    const next = deriveSuccessor(device, keys);
    expect(next).toEqual(deriveSuccessor(device, await openAccountKeys({ SUPABASE_SECRET_KEY: "sb_secret_a" })));
    expect(next.id).toBe(device.id);
    expect(new Set([device, next, deriveSuccessor(next, keys)].map(({ secret }) => secret)).size).toBe(3);
    expect(deriveSuccessor({ ...newDevice(), secret: device.secret }, keys).secret).not.toBe(next.secret);
  });
});
