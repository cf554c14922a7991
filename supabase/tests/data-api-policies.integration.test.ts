import { randomUUID } from "node:crypto";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { readStack } from "../../scripts/test/stack.ts";

const { supabase } = readStack();
const options = { auth: { persistSession: false, autoRefreshToken: false } };
const admin = createClient(supabase.url, supabase.secretKey, options);
const password = "a-long-enough-password";

/** Creates an account and signs it in with the stock client, which then calls the Data API directly. */
async function signedIn(): Promise<{ id: string; email: string; client: SupabaseClient }> {
  const email = `${randomUUID()}@example.test`;
  const created = await admin.auth.admin.createUser({ email, password, email_confirm: true });
  if (created.error) throw created.error;
  const client = createClient(supabase.url, supabase.publishableKey, options);
  const { error } = await client.auth.signInWithPassword({ email, password });
  if (error) throw error;
  return { id: created.data.user.id, email, client };
}

describe("User tokens sent directly to the Data API", () => {
  test("a user's token reads only the user's own profile and workspace", async () => {
    const [first, second] = [await signedIn(), await signedIn()];
    const profiles = await first.client.from("profiles").select("id");
    expect(profiles.data).toEqual([{ id: first.id }]);
    const workspaces = await first.client.from("workspaces").select("personal_user_id");
    expect(workspaces.data).toEqual([{ personal_user_id: first.id }]);
    const others = await first.client.from("workspaces").select().eq("personal_user_id", second.id);
    expect(others.data).toEqual([]);
  });

  test("a user's token reads members with their names and roles in one call", async () => {
    const { id, client } = await signedIn();
    const { data } = await client.from("workspace_members").select("user_id, profiles(id), workspace_roles(name)");
    expect(data).toEqual([{ user_id: id, profiles: { id }, workspace_roles: { name: "owner" } }]);
  });

  test("a user's token can rename the user's own workspace, but can't rename another user's or change the plan", async () => {
    const [first, second] = [await signedIn(), await signedIn()];
    const renamed = await first.client.from("workspaces").update({ name: "Mine" }).neq("name", "").select("name");
    expect(renamed.data).toEqual([{ name: "Mine" }]);
    const untouched = await second.client.from("workspaces").select("name");
    expect(untouched.data).not.toEqual([{ name: "Mine" }]);
    const refused = await first.client.from("workspaces").update({ plan_id: "enterprise" }).neq("name", "");
    expect(refused.error?.code).toBe("42501");
  });

  test("a user's token can read the state of its own session", async () => {
    const { id, email, client } = await signedIn();
    const state = await client.rpc("session_state");
    expect(state.data).toMatchObject({
      alive: true,
      user: { id, email },
      policy: { required: false, satisfied: true },
    });
  });

  test("a user's token reads nothing after its session has ended, although the token has not expired", async () => {
    const { client } = await signedIn();
    const token = (await client.auth.getSession()).data.session?.access_token ?? "";
    await admin.auth.admin.signOut(token, "global");
    const late = createClient(supabase.url, supabase.publishableKey, {
      ...options,
      global: { headers: { authorization: `Bearer ${token}` } },
    });
    expect((await late.from("profiles").select("id")).data).toEqual([]);
    expect((await late.rpc("session_state")).data).toEqual({ alive: false });
  });

  test.for(["private", "ai"])("refuses a user's token in schema %s", async (schema) => {
    const { client } = await signedIn();
    const table = schema === "private" ? "infrastructure_admins" : "keys";
    const { error } = await client.schema(schema).from(table).select();
    expect(error?.code).toBe("42501");
    expect((await admin.schema(schema).from(table).select().limit(1)).error).toBeNull();
  });
});

describe("Publishable key without a user", () => {
  const anon = createClient(supabase.url, supabase.publishableKey, options);

  test.for(["profiles", "workspaces", "workspace_members", "workspace_roles", "security_events"])(
    "the publishable key alone cannot read %s",
    async (table) => {
      expect((await anon.from(table).select()).error?.code).toBe("42501");
    },
  );

  test.for(["session_state", "required_mfa_enforcement_version"])(
    "the publishable key alone cannot call %s",
    async (name) => {
      expect((await anon.rpc(name)).error?.code).toBe("42501");
    },
  );
});

test("the secret key can read whether required MFA is enforced", async () => {
  expect((await admin.rpc("required_mfa_enforcement_version")).data).toBe(1);
});
