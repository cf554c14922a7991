import { afterEach, expect, test, vi } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import { demandSignIn, forgetSignInDemand, readSignInDemand } from "./sign-in-demand.ts";

const page = "/oauth/authorize?client_id=a&prompt=login";
const now = 1_800_000_000;
const contextOf = (cookie: string, key = "sb_secret_test") => ({
  env: { SUPABASE_SECRET_KEY: key },
  jar: createCookieJar(cookie),
  origin: "https://gatehouse.test",
});

/** Returns the Cookie header of a browser after `demandSignIn` was called for the page. */
function demand({ since = now, key = "sb_secret_test" } = {}): string {
  const context = contextOf("", key);
  demandSignIn(context, { page, since });
  return context.jar.setCookieHeaders()[0]?.split(";")[0] ?? "";
}

const sinceOf = (cookie: string, at = page) => readSignInDemand(contextOf(cookie), at);

afterEach(() => void vi.useRealTimers());

test("a demand to sign in again applies to its page however the query is encoded, and to no other page", () => {
  vi.useFakeTimers({ now: now * 1_000 });
  expect(sinceOf(demand())).toBe(now);
  expect(sinceOf(demand(), "/oauth/authorize?client_id=%61&prompt=login")).toBe(now);
  expect(sinceOf(demand(), "/oauth/authorize?client_id=a")).toBeNull();
  expect(sinceOf("")).toBeNull();
});

test("a demand to sign in again cannot be backdated, or forged without our key", () => {
  vi.useFakeTimers({ now: now * 1_000 });
  const [name = "", value = ""] = demand().split("=");
  const moved = `${name}=${value.replace(String(now), String(now - 60))}`;
  for (const cookie of [moved, `${name}=${now}.`, `${name}=NaN.x`, `${name}=`, demand({ key: "another" })])
    expect(sinceOf(cookie), cookie).toBeNull();
});

test.each([
  [599, now],
  [600, null],
])("a demand to sign in again lasts ten minutes: after %i s it is read as %j", (seconds, expected) => {
  const cookie = demand();
  vi.useFakeTimers({ now: (now + seconds) * 1_000 });
  expect(sinceOf(cookie)).toBe(expected);
});

test("a demand to sign in again is removed once it is satisfied", () => {
  vi.useFakeTimers({ now: now * 1_000 });
  const context = contextOf(demand());
  forgetSignInDemand(context);
  expect(readSignInDemand(context, page)).toBeNull();
  expect(context.jar.setCookieHeaders()).toEqual([expect.stringContaining("Max-Age=0")]);
});
