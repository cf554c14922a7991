import { describe, expect, test } from "vitest";
import { newAccount } from "./support/accounts.ts";
import { admin, call, expectOk } from "./support/http.ts";

const site = "http://localhost:3000";

/** Returns where a flow with this redirect_to redirects to. */
async function targetOf(redirect_to: string): Promise<string> {
  const { email } = await newAccount();
  const link = expectOk(await admin("POST /admin/generate_link", { body: { type: "recovery", email, redirect_to } }));
  return link.redirect_to;
}

describe("allowed values of redirect_to", () => {
  test.each([
    `${site}/anything?a=b#c`,
    "http://localhost:4000/another-port",
    "http://127.0.0.1:9999/loopback",
    "http://127.8.9.10/loopback",
    "http://[::1]:3000/loopback",
    "http://[0:0:0:0:0:0:0:1]/loopback-spelt-out",
    "http://[::ffff:127.0.0.1]/loopback-mapped",
    "https://app.example.test/a/b/c.html?d=e",
    "https://app.example.test/a#fragment",
    "myapp://callback",
  ])("uses the allowed redirect_to %s", async (url) => {
    expect(await targetOf(url)).toBe(url);
  });
});

describe("disallowed values of redirect_to", () => {
  test.each([
    "",
    "https://evil.test/",
    "//evil.test/",
    "/relative",
    "https://localhost:3000/another-scheme",
    "https://app.example.test.evil.test/",
    "https://app.example.test@evil.test/",
    "https://evil.test/https://app.example.test/",
    "https://evil.test/#https://app.example.test/",
    "http://2130706433/",
    "http://10.0.0.1/",
    "http://192.168.1.1:3000/",
    "http://[fe80::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::127.0.0.1]/",
    "http://localhost:3000\\@evil.test/",
    "javascript:alert(1)",
    "data:text/html,x",
    "https://app.example.test",
    "otherapp://callback",
    "myapp://a.b/c",
  ])("uses the site URL instead of a disallowed redirect_to: %s", async (url) => {
    expect(await targetOf(url)).toBe(site);
  });
});

describe("the source of the redirect target", () => {
  const landing = async (path: string, headers: Record<string, string> = {}) =>
    (await call(`GET /verify?token=x&type=signup${path}`, { headers })).location.split("#")[0];
  const app = "https://app.example.test/x";

  test("takes the redirect target from the query", async () => {
    expect(await landing(`&redirect_to=${encodeURIComponent(app)}`)).toBe(app);
  });

  test("takes the redirect target from the redirect_to header before the query", async () => {
    const query = `&redirect_to=${encodeURIComponent("https://app.example.test/y")}`;
    expect(await landing(query, { redirect_to: app })).toBe(app);
  });

  test("the Referer sets the redirect target if neither the query nor the redirect_to header names an allowed target", async () => {
    expect(await landing("", { Referer: app })).toBe(app);
    expect(await landing("&redirect_to=https://evil.test", { Referer: app })).toBe(app);
  });

  test("redirects to the site URL if the request names no allowed redirect target", async () => {
    expect(await landing("", { Referer: "https://evil.test/" })).toBe(site);
    expect(await landing("")).toBe(site);
  });
});
