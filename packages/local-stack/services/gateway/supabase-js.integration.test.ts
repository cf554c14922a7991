import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";

const { supabase, mail } = readStack();
const options = { auth: { persistSession: false, autoRefreshToken: false } };
const password = "correct horse battery staple";
const admin = createClient(supabase.url, supabase.secretKey, options);

type Person = { id: string; email: string; client: SupabaseClient };
const people: string[] = [];
let ann: Person;
let ben: Person;

function address(name: string): string {
  return `${name}-${crypto.randomUUID()}@clients.test`;
}

function anonymous(): SupabaseClient {
  return createClient(supabase.url, supabase.publishableKey, options);
}

async function signedIn(name: string): Promise<Person> {
  const email = address(name);
  const { data, error } = await admin.auth.admin.createUser({ email, password, email_confirm: true });
  if (error) throw error;
  people.push(data.user.id);
  const client = anonymous();
  const { error: refused } = await client.auth.signInWithPassword({ email, password });
  if (refused) throw refused;
  return { id: data.user.id, email, client };
}

async function confirmationToken(email: string): Promise<string> {
  return vi.waitFor(
    async () => {
      const answer = await fetch(`${mail.web}/api/email?to.address=${encodeURIComponent(email)}`);
      const [message] = (await answer.json()) as { html: string }[];
      const token = message?.html.match(/token_hash=([0-9a-f]+)/)?.[1];
      if (!token) throw new Error(`no mail to ${email} yet`);
      return token;
    },
    { timeout: 10_000, interval: 100 },
  );
}

beforeAll(async () => {
  [ann, ben] = await Promise.all([signedIn("ann"), signedIn("ben")]);
});

afterAll(async () => {
  for (const id of people) await admin.auth.admin.deleteUser(id);
});

describe("supabase-js sign-up and sign-in", () => {
  test("supabase-js signs a user up and gets a session after the email is confirmed", async () => {
    const email = address("new");
    const client = anonymous();
    const signedUp = await client.auth.signUp({ email, password });
    expect(signedUp.error).toBeNull();
    expect(signedUp.data.session).toBeNull();
    const early = await client.auth.signInWithPassword({ email, password });
    expect(early.error).toMatchObject({ code: "email_not_confirmed", status: 400 });
    const token_hash = await confirmationToken(email);
    const confirmed = await client.auth.verifyOtp({ token_hash, type: "email" });
    expect(confirmed.error).toBeNull();
    people.push(confirmed.data.user?.id ?? "");
    expect(confirmed.data.session?.access_token).toBeTruthy();
    const { data } = await client
      .from("profiles")
      .select("id")
      .eq("id", confirmed.data.user?.id ?? "");
    expect(data).toHaveLength(1);
  });

  test("supabase-js can verify a session's access token itself", async () => {
    const { data, error } = await ann.client.auth.getClaims();
    expect(error).toBeNull();
    expect(data?.header.alg).toBe("ES256");
    expect(data?.claims).toMatchObject({ sub: ann.id, aud: "authenticated", iss: `${supabase.url}/auth/v1` });
  });

  test("supabase-js receives a distinct error code for each failure", async () => {
    const wrong = await anonymous().auth.signInWithPassword({ email: ann.email, password: "not it" });
    expect(wrong.error).toMatchObject({ code: "invalid_credentials", status: 400 });
    const key = createClient(supabase.url, "sb_publishable_wrong", options);
    expect((await key.auth.signInWithPassword({ email: ann.email, password })).error).toMatchObject({ status: 401 });
  });

  test("supabase-js refreshes a session, and cannot refresh it after signing out", async () => {
    const { client } = await signedIn("short");
    const before = (await client.auth.getSession()).data.session;
    const { data, error } = await client.auth.refreshSession();
    expect(error).toBeNull();
    expect(data.session?.refresh_token).not.toBe(before?.refresh_token);
    expect((await client.auth.signOut()).error).toBeNull();
    const after = await anonymous().auth.refreshSession({ refresh_token: data.session?.refresh_token ?? "" });
    expect(after.error).not.toBeNull();
  });
});

describe("supabase-js queries", () => {
  test("supabase-js reads and writes only the signed-in user's rows", async () => {
    expect((await ann.client.from("profiles").select("id")).data).toEqual([{ id: ann.id }]);
    const mine = await ann.client
      .from("profiles")
      .update({ display_name: "Ann" })
      .eq("id", ann.id)
      .select("display_name")
      .single();
    expect(mine.data).toEqual({ display_name: "Ann" });
    const theirs = await ann.client.from("profiles").update({ display_name: "Mine" }).eq("id", ben.id).select();
    expect(theirs).toMatchObject({ error: null, data: [] });
  });

  test("supabase-js cannot read or write columns without a grant", async () => {
    const { error, status } = await ann.client
      .from("profiles")
      .update({ created_at: new Date(0).toISOString() })
      .eq("id", ann.id);
    expect([status, error?.code]).toEqual([403, "42501"]);
  });

  test("embeds rows over a foreign key, counts rows, and reads single rows", async () => {
    const { data, count } = await ann.client
      .from("workspace_members")
      .select("user_id, workspaces(id, name)", { count: "exact" });
    expect(count).toBe(1);
    expect(data).toMatchObject([{ user_id: ann.id, workspaces: { id: expect.any(String) } }]);
    const none = await ann.client.from("profiles").select().eq("id", ben.id).single();
    expect([none.status, none.error?.code]).toEqual([406, "PGRST116"]);
    expect((await ann.client.from("profiles").select().eq("id", ben.id).maybeSingle()).data).toBeNull();
  });

  test("supabase-js cannot read or write rows without a signed-in user", async () => {
    const { error, status } = await anonymous().from("profiles").select();
    expect([status, error?.code]).toEqual([401, "42501"]);
  });

  test("supabase-js calls database functions as the signed-in user", async () => {
    const { data, error } = await ann.client.rpc("session_state");
    expect(error).toBeNull();
    expect(data).toMatchObject({ alive: true, user: { id: ann.id } });
    const { error: refused, status } = await anonymous().rpc("session_state");
    expect([status, refused?.code]).toEqual([401, "42501"]);
  });

  test("supabase-js reads the schemas private and ai only with the secret key", async () => {
    for (const [schema, table] of [
      ["private", "infrastructure_admins"],
      ["ai", "models"],
    ] as const) {
      expect((await admin.schema(schema).from(table).select()).error).toBeNull();
      const user = await ann.client.schema(schema).from(table).select();
      expect([user.status, user.error?.code]).toEqual([403, "42501"]);
      const visitor = await anonymous().schema(schema).from(table).select();
      expect([visitor.status, visitor.error?.code]).toEqual([401, "42501"]);
    }
    const auth = await admin.schema("auth").from("users").select();
    expect([auth.status, auth.error?.code]).toEqual([406, "PGRST106"]);
  });

  test("lists and administers users with the secret key", async () => {
    const { data } = await admin.from("profiles").select("id").in("id", [ann.id, ben.id]);
    expect(data).toHaveLength(2);
    expect((await admin.auth.admin.getUserById(ben.id)).data.user?.email).toBe(ben.email);
    expect((await ann.client.auth.admin.getUserById(ben.id)).error).toMatchObject({ status: 403 });
  });
});
