import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { exportAccount } from "./export-account.ts";

const { supabase } = readStack();
let person: Person;
beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

/** Returns a client with the server's key, and a list in which the client records the body of each request. */
function countingClient() {
  const asked: string[] = [];
  const client = createClient(supabase.url, supabase.secretKey, {
    auth: { persistSession: false, autoRefreshToken: false },
    global: {
      fetch: (input, init) => {
        asked.push(String(init?.body ?? ""));
        return fetch(input, init);
      },
    },
  });
  return { client, asked };
}

const addEvents = (count: number) =>
  query(
    `insert into public.security_events (user_id, kind, user_agent, created_at)
     select $1, 'sign_in', repeat('x', 200), now() - n * interval '1 second' from generate_series(1, $2::integer) as n`,
    [person.id, count],
  );

test.each([499, 500, 501, 1_201])("an export of %d events contains each event once, oldest first", async (count) => {
  await addEvents(count);
  const { client } = countingClient();
  const text = await new Response(await exportAccount(client, { userId: person.id })).text();
  const document = JSON.parse(text) as { account: { id: string }; securityEvents: { id: string; createdAt: string }[] };
  expect(document.account.id).toBe(person.id);
  expect(document.securityEvents).toHaveLength(count);
  expect(new Set(document.securityEvents.map(({ id }) => id)).size).toBe(count);
  const times = document.securityEvents.map(({ createdAt }) => createdAt);
  expect(times).toEqual(times.toSorted());
});

test("an export fetches at most one page ahead of what the client has read, and stops when the client cancels", async () => {
  await addEvents(5_000);
  const { client, asked } = countingClient();
  const body = await exportAccount(client, { userId: person.id });
  const reader = body?.getReader();
  await reader?.read();
  await new Promise((done) => setTimeout(done, 500));
  const pages = asked.filter((text) => text.includes("securityEvents")).length;
  expect(pages).toBeLessThanOrEqual(3);
  await reader?.cancel();
  await new Promise((done) => setTimeout(done, 200));
  expect(asked.filter((text) => text.includes("securityEvents")).length).toBeLessThanOrEqual(pages + 1);
});

test("opening the URL of the download leads to the card with the download button", async () => {
  const browser = await enter(person);
  const { location } = await browser.get("/settings/security/export");
  const page = await browser.get("/settings/security");
  const [, id] = /^\/settings\/security#(.+)$/.exec(location ?? "") ?? [];
  expect(page.text.split(`id="${id}"`)[1]?.split("</section>")[0]).toContain("Download your data");
});
