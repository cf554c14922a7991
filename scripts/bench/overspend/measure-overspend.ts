import { setTimeout as sleep } from "node:timers/promises";
import { withDatabase } from "@gatehousehq/local-stack/database";
import type pg from "pg";
import type { Stack } from "../../test/stack.ts";
import { superuserUrl } from "../../test/start-stack.ts";
import { untilSettled } from "../gateway/books.ts";
import type { ServiceProcess } from "../gateway/service-process.ts";
import { otherTarget, ourTarget } from "../gateway/targets.ts";
import { createTenants } from "../gateway/tenants.ts";
import { createLitellmKey, litellmLabel, readLitellmSpend, startLitellm } from "../peers/litellm.ts";
import { portkeyLabel, startPortkey } from "../peers/portkey.ts";
import type { Progress } from "../progress.ts";
import { markdownTable } from "../report/tables.ts";
import { startThinkingProvider } from "../upstream/thinking-provider.ts";

/** Each answer uses its whole output limit, so that a budget fits exactly 100 calls. Input is free. */
const budgetUsd = 1;
const outputTokens = 100;
const outputUsdPerToken = 0.0001;
const callUsd = outputTokens * outputUsdPerToken;

const thinkMs = 200;
const warmUpCalls = 20;
const callTimeoutMs = 240_000;
const quietMs = 2_000;
const recordTimeoutMs = 60_000;
const pollMs = 250;

/** A key with a budget of one dollar. */
type BudgetedKey = {
  headers: Record<string, string>;
  /** Returns the cost that the gateway has recorded, or undefined if it records none. */
  readRecordedUsd: (expectedUsd: number) => Promise<number | undefined>;
};
type Gateway = { label: string; url: string; openKey: () => Promise<BudgetedKey> };
type Provider = { calls: number; streamed: boolean };

/** The parallel calls of one key. */
export type OverspendRound = {
  label: string;
  streamed: boolean;
  /** The number of answers with each status; 0 stands for a lost connection. */
  answers: Readonly<Record<number, number>>;
  providerCalls: number;
  recordedUsd: number | undefined;
  ms: number;
};

/** A gateway that could not be measured. */
export type MissingGateway = { label: string; reason: string };

type Given = {
  stack: Stack;
  stackFile: string;
  client: pg.Client;
  calls: number;
  peers: boolean;
  progress: Progress;
  signal: AbortSignal;
};

/** Returns the number of steps that `measureOverspend` reports. */
export const countOverspendSteps = ({ peers }: { peers: boolean }): number => (peers ? 4 : 2) * 2;

/**
 * Sends many calls at once on a budget of one dollar, and returns a table of what the provider charged for them. With
 * `peers`, does the same with LiteLLM on a database of its own, and with Portkey.
 */
export async function measureOverspend(given: Given): Promise<string> {
  const { stack, peers, signal } = given;
  const provider: Provider = { calls: 0, streamed: false };
  const server = await startThinkingProvider(Number(new URL(stack.provider).port), () => {
    provider.calls += 1;
    const body = provider.streamed ? streamedAnswer : wholeAnswer;
    return { afterMs: thinkMs, contentType: provider.streamed ? "text/event-stream" : "application/json", body };
  });
  const rounds: OverspendRound[] = [];
  const missing: MissingGateway[] = [];
  const measure = async (gateway: Gateway) => {
    provider.streamed = false;
    const warmUp = { key: await gateway.openKey(), calls: warmUpCalls, streamed: false };
    const failed = (await send(gateway, { ...given, ...warmUp })).filter((status) => status !== 200);
    if (failed.length > 0) throw new Error(`${gateway.label} failed calls within their budget: ${failed.join(", ")}.`);
    for (const streamed of [false, true]) rounds.push(await measureRound(gateway, { ...given, provider, streamed }));
  };
  const measurePeer = async (label: string, open: () => Promise<{ process: ServiceProcess; gateway: Gateway }>) => {
    try {
      const { process, gateway } = await open();
      await measure(gateway).finally(process.stop);
    } catch (error) {
      signal.throwIfAborted();
      missing.push({ label, reason: error instanceof Error ? error.message : String(error) });
    }
  };
  try {
    for (const gateway of await openOurs(given)) await measure(gateway);
    if (peers) {
      await measurePeer(litellmLabel, () => openLitellm(given));
      await measurePeer(portkeyLabel, () => openPortkey(given));
    }
  } finally {
    server.stop();
  }
  return overspendTable(rounds, missing);
}

