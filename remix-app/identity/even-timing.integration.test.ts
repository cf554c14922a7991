import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readStack } from "../../scripts/test/stack.ts";
import { answerStepMs } from "./even-timing.ts";

const { base, supabase } = readStack();
const { admin } = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } }).auth;
/** Of each kind. Two sets of so many jittered times lie apart by chance once in 6,000 runs. */
const sampleSize = 8;
const domain = `${crypto.randomUUID().slice(0, 8)}.timing.gatehouse.test`;
const known = Array.from({ length: sampleSize }, (_, index) => `known-${index}@${domain}`);
const unknown = Array.from({ length: sampleSize }, (_, index) => `unknown-${index}@${domain}`);

beforeAll(async () => {
  for (const email of known) {
    const { error } = await admin.createUser({ email, password: "correct horse battery", email_confirm: true });
    if (error) throw error;
  }
});
afterAll(async () => {
  const { data } = await admin.listUsers({ perPage: 1_000 });
  for (const user of data.users) if (user.email?.endsWith(domain)) await admin.deleteUser(user.id);
});

async function timesOf(path: string, emails: string[]): Promise<number[]> {
  const times: number[] = [];
  for (const email of emails) {
    const started = performance.now();
    const response = await fetch(`${base}${path}`, {
      method: "POST",
      headers: { "sec-fetch-site": "same-origin" },
      body: new URLSearchParams({ email, password: "not the password" }),
      redirect: "manual",
    });
    await response.text();
    times.push(performance.now() - started);
  }
  return times;
}

test.each(["/login", "/forgot-password", "/signup/check-mail", "/signup"])(
  "%s takes as long for an unknown address as for a known one",
  async (path) => {
    const [ofKnown, ofUnknown] = await Promise.all([timesOf(path, known), timesOf(path, unknown)]);
    expect(Math.min(...ofKnown, ...ofUnknown)).toBeGreaterThanOrEqual(answerStepMs - 1);
    expect(Math.min(...ofKnown)).toBeLessThanOrEqual(Math.max(...ofUnknown));
    expect(Math.min(...ofUnknown)).toBeLessThanOrEqual(Math.max(...ofKnown));
  },
);
