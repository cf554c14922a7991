import { randomUUID } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

const { supabase } = readStack();
const options = { auth: { persistSession: false, autoRefreshToken: false } };
const admin = createClient(supabase.url, supabase.secretKey, options);
const password = "a-long-enough-password";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

const hello: OpenAI.ChatCompletionCreateParamsNonStreaming = {
  model: "demo-chat",
  messages: [{ role: "user", content: "hello" }],
};

/** Creates a member of the tenant's workspace, signed in with the standard client. */
async function signedIn() {
  const email = `${randomUUID()}@example.test`;
  const created = await admin.auth.admin.createUser({ email, password, email_confirm: true });
  if (created.error) throw created.error;
  const userId = created.data.user.id;
  await tenant.db.query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select workspace_id, $2, id from public.workspace_roles where workspace_id = $1 and name = 'member'`,
    [tenant.workspaceId, userId],
  );
  const client = createClient(supabase.url, supabase.publishableKey, options);
  const { data, error } = await client.auth.signInWithPassword({ email, password });
  if (error) throw error;
  const token = data.session.access_token;
  const workspace = { "X-Platform-Workspace-Id": tenant.workspaceId };
  const openai = tenant.client.withOptions({ apiKey: token, defaultHeaders: workspace });
  return { userId, token, openai, auth: client.auth };
}

describe("a person's own session", () => {
  test("a person's session can list models, chat and stream, and its workspace is charged", async () => {
    const { openai } = await signedIn();
    expect((await openai.models.list()).data.map(({ id }) => id)).toContain("demo-chat");
    const requestId = randomUUID();
    const stream = await openai.chat.completions.create(
      { ...hello, stream: true },
      { headers: { "x-request-id": requestId } },
    );
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toContain("hello");
    const { run, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ credential_source: "session", execution_mode: "interactive", status: "succeeded" });
    expect(charged).toBe(run.billed_credits);
    expect((await openai.audio.speech.create({ model: "demo-speech", voice: "Kore", input: "Hi" })).status).toBe(200);
  });

  test("a person's session must name its workspace", async () => {
    const { token } = await signedIn();
    const openai = tenant.client.withOptions({ apiKey: token });
    await expect(openai.chat.completions.create(hello)).rejects.toMatchObject({
      status: 400,
      code: "workspace_header_required",
    });
    const other = await createGatewayTenant();
    const headers = { "X-Platform-Workspace-Id": other.workspaceId };
    await expect(openai.chat.completions.create(hello, { headers })).rejects.toMatchObject({ status: 403 });
    await other.close();
  });

  test("a person's session stops working at sign-out, although its token has not expired", async () => {
    const { openai, auth } = await signedIn();
    await auth.signOut();
    await expect(openai.chat.completions.create(hello)).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
  });

  test("refuses a session without the required second factor, and says why", async () => {
    const { openai, userId } = await signedIn();
    await tenant.db.query(
      `with writer as (select set_config('gatehouse.required_mfa_writer', 'on', true))
       update auth.users set raw_app_meta_data = raw_app_meta_data || jsonb_build_object('platform_required_mfa', $2::jsonb)
       from writer where id = $1`,
      [userId, { version: 1, required: true, boundary: 1, primaryBoundary: null, recovery: "none", generation: 1 }],
    );
    const call = openai.chat.completions.create(hello);
    await expect(call).rejects.toBeInstanceOf(OpenAI.PermissionDeniedError);
    await expect(call).rejects.toMatchObject({ code: "MFA_REQUIRED" });
    await expect(openai.models.list()).rejects.toMatchObject({ status: 403, code: "MFA_REQUIRED" });
  });

  test("refuses a session token with another issuer or algorithm, or without a signature", async () => {
    const { token } = await signedIn();
    const [header = "", claims = "", signature = ""] = token.split(".");
    const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString("base64url");
    const flipped = signature.replace(/^./, (first) => (first === "A" ? "B" : "A"));
    const issuer = Buffer.from(claims, "base64url")
      .toString()
      .replace(/"iss":"[^"]*"/, '"iss":"https://evil.test"');
    const forged = [
      `${none}.${claims}.`,
      `${none}.${claims}.${signature}`,
      `${header}.${claims}.${flipped}`,
      `${header}.${Buffer.from(issuer).toString("base64url")}.${signature}`,
      `${header}.${claims}`,
    ];
    for (const apiKey of forged) {
      const call = tenant.client.withOptions({ apiKey }).chat.completions.create(hello);
      await expect(call).rejects.toMatchObject({ status: 401, code: "invalid_api_key" });
    }
  });
});

describe("a key with allowed addresses", () => {
  test("a key works only from its allowed addresses, and an X-Forwarded-For header can't fake one", async () => {
    const bound = await createGatewayTenant();
    const allow = (addresses: string) =>
      bound.db.query("update ai.keys set allowed_addresses = $2 where id = $1", [bound.keyId, addresses]);
    await allow("{127.0.0.0/8}");
    expect((await bound.client.chat.completions.create(hello)).choices).toHaveLength(1);
    await allow("{203.0.113.0/24}");
    const headers = { "x-forwarded-for": "203.0.113.7" };
    const call = bound.client.chat.completions.create(hello, { headers });
    await expect(call).rejects.toMatchObject({ status: 403, code: "insufficient_scope" });
    await expect(bound.client.models.list({ headers })).rejects.toMatchObject({ status: 403 });
    await bound.close();
  });
});