/** Opens our gateway, with a monthly budget for each key, and again with an envelope for each key. */
async function openOurs({ stack, client }: Given): Promise<Gateway[]> {
  const { keys } = await createTenants(client, { stack, count: 6 });
  await client.query("delete from ai.model_prices where model_id = 'demo-chat'");
  await client.query(
    `insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million)
     values ('demo-chat', 'demo', 0, $1)`,
    [outputUsdPerToken * 1_000_000],
  );
  const readSpent = async (name: string) => {
    await untilSettled(client);
    const { rows } = await client.query<{ spent: string }>(
      `select b.spent_usd as spent from ai.budgets b join public.workspaces w on w.id = b.workspace_id where w.name = $1`,
      [name],
    );
    return Number(rows[0]?.spent);
  };
  const url = ourTarget(stack, []).call.url;
  let opened = 0;
  const openKey = () => {
    opened += 1;
    const name = `Bench ${opened}`;
    const headers = { authorization: `Bearer ${keys[opened - 1]}` };
    return { name, headers, readRecordedUsd: () => readSpent(name) };
  };
  const withBudget = async () => {
    const key = openKey();
    await client.query(
      `select ai.set_budget('key', k.lineage_id, k.workspace_id, $2)
       from ai.keys k join public.workspaces w on w.id = k.workspace_id where w.name = $1`,
      [key.name, budgetUsd],
    );
    return key;
  };
  const withEnvelope = async () => {
    const key = openKey();
    return { ...key, headers: { ...key.headers, "x-platform-envelope": `usd=${budgetUsd}` } };
  };
  return [
    { label: "Gatehouse", url, openKey: withBudget },
    { label: "Gatehouse, envelope", url, openKey: withEnvelope },
  ];
}

/** Opens LiteLLM with a database next to ours, and a virtual key with `max_budget` for each round. */
async function openLitellm({ stack, stackFile, signal }: Given) {
  const database = new URL(await superuserUrl(stackFile));
  await withDatabase(database.href, (superuser) => superuser.query("create database litellm"));
  database.pathname = "/litellm";
  const process = await startLitellm(stack.provider.replace(/\/v1$/, ""), {
    signal,
    budgets: { databaseUrl: database.href, inputUsdPerToken: 0, outputUsdPerToken },
  });
  const gateway: Gateway = {
    label: litellmLabel,
    url: `${process.url}/v1/chat/completions`,
    async openKey() {
      const key = await createLitellmKey(process, { maxBudgetUsd: budgetUsd });
      return {
        headers: { authorization: `Bearer ${key}` },
        async readRecordedUsd(expectedUsd) {
          // LiteLLM writes what was spent to its database every few seconds.
          const deadline = performance.now() + recordTimeoutMs;
          for (;;) {
            const usd = await readLitellmSpend(process, key);
            if (usd >= expectedUsd - callUsd / 2 || performance.now() > deadline) return usd;
            await sleep(pollMs);
          }
        },
      };
    },
  };
  return { process, gateway };
}

/** Opens Portkey's gateway. Budgets are a feature of its hosted platform and are not part of the gateway itself. */
async function openPortkey({ stack, signal }: Given) {
  const process = await startPortkey(signal);
  const { call } = otherTarget("portkey", { ...process, upstream: stack.provider.replace(/\/v1$/, "") });
  const headers = { ...call.headers, authorization: call.authorizations[0] ?? "" };
  const gateway: Gateway = {
    label: `${portkeyLabel} (no budgets without its hosted platform)`,
    url: call.url,
    openKey: async () => ({ headers, readRecordedUsd: async () => undefined }),
  };
  return { process, gateway };
}

