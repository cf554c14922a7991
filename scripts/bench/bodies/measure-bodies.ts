import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Stack } from "../../test/stack.ts";
import { wholeBody } from "../gateway/call.ts";
import { createTenants } from "../gateway/tenants.ts";
import { readMemory, readPeakMemory, resetPeakMemory } from "../process-tree.ts";
import type { Progress } from "../progress.ts";
import { markdownTable } from "../report/tables.ts";
import { chatResponse } from "../upstream/answers.ts";
import { startThinkingProvider, type ThinkingAnswer } from "../upstream/thinking-provider.ts";

/** A burst of large calls: how many, over how long, and the body of each. */
type Burst = { name: string; count: number; withinMs: number; path: string; body: Buffer };

const mebibyte = 1024 * 1024;
const largestBytes = 8 * mebibyte;

/** The time over which the calls of each burst are sent. */
const withinMs = 40;

/** Returns a chat as a coding agent sends it, in which every message has a character outside Latin-1. */
function agentBody(bytes: number, model = "demo-chat"): Buffer {
  const line = "  const result = await store.read(path); // → returns the parsed file\n";
  const message = { role: "user", content: line.repeat(30) };
  const count = Math.floor(bytes / (Buffer.byteLength(JSON.stringify(message)) + 1)) - 1;
  return Buffer.from(JSON.stringify({ model, max_tokens: 64, messages: Array(count).fill(message) }));
}

function imageBody(bytes: number): Buffer {
  const url = `data:image/png;base64,${"iVBORw0KGgoAAAAN".repeat(Math.floor((bytes - 256) / 16))}`;
  const content = [
    { type: "text", text: "What is this?" },
    { type: "image_url", image_url: { url } },
  ];
  return Buffer.from(JSON.stringify({ model: "demo-chat", max_tokens: 64, messages: [{ role: "user", content }] }));
}

export const bursts: readonly Burst[] = [
  { name: "40 × 1 MiB", count: 40, body: agentBody(mebibyte) },
  { name: "100 × 300 KiB", count: 100, body: agentBody(300 * 1024) },
  { name: "20 images of 7 MiB", count: 20, body: imageBody(7 * mebibyte) },
  { name: "40 × 1 MiB, first route fails", count: 40, body: agentBody(mebibyte, "demo-fallback") },
  { name: "40 × 8 MiB", count: 40, body: agentBody(largestBytes) },
].map((burst) => ({ ...burst, withinMs, path: "/chat/completions" }));

/** How long the provider thinks about a call with a body above `largeBytes`. It answers others immediately. */
const thinkMs = 2_000;
const largeBytes = 64 * 1024;
const chatAnswer = chatResponse.subarray(chatResponse.indexOf("\r\n\r\n") + 4);
const smallCallEveryMs = 50;
const strangerEveryMs = 250;
const quietMs = 1_500;

type Answer = { status: number; ms: number };

/**
 * Sends bursts of large calls of one workspace, next to small calls of another and large calls with a wrong key.
 * Returns a table of the answers, the longest waits and the functions' peak memory.
 */
export async function measureBodies(options: {
  stack: Stack;
  client: pg.Client;
  progress: Progress;
  signal: AbortSignal;
}): Promise<string> {
  const { stack, client, progress, signal } = options;
  const functions = stack.services.find(({ name }) => name === "functions");
  if (!functions?.pid) throw new Error("The stack runs without its functions.");
  const { keys } = await createTenants(client, { stack, count: 2 });
  await allowFallback(client);
  const provider = await startThinkingProvider(Number(new URL(stack.provider).port), think);
  const origin = `http://127.0.0.1:${functions.port}`;
  const rows: string[][] = [];
  try {
    for (let call = 0; call < 200; call += 1) {
      await post(`${origin}/chat/completions`, { key: keys[1] ?? "", body: Buffer.from(wholeBody) });
    }
    for (const burst of bursts) {
      signal.throwIfAborted();
      progress.begin(`bodies: ${burst.name}`);
      rows.push(await measureBurst(burst, { origin, pid: functions.pid, keys }));
    }
  } finally {
    provider.stop();
  }
  const names = ["burst", "answers", "longest", "small calls: longest", "wrong key: longest", "memory: before → peak"];
  return markdownTable(names, rows);
}

/** The model `demo-error-500` fails after the provider has received the whole body. */
function think({ head, bytes }: { head: string; bytes: number }): ThinkingAnswer {
  if (head.includes("demo-error-500")) return { afterMs: 0, status: 500, body: "{}" };
  return { afterMs: bytes > largeBytes ? thinkMs : 0, body: chatAnswer };
}

async function measureBurst(
  { name, count, withinMs, path, body }: Burst,
  { origin, pid, keys }: { origin: string; pid: number; keys: string[] },
): Promise<string[]> {
  const url = origin + path;
  const before = readMemory(pid);
  resetPeakMemory(pid);
  const running = { small: true };
  const [small, strangers]: [Answer[], Answer[]] = [[], []];
  const every = async (ms: number, answers: Answer[], send: () => Promise<Answer>) => {
    const sent: Promise<unknown>[] = [];
    while (running.small) {
      sent.push(send().then((answer) => answers.push(answer)));
      await sleep(ms);
    }
    await Promise.all(sent);
  };
  const others = [
    every(smallCallEveryMs, small, () =>
      post(`${origin}/chat/completions`, { key: keys[1] ?? "", body: Buffer.from(wholeBody) }),
    ),
    every(strangerEveryMs, strangers, () => post(url, { key: `${keys[0]?.slice(0, -4)}AAAA`, body })),
  ];
  await sleep(quietMs);
  const large = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      await sleep((index * withinMs) / count);
      return post(url, { key: keys[0] ?? "", body });
    }),
  );
  running.small = false;
  await Promise.all(others);
  return [
    name,
    byStatus(large),
    seconds(large),
    `${seconds(small)} (${byStatus(small)})`,
    `${seconds(strangers)} (${byStatus(strangers)})`,
    `${megabytes(before)} → ${megabytes(readPeakMemory(pid))} MB`,
  ];
}

function post(url: string, { key, body }: { key: string; body: Buffer }): Promise<Answer> {
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const finish = (status: number) => resolve({ status, ms: performance.now() - startedAt });
    const headers = {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "content-length": String(body.byteLength),
    };
    const sent = request(url, { method: "POST", headers, agent: new Agent() }, (response) => {
      response.resume().on("end", () => finish(response.statusCode ?? 0));
    });
    sent.on("error", () => finish(0));
    sent.end(body);
  });
}

function byStatus(answers: readonly Answer[]): string {
  return [...Map.groupBy(answers, ({ status }) => status)]
    .map(([status, those]) => `${those.length} × ${status || "lost"}`)
    .join(", ");
}

function seconds(answers: readonly Answer[]): string {
  return `${(Math.max(...answers.map(({ ms }) => ms)) / 1_000).toFixed(2)} s`;
}

const megabytes = (bytes: number) => (bytes / 1_000_000).toFixed(0);

async function allowFallback(client: pg.Client): Promise<void> {
  await client.query("insert into ai.model_grants (model_id, plan_id) values ('demo-fallback', 'bench')");
  for (const table of ["ai.keys", "ai.workspace_policies"]) {
    await client.query(
      `update ${table} set allowed_models = allowed_models || '{demo-fallback}' where 'demo-chat' = any (allowed_models)`,
    );
  }
}
