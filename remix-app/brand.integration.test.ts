import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type IdentityBackend, startIdentityBackend } from "../scripts/test/identity-backend.ts";
import type { WebProcess } from "./testing/web-process.ts";

const svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><circle cx="12" cy="12" r="9"/></svg>';
let folder: string;
let backend: IdentityBackend;
let plain: WebProcess;
let branded: WebProcess;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "gatehouse-brand-"));
  writeFileSync(path.join(folder, "mark.svg"), svg);
  backend = await startIdentityBackend();
  const env = {
    BRAND_NAME: "Acme & Co",
    BRAND_ACCENT: "#1D4ED8",
    BRAND_MARK: path.join(folder, "mark.svg"),
    SUPPORT_ADDRESS: "help@example.com",
  };
  [plain, branded] = await Promise.all([backend.startWeb(), backend.startWeb({ env })]);
});
afterAll(async () => {
  await Promise.all([plain.stop(), branded.stop()]);
  await backend.close();
  rmSync(folder, { recursive: true });
});

const html = { accept: "text/html" };
const textOf = async (web: WebProcess, page: string) => (await web.fetch(page, { headers: html })).text();
const hrefOf = (page: string, pattern: RegExp) => pattern.exec(page)?.[1] ?? "";

describe("pages with brand settings", () => {
  test.each(["/login", "/no/such/page", "/docs/api"])("%s shows the brand's name, mark and accent", async (address) => {
    const page = await textOf(branded, address);
    expect(page).toMatch(/<title>[^<]+ · Acme &amp; Co<\/title>/);
    expect(page).toContain('<img src="/brand/mark.');
    expect(page).toMatch(/<link rel="icon" href="\/brand\/mark\.[0-9a-f]{12}\.svg" type="image\/svg\+xml"/);
    expect(page).not.toContain("· Gatehouse");
  });

  test("brand files that pages link to are served as immutable", async () => {
    const page = await textOf(branded, "/login");
    const mark = await branded.fetch(hrefOf(page, /<img src="(\/brand\/mark[^"]+)"/));
    expect([mark.status, mark.headers.get("content-type"), await mark.text()]).toEqual([200, "image/svg+xml", svg]);
    expect(mark.headers.get("cache-control")).toContain("immutable");
    expect(mark.headers.get("content-security-policy")).toContain("script-src 'self' 'nonce-");
    const accent = await branded.fetch(hrefOf(page, /<link rel="stylesheet" href="(\/brand\/accent[^"]+)"/));
    expect(accent.headers.get("content-type")).toBe("text/css");
    expect(await accent.text()).toContain("--color-accent:light-dark(#1d4ed8,");
  });
});

describe("the address of support", () => {
  test("is in the footer of pages, and names the request on error pages", async () => {
    expect(await textOf(branded, "/login")).toContain('<a href="mailto:help@example.com" ');
    const refusal = await branded.fetch("/no/such/page", { headers: html });
    const subject = `mailto:help@example.com?subject=Request%20${refusal.headers.get("x-request-id")}`;
    expect(await refusal.text()).toContain(`<a href="${subject}" class="link">Contact support</a>`);
  });

  test.each(["/login", "/no/such/page"])("is not shown on %s without the setting", async (address) => {
    expect(await textOf(plain, address)).not.toMatch(/mailto:|Contact support|>Support</);
  });
});

describe("the guides", () => {
  test("are public, and each error code has an address", async () => {
    const page = await plain.fetch("/docs/errors", { headers: html });
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(await page.text()).toContain('<tr id="budget_exceeded"><td><code>budget_exceeded</code></td>');
  });

  test.each([
    ["/docs", 200],
    ["/docs/", 200],
    ["/docs/decisions/0027-pages-are-documents", 200],
    ["/docs/README", 404],
    ["/docs/no-such-guide", 404],
    ["/docs/decisions/0027", 404],
  ])("%s is answered with %i", async (address, status) => {
    expect((await plain.fetch(address, { headers: html })).status).toBe(status);
  });
});

test("/settings leads to the profile, and keeps the query", async () => {
  const { status, headers } = await plain.fetch("/settings?a=%2F%2Fb.example&c", { redirect: "manual" });
  expect([status, headers.get("location")]).toEqual([302, "/settings/profile?a=%2F%2Fb.example&c="]);
});

test("shows Gatehouse's own brand if no brand is configured, and links to no brand files", async () => {
  const page = await textOf(plain, "/login");
  expect(page).toContain("<title>Sign in · Gatehouse</title>");
  expect(page).toContain('<link rel="icon" href="/favicon.svg" type="image/svg+xml"/>');
  expect(page).not.toContain('href="/brand/');
  const icon = await plain.fetch("/favicon.svg");
  expect([icon.status, icon.headers.get("content-type")]).toEqual([200, "image/svg+xml"]);
  expect((await plain.fetch("/brand/mark.svg")).status).toBe(404);
});
