import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import { clearApprovalCookie, readApprovalValidity, writeApprovalCookie } from "./cookies.ts";

const now = Date.parse("2026-11-21T12:00:00Z");
const validUntil = new Date(now + 12 * 3_600_000).toISOString();
const sessionId = "0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b";
const env = { SUPABASE_SECRET_KEY: "a secret of the server's own", PARENT_DOMAIN: "example.com" };
const origin = "https://web.example.com";

beforeEach(() => {
  vi.useFakeTimers({ now });
});
afterEach(() => {
  vi.useRealTimers();
});

const contextOf = (cookie: string | null) => ({ env, origin, jar: createCookieJar(cookie) });

function written(): { value: string; header: string } {
  const context = contextOf(null);
  writeApprovalCookie(context, { sessionId, validUntil });
  const [header = ""] = context.jar.setCookieHeaders();
  return { header, value: /^ttr_mfa_mobile_approval=([^;]*)/.exec(header)?.[1] ?? "" };
}

const validityOf = (value: string, session = sessionId) =>
  readApprovalValidity(contextOf(`ttr_mfa_mobile_approval=${value}`), session);

test("the approval cookie is host-only, HttpOnly, and lasts as long as the approval", () => {
  expect(written().header).toMatch(/; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
});

test("a stored approval is valid in its own session until the moment it expires", () => {
  const { value } = written();
  expect(validityOf(value)).toBe("valid");
  vi.setSystemTime(now + 12 * 3_600_000 - 1);
  expect(validityOf(value)).toBe("valid");
  vi.setSystemTime(now + 12 * 3_600_000);
  expect(validityOf(value)).toBe("stale");
});

test.each([
  ["from another session", (value: string) => validityOf(value, "0c0c0c0c-0c0c-4c0c-8c0c-0c0c0c0c0c0c")],
  ["altered to expire later", (value: string) => validityOf(value.replace(/^\d+/, String(now + 99 * 3_600_000)))],
  ["one character short", (value: string) => validityOf(value.slice(0, -1))],
  ["signed incorrectly", (value: string) => validityOf(value.replace(/\..*/, `.${"A".repeat(43)}`))],
  ["empty", () => validityOf("")],
  [
    "signed by another server",
    (value: string) =>
      readApprovalValidity(
        { ...contextOf(`ttr_mfa_mobile_approval=${value}`), env: { ...env, SUPABASE_SECRET_KEY: "another" } },
        sessionId,
      ),
  ],
])("a stored approval that is %s is stale", (_, look) => {
  expect(look(written().value)).toBe("stale");
});

test("a request without an approval cookie has no stored approval", () => {
  expect(readApprovalValidity(contextOf(null), sessionId)).toBe("none");
});

test("clearing an approval expires this host's cookie and the cookie that a sibling host set for the domain", () => {
  const context = contextOf(`ttr_mfa_mobile_approval=${written().value}`);
  clearApprovalCookie(context);
  const headers = context.jar.setCookieHeaders();
  expect(headers).toHaveLength(2);
  for (const header of headers) expect(header).toMatch(/^ttr_mfa_mobile_approval=; Max-Age=0;/);
  expect(headers.filter((header) => header.includes("Domain=example.com"))).toHaveLength(1);
  expect(readApprovalValidity(context, sessionId)).toBe("none");
});
