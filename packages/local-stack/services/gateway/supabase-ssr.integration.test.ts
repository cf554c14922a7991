import { createServerClient } from "@supabase/ssr";
import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";

const { supabase } = readStack();
const admin = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
const email = `cookies-${crypto.randomUUID()}@clients.test`;
const password = "correct horse battery staple";
const cookies = new Map<string, string>();
let userId: string;

/** Creates a client as a server does for each request. The request's cookies are its only state. */
function serverClient() {
  return createServerClient(supabase.url, supabase.publishableKey, {
    cookies: {
      getAll: () => [...cookies].map(([name, value]) => ({ name, value })),
      setAll: (changes) => {
        for (const { name, value } of changes) {
          if (value === "") cookies.delete(name);
          else cookies.set(name, value);
        }
      },
    },
  });
}

beforeAll(async () => {
  const { data, error } = await admin.auth.admin.createUser({ email, password, email_confirm: true });
  if (error) throw error;
  userId = data.user.id;
});

afterAll(() => admin.auth.admin.deleteUser(userId));

test("a session is kept in cookies across requests until the user signs out", async () => {
  expect((await serverClient().auth.getUser()).data.user).toBeNull();
  const { error } = await serverClient().auth.signInWithPassword({ email, password });
  expect(error).toBeNull();
  expect([...cookies.keys()].every((name) => name.startsWith("sb-"))).toBe(true);

  const next = serverClient();
  expect((await next.auth.getClaims()).data?.claims.sub).toBe(userId);
  expect((await next.auth.getUser()).data.user?.email).toBe(email);
  expect((await next.from("profiles").select("id")).data).toEqual([{ id: userId }]);
  expect((await next.rpc("session_state")).data).toMatchObject({ alive: true });

  const { data } = await serverClient().auth.refreshSession();
  expect((await serverClient().auth.getSession()).data.session?.access_token).toBe(data.session?.access_token);

  expect((await serverClient().auth.signOut()).error).toBeNull();
  expect((await serverClient().auth.getUser()).data.user).toBeNull();
  const { status } = await serverClient().from("profiles").select("id");
  expect(status).toBe(401);
});
