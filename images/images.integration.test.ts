import { execFile } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import path from "node:path";
import { promisify } from "node:util";
import { freePort } from "@gatehousehq/local-stack/ports";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { openBrowser } from "../remix-app/testing/browser.ts";
import { readStack } from "../scripts/test/stack.ts";
import { gatewayEnvironment } from "../supabase/tests/gateway/gateway-process.ts";
import { type PausedProvider, startPausedProvider } from "../supabase/tests/gateway/paused-stream.ts";
import { createPricedModel } from "../supabase/tests/gateway/priced-model.ts";
import { createGatewayTenant, type GatewayTenant } from "../supabase/tests/gateway/tenant.ts";
import { buildImages, type Image, type ImageName } from "./build.ts";
import { hasBuildah } from "./buildah.ts";
import { type RunningImage, readProcess, startImage } from "./running-image.ts";

const buildTimeoutMs = 30 * 60_000;
const isAvailable = await hasBuildah();
if (!isAvailable) console.warn("The images are neither built nor started, because Buildah is not installed.");

test("without Buildah, `npm run release -- --images` says that it is needed, and fails", async () => {
  const script = path.resolve("scripts/releases/main.ts");
  const running = promisify(execFile)(process.execPath, [script, "--images"], {
    env: { ...process.env, PATH: "/nowhere" },
  });
  await expect(running).rejects.toMatchObject({
    code: 1,
    stderr: "Images need Buildah: install the package buildah.\n",
  });
});

if (isAvailable) {
  let images: Record<ImageName, Image>;
  beforeAll(async () => {
    const built = await buildImages("test");
    images = Object.fromEntries(built.map((image) => [image.name, image])) as typeof images;
  }, buildTimeoutMs);

  /** Starts an image on a free port, and waits until it answers. */
  async function start(name: ImageName, settings: (url: string) => Record<string, string>) {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const startedAt = performance.now();
    const running = await startImage(images[name], { HOST: "127.0.0.1", PORT: String(port), ...settings(url) });
    await vi.waitFor(async () => expect((await fetch(`${url}/healthz`)).ok).toBe(true), {
      timeout: 20_000,
      interval: 20,
    });
    const startMs = Math.round(performance.now() - startedAt);
    const { memoryBytes, user, group } = readProcess(running.pid());
    const megabytes = (bytes: number) => `${Math.round(bytes / 1e6)} MB`;
    console.log(
      `${name}: ${megabytes(images[name].sizeBytes)}, answers ${startMs} ms after its start, ${megabytes(memoryBytes)} of memory, user ${user}`,
    );
    expect({ user, group }).toEqual({ user: 65_532, group: 65_532 });
    return { url, running };
  }

  describe("the gateway's image", () => {
    let tenant: GatewayTenant;
    let provider: PausedProvider;
    let model: string;
    let gateway: { url: string; running: RunningImage };
    let client: OpenAI;
    beforeAll(async () => {
      [tenant, provider] = await Promise.all([createGatewayTenant(), startPausedProvider()]);
      model = await createPricedModel(tenant, { providers: ["paused"] });
      gateway = await start("gateway", () => ({
        ...gatewayEnvironment(),
        AI_PROVIDER_PAUSED_BASE_URL: provider.url,
        AI_PROVIDER_PAUSED_ALLOW_PRIVATE: "on",
      }));
      client = new OpenAI({ baseURL: `${gateway.url}/functions/v1`, apiKey: tenant.key, maxRetries: 0 });
    }, 60_000);
    afterAll(async () => {
      await gateway?.running.stop();
      provider.close();
      await tenant.close();
    });

    test("the gateway's image is ready, and answers an openai client on a read-only file system", async () => {
      expect(await (await fetch(`${gateway.url}/readyz`)).json()).toEqual({ status: "ok" });
      const ids = (await client.models.list()).data.map(({ id }) => id);
      expect(ids).toContain(model);
      expect(gateway.running.output()).not.toMatch(/read-only|denied/i);
    });

    test("a stream in progress when the gateway's image gets SIGTERM ends with its content, and is charged", async () => {
      const requestId = `it-${randomUUID()}`;
      const stream = await client.chat.completions.create(
        { model, stream: true, messages: [{ role: "user", content: "hello" }] },
        { headers: { "x-request-id": requestId } },
      );
      let text = "";
      let stopped: Promise<number | null> | undefined;
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? "";
        if (stopped) continue;
        stopped = gateway.running.stop();
        await vi.waitFor(() => expect(fetch(`${gateway.url}/healthz`)).rejects.toThrow(), { timeout: 5_000 });
        provider.finish();
      }
      expect(text).toBe("first last");
      expect(await stopped).toBe(0);
      const { run, charged } = await tenant.accountOf(requestId);
      expect(run).toMatchObject({ status: "succeeded", usage_source: "provider" });
      expect(charged).toBe(run.billed_credits);
    });
  });

  describe("the web server's image", () => {
    let web: { url: string; running: RunningImage };
    beforeAll(async () => {
      const { supabase, ai, mail } = readStack();
      web = await start("web", (url) => ({
        BASE_URL: url,
        TRUSTED_PROXY_HOPS: "1",
        SUPABASE_URL: supabase.url,
        SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
        SUPABASE_SECRET_KEY: supabase.secretKey,
        AI_URL: ai,
        SMTP_URL: mail.smtp,
        MAIL_FROM: "no-reply@gatehouse.test",
        BREACHED_PASSWORDS_URL: "off",
        AUTH_RECOVERY_HASH_SECRET: randomBytes(32).toString("hex"),
      }));
    }, 60_000);
    afterAll(() => web?.running.stop());

    test("a person signs in at the web server's image on a read-only file system, and sees their account", async () => {
      const person = readStack().users.find(({ role, totpSecret }) => role === "user" && !totpSecret);
      if (!person) throw new Error("The stack has no demo user without a second factor.");
      const browser = openBrowser(web.url);
      const { email, password } = person;
      const signedIn = await browser.post("/login", { email, password });
      expect(signedIn.status).toBe(302);
      const account = await browser.get("/settings/profile");
      expect([account.status, account.words]).toEqual([200, expect.stringContaining(email)]);
      expect(web.running.output()).not.toMatch(/read-only|EROFS|EACCES/i);
    });

    test("the web server's image ends with code 0 after SIGTERM", async () => {
      expect(await web.running.stop()).toBe(0);
    });
  });
}
