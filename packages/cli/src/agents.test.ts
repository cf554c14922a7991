import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readToken, usableModels } from "./agents.ts";
import type { Tool } from "./arguments.ts";
import { Store } from "./store.ts";

const hour = 3_600_000;
/** No server listens at this address. */
const url = "http://127.0.0.1:9";
let store: Store;

beforeEach(async () => {
  store = new Store(await mkdtemp(join(tmpdir(), "gatehouse-store-")));
  const tokens = { accessToken: "gho_x", accessExpiresAt: Date.now() + hour, refreshToken: "ghr_x" };
  await store.writeLogin({ url, clientId: "gatehouse", account: "ann@example.com", ...tokens });
});
afterEach(() => rm(store.folder, { recursive: true }));

async function connectWith(keyExpiresAt: number): Promise<void> {
  const workspace = { workspaceId: "w", workspaceName: "Acme", connectionId: "c" };
  await store.writeKey("claude", "ttr_ai_x");
  await store.writeConnection("claude", { url, ...workspace, gatewayUrl: url, keyExpiresAt, configuration: null });
}

test("without a network, gatehouse prints the existing key if it is still valid", async () => {
  await connectWith(Date.now() + hour);
  expect(await readToken(store, "claude")).toBe("ttr_ai_x");
  expect(await readToken(store, undefined)).toBe("ttr_ai_x");
});

test("without a network, gatehouse does not print an expired key", async () => {
  await connectWith(Date.now() - 1);
  await expect(readToken(store, "claude")).rejects.toThrow("Couldn’t reach 127.0.0.1:9.");
});

test("gatehouse prints no key after a sign-out, nor for an agent that is not connected", async () => {
  await connectWith(Date.now() + hour);
  await expect(readToken(store, "codex")).rejects.toThrow("Codex isn’t connected. Run: gatehouse connect codex");
  await store.deleteLogin();
  await expect(readToken(store, "claude")).rejects.toThrow("You’re not signed in. Run: gatehouse login");
  expect(await store.readKey("claude")).toBeNull();
});

test.each<[Tool, string[]]>([
  ["claude", ["claude-opus"]],
  ["codex", ["coder", "gpt"]],
  ["opencode", ["coder", "gpt", "mistral"]],
])(
  "the agent %s gets only models that its API endpoint serves, those with a default output limit first: %j",
  (tool, usable) => {
    const data = [
      {
        id: "gpt",
        platform: {
          endpoints: ["/v1/chat/completions", "/v1/responses"],
          context_window: 128_000,
          output_limit: 16_384,
        },
      },
      {
        id: "coder",
        platform: { endpoints: ["/v1/chat/completions", "/v1/responses"], default_output_limit: 32_768 },
      },
      { id: "mistral", platform: { endpoints: ["/v1/chat/completions"] } },
      { id: "claude-opus", platform: { endpoints: ["/v1/messages"] } },
      { id: "embed", platform: { endpoints: ["/v1/embeddings"] } },
    ];
    const models = usableModels(tool, { data });
    expect(models.map(({ id }) => id)).toEqual(usable);
    for (const { id, limits } of models) {
      expect(limits).toEqual(id === "gpt" ? { context: 128_000, output: 16_384 } : undefined);
    }
  },
);
