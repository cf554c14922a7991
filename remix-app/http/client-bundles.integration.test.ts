import { readFile } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { recoveryHashSecret } from "../../scripts/start/secrets.ts";
import { readStack } from "../../scripts/test/stack.ts";

const { base, supabase } = readStack();
const client = path.resolve("build/client");
const script = /["'(]\.{0,2}\/?(assets\/[\w.$-]+\.js)/g;
const secretNames = [
  "SUPABASE_SECRET_KEY",
  "WEB_MULTI_ACCOUNT_SESSION_SECRET",
  "APP_SESSION_SECRET",
  "APP_SESSION_PREVIOUS_SECRETS",
  "AUTH_RECOVERY_HASH_SECRET",
];
/** The stack's keys. The publishable key is not a secret, but nothing in a browser needs it. */
const secretValues = [supabase.secretKey, supabase.publishableKey, recoveryHashSecret(supabase.secretKey)];
const maxSignInBytes = 15 * 1024;

/**
 * Returns every script of the build that the running server may send. Finds the scripts by the names in the server's
 * code and in the scripts themselves.
 */
async function scriptsOfBuild(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const queue = namesIn(await readFile("build/server/index.js", "utf8"));
  for (let name = queue.pop(); name; name = queue.pop()) {
    if (found.has(name)) continue;
    const text = await readFile(path.join(client, name), "utf8");
    found.set(name, text);
    queue.push(...namesIn(text));
    for (const [, sibling] of text.matchAll(/["']\.\/([\w.$-]+\.js)["']/g)) queue.push(`assets/${sibling}`);
  }
  return found;
}

const namesIn = (text: string) => [...text.matchAll(script)].map(([, name = ""]) => name);

test("keeps the identity backend's client and the server's secrets out of browser scripts", async () => {
  const scripts = await scriptsOfBuild();
  expect(scripts.size).toBeGreaterThan(20);
  for (const [name, text] of scripts) {
    expect(text, name).not.toMatch(/GoTrueClient|PostgrestClient|@supabase|service_role|sb_secret_|node:crypto/);
    expect(text, name).not.toMatch(new RegExp(secretNames.join("|")));
    for (const value of secretValues) expect(text.includes(value), name).toBe(false);
  }
});

test("keeps the sign-in page's scripts within 15 KB, gzipped", async () => {
  const html = await (await fetch(new URL("/login", base))).text();
  const own = [...html.matchAll(/<script[^>]*>([^<]+)<\/script>/g)].map(([, text = ""]) => text);
  const files = [...html.matchAll(/<script[^>]* src="([^"]+)"/g)].map(([, src = ""]) => src);
  for (const src of files) own.push(await (await fetch(new URL(src, base))).text());
  const bytes = own.reduce((total, text) => total + gzipSync(text).byteLength, 0);
  console.log(`sign-in page: ${bytes} of ${maxSignInBytes} bytes of gzipped script, in ${own.length} parts`);
  expect(files.length).toBeGreaterThan(0);
  expect(bytes).toBeLessThanOrEqual(maxSignInBytes);
});
