import { describe, expect, test } from "vitest";
import { call } from "./support/http.ts";
import { oauthFlow } from "./support/oauth-flow.ts";

const site = "http://localhost:3000";
const app = "https://app.example.test";
const { begin } = oauthFlow();

/** Returns the URL to which the identity backend redirects after the provider refused the sign-in. */
async function refusedTarget(redirect_to: string, description = "No"): Promise<string> {
  const { state } = await begin({ redirect_to });
  const query = new URLSearchParams({ state, error: "denied", error_description: description });
  return (await call(`GET /callback?${query}`)).location;
}

const query = "error=denied&error_description=No";

describe("redirect_to", () => {
  test.each([
    ["a space in the path", `${app}/a b`, `${app}/a%20b?${query}`],
    ["a space in the query", `${site}/?a b`, `${site}/?a+b=&${query}`],
    ["a space in the fragment", `${site}/#a b`, `${site}/?${query}`],
    ["an escape in the path", `${app}/%7e%2f`, `${app}/%7e%2f?${query}`],
    ["characters that a path must not contain", `${site}/a|b"`, `${site}/a%7Cb%22?${query}`],
    ["characters that a path may contain", `${site}/a/../b//[c]`, `${site}/a/../b//[c]?${query}`],
    ["non-ASCII characters", `${site}/é?ä=ö`, `${site}/%C3%A9?${query}&%C3%A4=%C3%B6`],
    ["parameters, which are sorted", `${site}?x=+y&a=%41`, `${site}?a=A&${query}&x=+y`],
    ["a parameter with an incomplete escape, which is left out", `${site}/?q=%zz&r=1`, `${site}/?${query}&r=1`],
    ["a parameter with a semicolon, which is left out", `${site}/?a=b&c=d;e`, `${site}/?a=b&${query}`],
    ["a parameter that the result also sets, which is replaced", `${site}/?error=none`, `${site}/?${query}`],
  ])("redirect_to is escaped where necessary: %s", async (_, asked, expected) => {
    const [target, fragment] = (await refusedTarget(asked)).split("#");
    expect(target).toBe(expected);
    expect(fragment).toBe(`${query}&sb=`);
  });

  test.each([
    `${app}/a%zz`,
    `${site}/%`,
    `${site}/#%zz`,
    "myapp://a%zz",
    "myapp://x y",
    "http://localhost:3000 /",
    "http://local host:3000/",
    `${site}:80/`,
    `${site}\\@evil.test/`,
    `${app}\\.evil.test/`,
    "http://localhost:3000@evil.test/",
    "http://[localhost]:3000/",
    `${app}/\u0001`,
    "http:/localhost:3000/",
    "HTTP://LOCALHOST:3000/",
  ])("redirect_to %j is replaced by the site URL", async (asked) => {
    expect((await refusedTarget(asked)).split("?")[0]).toBe(site);
  });
});

describe("escaping an error in a redirect", () => {
  test("an error in a redirect is escaped twice in the fragment and once in the query", async () => {
    const [target = "", fragment] = (await refusedTarget(site, "ä: b/c?d=e&f*~")).split("#");
    const encoded = "%C3%A4%3A+b%2Fc%3Fd%3De%26f%2A~";
    expect(target).toBe(`${site}?error=denied&error_description=${encoded}`);
    expect(fragment).toBe(`error=denied&error_description=${encoded.replaceAll("%", "%25")}&sb=`);
  });

  test("a redirect with an error omits an empty error_description from the fragment", async () => {
    expect(await refusedTarget(site, "")).toBe(`${site}?error=denied&error_description=#error=denied&sb=`);
  });
});
