import { createClient } from "@supabase/supabase-js";
import OpenAI from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { asApp, mint, paths } from "../../../../scripts/test/apps.ts";
import { readStack } from "../../../../scripts/test/stack.ts";

const { ai, appKey, externalApp, supabase, users, workspaceId } = readStack();
const hello: OpenAI.ChatCompletionCreateParamsNonStreaming = {
  model: "demo-chat",
  messages: [{ role: "user", content: "hello" }],
};

function clientOf(apiKey: string, defaultHeaders: Record<string, string> = {}): OpenAI {
  return new OpenAI({ baseURL: `${ai}/v1`, apiKey, defaultHeaders, maxRetries: 0 });
}

/** An app pays no credits, but its answers state the provider's cost. */
const exempt = {
  platform: { billed_credits: 0, provider_cost_usd: expect.any(Number), usage_source: "provider" },
};

describe("an external app with a key", () => {
  test("an external app can make calls with the key that is bound to it, and pays no credits", async () => {
    const client = clientOf(appKey);
    expect(await client.chat.completions.create(hello)).toMatchObject(exempt);
    expect(await client.get("/key")).toMatchObject({ source: "key", app: { name: externalApp.name }, exempt: true });
  });

  describe("an external app's token for a user", () => {
    let accessToken: string;
    beforeAll(async () => {
      const person = users.find(({ role }) => role === "user") ?? { email: "", password: "" };
      const auth = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } }).auth;
      const { data } = await auth.signInWithPassword({ email: person.email, password: person.password });
      const token = await mint({ accessToken: data.session?.access_token ?? "" }, { ...externalApp, id: "" });
      const { status, body } = await asApp(externalApp, paths.exchange, { token, workspaceId });
      expect(status).toBe(200);
      accessToken = (body as { accessToken: string }).accessToken;
    });

    test("an app's token can make calls for its user, including speech, in the workspace that the header names", async () => {
      const client = clientOf(accessToken, { "X-Platform-Workspace-Id": workspaceId.toUpperCase() });
      expect((await client.models.list()).data.map(({ id }) => id)).toContain("demo-chat");
      expect(await client.chat.completions.create(hello)).toMatchObject(exempt);
      expect((await client.audio.speech.create({ model: "demo-speech", voice: "Kore", input: "Hi" })).status).toBe(200);
      expect(await client.get("/key")).toMatchObject({ source: "app_token", workspaceId, exempt: true });
    });

    test("refuses an app's token without a workspace header or with the header of another workspace", async () => {
      await expect(clientOf(accessToken).chat.completions.create(hello)).rejects.toMatchObject({
        status: 400,
        code: "workspace_header_required",
      });
      const elsewhere = { "X-Platform-Workspace-Id": "00000000-0000-4000-8000-000000000000" };
      await expect(clientOf(accessToken, elsewhere).chat.completions.create(hello)).rejects.toMatchObject({
        status: 403,
        code: "workspace_mismatch",
      });
    });
  });
});
