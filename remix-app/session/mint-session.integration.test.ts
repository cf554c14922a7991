import { afterEach, beforeEach, expect, test } from "vitest";
import { keepSession, vaultSettings } from "../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, type Person, query } from "../../scripts/test/people.ts";
import { openContext } from "../../scripts/test/request-context.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { mintSession } from "./mint-session.ts";

const stack = readStack();
let person: Person;

beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

const mint = async (userId = person.id) => mintSession(await openContext(stack), { userId });

test("a minted session belongs to the account, is AAL1 and records a sign-in by one-time code at the current time", async () => {
  const minted = await mint();
  if (minted.status !== "minted") throw new Error(minted.status);
  const { sub, aal, amr } = minted.claims;
  expect({ sub, aal, methods: amr.map(({ method }) => method) }).toEqual({
    sub: person.id,
    aal: "aal1",
    methods: ["otp"],
  });
  expect(Math.abs((amr[0]?.timestamp ?? 0) - Date.now() / 1000)).toBeLessThan(30);
  const kept = await openContext({ ...stack, cookie: await keepSession(minted.session), env: vaultSettings() });
  expect(await kept.session.state()).toMatchObject({ status: "alive" });
});

test("concurrent requests each mint their own session or learn that another request is minting one", async () => {
  const answers = await callAtOnce(() => mint());
  const statuses = new Set(answers.map(({ status }) => status));
  // On a busy machine, some requests time out and return `unavailable`.
  expect([...statuses].filter((status) => !["minted", "busy", "unavailable"].includes(status))).toEqual([]);
  expect(statuses).toContain("minted");
  const sessions = answers.flatMap((answer) => (answer.status === "minted" ? [answer.claims.session_id] : []));
  expect(new Set(sessions).size).toBe(sessions.length);
  expect(await query("select from auth.sessions where user_id = $1", [person.id])).toHaveLength(sessions.length);
});

test("a minting lease is released after minting, and expires if its server crashes", async () => {
  await mint();
  expect(await query("select from private.mint_leases where user_id = $1", [person.id])).toEqual([]);
  const holdUntil = (moment: string) =>
    query(
      `insert into private.mint_leases (user_id, expires_at) values ($1, ${moment})
       on conflict (user_id) do update set expires_at = excluded.expires_at`,
      [person.id],
    );
  await holdUntil("now() + interval '10 seconds'");
  expect(await mint()).toEqual({ status: "busy" });
  await holdUntil("now()");
  expect(await mint()).toMatchObject({ status: "minted" });
});

test("minting a session for an unknown id creates no account", async () => {
  const id = crypto.randomUUID();
  expect(await mint(id)).toEqual({ status: "no_account" });
  expect(await query("select from auth.users where id = $1", [id])).toEqual([]);
});

test("minting a session returns no_email for an account without an email, and refused for a banned account", async () => {
  await query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [person.id]);
  expect(await mint()).toEqual({ status: "refused" });
  await query("update auth.users set banned_until = null, email = null where id = $1", [person.id]);
  expect(await mint()).toEqual({ status: "no_email" });
});

test("minting a session reports that the backend is unavailable if it does not answer", async () => {
  const context = await openContext({ ...stack, supabase: { ...stack.supabase, url: "http://127.0.0.1:9" } });
  expect(await mintSession(context, { userId: person.id })).toEqual({ status: "unavailable" });
});