async function measureRound(
  gateway: Gateway,
  options: Given & { provider: Provider; streamed: boolean },
): Promise<OverspendRound> {
  const { provider, streamed, calls, progress } = options;
  progress.begin(`overspend: ${gateway.label}${streamed ? ", streamed" : ""}`);
  const key = await gateway.openKey();
  provider.streamed = streamed;
  provider.calls = 0;
  const startedAt = performance.now();
  const statuses = await send(gateway, { ...options, key, calls });
  const ms = performance.now() - startedAt;
  for (let before = -1; before !== provider.calls; ) {
    before = provider.calls;
    await sleep(quietMs);
  }
  const answers: Record<number, number> = {};
  for (const status of statuses) answers[status] = (answers[status] ?? 0) + 1;
  const providerCalls = provider.calls;
  const recordedUsd = await key.readRecordedUsd(providerCalls * callUsd);
  return { label: gateway.label, streamed, answers, providerCalls, recordedUsd, ms };
}

/** Sends calls at once, each on its own connection. Returns their statuses; 0 stands for a lost connection. */
function send(
  { url }: Gateway,
  { key, calls, streamed, signal }: { key: BudgetedKey; calls: number; streamed: boolean; signal: AbortSignal },
): Promise<number[]> {
  const body = JSON.stringify({
    model: "demo-chat",
    messages: [{ role: "user", content: "What does a gatehouse guard?" }],
    max_tokens: outputTokens,
    ...(streamed ? { stream: true, stream_options: { include_usage: true } } : {}),
  });
  const headers = { ...key.headers, "content-type": "application/json" };
  const call = async () => {
    try {
      const timeout = AbortSignal.any([signal, AbortSignal.timeout(callTimeoutMs)]);
      const response = await fetch(url, { method: "POST", headers, body, signal: timeout });
      await response.arrayBuffer();
      return response.status;
    } catch {
      signal.throwIfAborted();
      return 0;
    }
  };
  return Promise.all(Array.from({ length: calls }, call));
}

const usage = { prompt_tokens: 31, completion_tokens: outputTokens, total_tokens: 31 + outputTokens };
const named = { id: "chatcmpl-bench", created: 1_767_225_600, model: "demo-chat" };
const message = { role: "assistant", content: "It guards the way in." };

const wholeAnswer = JSON.stringify({
  ...named,
  object: "chat.completion",
  choices: [{ index: 0, message, finish_reason: "stop" }],
  usage,
});

const streamedAnswer = [
  { choices: [{ index: 0, delta: message, finish_reason: null }] },
  { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
  { choices: [], usage },
]
  .map((chunk) => `data: ${JSON.stringify({ ...named, object: "chat.completion.chunk", ...chunk })}\n\n`)
  .concat("data: [DONE]\n\n")
  .join("");

/** Returns the table of the rounds, and a sentence about each gateway that could not be measured. */
export function overspendTable(rounds: readonly OverspendRound[], missing: readonly MissingGateway[]): string {
  const head = ["gateway", "calls", "admitted", "refused", "provider cost", "overspend", "recorded", "time"];
  const lines = rounds.map(({ label, streamed, answers, providerCalls, recordedUsd, ms }) => {
    const { 200: admitted = 0, ...others } = answers;
    const refused = Object.entries(others).map(([status, count]) => `${count} × ${Number(status) || "lost"}`);
    const calls = Object.values(answers).reduce((sum, count) => sum + count, 0);
    return [
      label,
      `${count(calls)}${streamed ? ", streamed" : ""}`,
      count(admitted),
      refused.join(", ") || "0",
      dollars(providerCalls * callUsd),
      dollars(providerCalls * callUsd - budgetUsd),
      recordedUsd === undefined ? "—" : dollars(recordedUsd),
      `${(ms / 1_000).toFixed(1)} s`,
    ];
  });
  const names = missing.map(({ label }) => [label, ...head.slice(1).map(() => "—")]);
  const reasons = missing.map(({ label, reason }) => `${label} is left out: ${reason.slice(0, 500)}`);
  return [markdownTable(head, [...lines, ...names]), ...reasons].join("\n\n");
}

const count = (value: number): string => value.toLocaleString("en");
const dollars = (usd: number): string => `${usd < -0.000_5 ? "−" : ""}$${Math.abs(usd).toFixed(2)}`;
