import { randomBytes } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import { saveForm, takeForm } from "./saved-form.ts";

const origin = "https://gatehouse.test";
const page = "/settings/profile/email";
const contextOf = (cookie: string) => ({
  env: { SUPABASE_SECRET_KEY: "sb_secret_test" },
  jar: createCookieJar(cookie),
  origin,
  requestId: "test",
  isPage: () => true,
  session: { auth: { status: "anonymous" as const } },
});
const formOf = (fields: Record<string, string> | string) =>
  new Request(new URL(page, origin), { method: "POST", body: new URLSearchParams(fields) });

/** Returns the Cookie header of a browser whose form was kept because it arrived after the step-up had expired. */
async function keep(fields: Record<string, string>, at = page): Promise<{ cookie: string; header: string }> {
  const context = contextOf("");
  await saveForm(context, { request: formOf(fields), userId: "ann", page: at });
  const [header = ""] = context.jar.setCookieHeaders();
  return { cookie: header.split(";")[0] ?? "", header };
}

function take(cookie: string, { userId = "ann", at = page, method = "GET" } = {}) {
  const context = contextOf(cookie);
  const typed = takeForm(context, { request: new Request(new URL(at, origin), { method }), userId });
  return { typed, set: context.jar.setCookieHeaders() };
}

describe("a stored form", () => {
  afterEach(() => void vi.useRealTimers());

  test("a stored form is in a host-only, HttpOnly cookie, for ten minutes", async () => {
    const { header } = await keep({ email: "new@gatehouse.test" });
    expect(header).toMatch(/; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
  });

  test("a stored form is restored as typed, and removed", async () => {
    const typed = { name: "Zoë’s “key” 🔑 & <b>", environment: "", lines: "a\r\nb" };
    const { cookie } = await keep(typed);
    const given = take(cookie);
    expect(given.typed).toEqual(typed);
    expect(given.set).toEqual([expect.stringMatching(/^gh_kept_form=; Max-Age=0; Path=\/; /)]);
    expect(take("").set).toEqual([]);
  });

  test("a stored form keeps ten different reasons of 300 characters", async () => {
    const providers = ["openai", "anthropic", "mistral", "aws", "gcp", "azure", "cohere", "groq", "deepseek", "xai"];
    const reasons = providers.map((provider, at) =>
      `${provider} has confirmed ${at + 3} disputed charges, and issues the corrected invoice ${at * 7_919} next month. `
        .repeat(4)
        .slice(0, 300),
    );
    const typed = Object.fromEntries(reasons.map((reason, at) => [`reason_${at}`, reason]));
    const { cookie } = await keep(typed);
    expect(take(cookie).typed).toEqual(typed);
  });

  test("a stored form remains after a HEAD request, which changes nothing", async () => {
    const typed = { email: "new@gatehouse.test" };
    const { cookie } = await keep(typed);
    expect(take(cookie, { method: "HEAD" })).toEqual({ typed, set: [] });
  });

  test("a stored form is restored if the page's query has the same parameters in any encoding, and not with another query", async () => {
    const typed = { reason: "They called" };
    const { cookie } = await keep(typed, `${page}?email=a+b@gatehouse.test`);
    expect(take(cookie, { at: `${page}?email=a%20b%40gatehouse.test` }).typed).toEqual(typed);
    for (const at of [page, `${page}?email=b@gatehouse.test`]) expect(take(cookie, { at }).typed).toEqual({});
  });

  test("a stored form is ignored for other people, on other pages, or if it was modified", async () => {
    const { cookie } = await keep({ email: "new@gatehouse.test" });
    expect(take(cookie, { userId: "bob" }).typed).toEqual({});
    for (const at of ["/settings/profile/name", `${page}?email=bob@gatehouse.test`])
      expect(take(cookie, { at })).toEqual({ typed: {}, set: [] });
    const [text = "", signature = ""] = cookie.slice("gh_kept_form=".length).split(".");
    const forged = Buffer.from('{"until":9e15,"typed":{"email":"evil@example.test"}}').toString("base64url");
    for (const value of [`${forged}.${signature}`, `${text}.`, text, "", ".", `${text}.${signature}x`])
      expect(take(`gh_kept_form=${value}`).typed, value).toEqual({});
  });

  test("a stored form expires after ten minutes, even if the browser still has it", async () => {
    vi.useFakeTimers();
    const { cookie } = await keep({ email: "new@gatehouse.test" });
    vi.advanceTimersByTime(599_999);
    expect(take(cookie).typed).toEqual({ email: "new@gatehouse.test" });
    vi.advanceTimersByTime(1);
    expect(take(cookie).typed).toEqual({});
  });

  test("a form is not stored if it is empty or too large for the browser's cookies", async () => {
    const noise = randomBytes(3_000).toString("base64url");
    const textLengths: number[] = [];
    for (let length = 1_500; length < 2_100; length++) {
      const { cookie } = await keep({ reason: noise.slice(0, length) });
      if (cookie === "") break;
      textLengths.push(cookie.slice("gh_kept_form=".length).split(".")[0]?.length ?? 0);
    }
    expect(Math.max(...textLengths)).toBeLessThanOrEqual(2_000);
    expect(Math.max(...textLengths)).toBeGreaterThan(1_990);
    const context = contextOf("");
    for (const body of ["{}", "a=1&a=2"]) {
      const type = body === "{}" ? "application/json" : "application/x-www-form-urlencoded";
      const request = new Request(new URL(page, origin), { method: "POST", headers: { "content-type": type }, body });
      await saveForm(context, { request, userId: "ann", page });
    }
    expect(context.jar.setCookieHeaders()).toEqual([]);
  });
});
