import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { deletePerson, insertAccount } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";
import { newAddress, visitorHeaders } from "../testing/visitor.ts";
import { startWeb } from "../testing/web-process.ts";

const { base, supabase } = readStack();
const service = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
const password = "correct horse battery";
const laptop = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36";
const laptopUpdated = laptop.replace("126", "127");
const desk = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0";
const address = newAddress();
let email: string;
let userId: string;

beforeEach(async () => {
  email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
  userId = await insertAccount({ email, password });
});
afterEach(() => deletePerson({ id: userId }));

async function signIn(userAgent: string) {
  const browser = openBrowser(base, { userAgent, address });
  expect((await browser.post("/login", { email, password })).location).toBe("/");
  return browser;
}

async function events() {
  const { data, error } = await service
    .from("security_events")
    .select("kind, method, device, ip, place, session_id")
    .eq("user_id", userId)
    .order("created_at");
  if (error) throw error;
  return data;
}

test("records sign-ins and sign-outs with their method, device, IP address and session", async () => {
  const browser = await signIn(laptop);
  expect((await browser.post("/logout", {})).location).toBe("/login");
  const [signedIn, signedOut] = await events();
  expect(signedIn).toMatchObject({ kind: "sign_in", method: "password", device: "Chrome on macOS", ip: address });
  expect(signedOut).toMatchObject({ kind: "sign_out", device: "Chrome on macOS", session_id: signedIn?.session_id });
  expect(signedIn?.session_id).toMatch(/^[0-9a-f-]{36}$/);
});

test("a sign-in's recorded place comes from the configured headers", async () => {
  const web = await startWeb(supabase.url, {
    env: {
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      SUPABASE_SECRET_KEY: supabase.secretKey,
      TRUSTED_PROXY_HOPS: "1",
      VISITOR_CITY_HEADER: "CF-IPCity",
      VISITOR_COUNTRY_HEADER: "CF-IPCountry",
    },
  });
  try {
    const headers = { ...visitorHeaders(address), "user-agent": laptop, "cf-ipcity": "Porto", "cf-ipcountry": "PT" };
    await web.fetch("/login", { method: "POST", headers, body: new URLSearchParams({ email, password }) });
    expect(await events()).toMatchObject([{ kind: "sign_in", ip: address, place: "Porto, Portugal" }]);
  } finally {
    await web.stop();
  }
});

test("records no event for a refused sign-in", async () => {
  await openBrowser(base).post("/login", { email, password: "wrong" });
  expect(await events()).toEqual([]);
});

test("emails the owner about a sign-in only if the device is new", async () => {
  await signIn(laptop);
  await signIn(laptop);
  await signIn(laptopUpdated);
  await signIn(desk);
  await expect.poll(() => mailsTo(email)).toHaveLength(1);
  const [mail] = await mailsTo(email);
  expect(mail?.subject).toBe("New sign-in from Firefox on Windows");
  for (const fact of [
    "Method: Password",
    "Device: Firefox on Windows",
    `IP address: ${address}`,
    `${base}/forgot-password`,
  ])
    expect(mail?.text).toContain(fact);
  await signIn(desk);
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(await mailsTo(email)).toHaveLength(1);
});
