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
  const env = { BRAND_NAME: "Acme & Co", BRAND_ACCENT: "#1D4ED8", BRAND_MARK: path.join(folder, "mark.svg") };
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

test("shows Gatehouse's own brand if no brand is configured, and links to no brand files", async () => {
  const page = await textOf(plain, "/login");
  expect(page).toContain("<title>Sign in · Gatehouse</title>");
  expect(page).toContain('<link rel="icon" href="/favicon.svg" type="image/svg+xml"/>');
  expect(page).not.toContain('href="/brand/');
  const icon = await plain.fetch("/favicon.svg");
  expect([icon.status, icon.headers.get("content-type")]).toEqual([200, "image/svg+xml"]);
  expect((await plain.fetch("/brand/mark.svg")).status).toBe(404);
});
