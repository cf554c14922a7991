import { setTimeout as sleep } from "node:timers/promises";
import { type Journal, NoAnswer, watch } from "../journal.ts";
import type { Random } from "../random.ts";
import type { Tenant, World } from "../world.ts";
import { type Actor, pause, type Stage } from "./actor.ts";

/** One attempt of a request, as recorded by its client. */
export type Attempt = {
  requestId: string;
  startedAt: number;
  endedAt: number;
  status: number | null;
  /** The run's data in a complete answer; null if no complete answer arrived. */
  told: { runId: string; billedCredits: string; costUsd: string | null; usageSource: string } | null;
  left: boolean;
};

/** One request to a model, with all its attempts. */
export type Ask = {
  tenant: string;
  what: string;
  idempotencyKey: string | null;
  attempts: Attempt[];
};

/** How often each kind of request is made. */
const mix = {
  whole: 24,
  stream: 20,
  "long stream": 4,
  "stream, leaves": 10,
  "whole, leaves": 4,
  tools: 10,
  embeddings: 10,
  "lost answer": 10,
  "second route": 3,
  "no usage": 3,
  "cut short": 1,
  refused: 1,
  "small envelope": 6,
} as const;
type Kind = keyof typeof mix;

const maxAttempts = 6;
const firstRetryMs = 300;
const mostTokens = 120;

type Sent = {
  path: string;
  body: Record<string, unknown>;
  leaveAfterMs: number | null;
  asked: boolean;
  /** The task that the call belongs to, whose envelope is soon used up. */
  task?: string;
};

/** Creates a client that calls the gateway, retries as SDKs do, and sometimes disconnects. */
export function createAiCaller(
  stage: Stage,
  { name, tenant, random, asks }: { name: string; tenant: Tenant; random: Random; asks: Ask[] },
): Actor {
  async function act(): Promise<void> {
    const kind = random.weighted(mix);
    const sent = requestOf(kind, random);
    const ask: Ask = {
      tenant: tenant.name,
      what: kind,
      idempotencyKey: kind === "lost answer" || random.chance(0.7) ? `soak-${random.id()}` : null,
      attempts: [],
    };
    asks.push(ask);
    for (let tries = 0; tries < maxAttempts; tries += 1) {
      const answer = await attempt(stage, {
        name,
        tenant,
        ask,
        sent: { ...sent, leaveAfterMs: tries === 0 ? sent.leaveAfterMs : null },
        random,
      });
      const again = answer === "again" || (answer === "left" && kind === "lost answer");
      // Without an idempotency key, don't retry a request that may already have been processed.
      if (!again || (ask.idempotencyKey === null && tries > 0)) return;
      await pause(firstRetryMs * 2 ** tries, stage);
      if (stage.ended.aborted) return;
    }
  }
  return { name, random, act, pauseMs: [150, 900] };
}

function requestOf(kind: Kind, random: Random): Sent {
  const words = 4 + random.below(24);
  const pace = random.oneOf([0, 0, 10, 30]);
  const chat = (model: string, prompt: string, more: object = {}): Sent => ({
    path: "/chat/completions",
    body: { model, messages: [{ role: "user", content: prompt }], max_completion_tokens: mostTokens, ...more },
    leaveAfterMs: null,
    asked: false,
  });
  const plain = `Say something about ${random.id()}. [[words=${words} pace=${pace}]]`;
  const streamed = { stream: true, stream_options: { include_usage: random.chance(0.5) } };
  switch (kind) {
    case "whole":
      return random.chance(0.2)
        ? {
            ...chat("", ""),
            path: "/responses",
            body: { model: "demo-chat", input: plain, max_output_tokens: mostTokens },
          }
        : chat("demo-chat", plain);
    case "stream":
      return chat("demo-chat", plain, streamed);
    case "long stream":
      return chat("demo-chat", `[[words=${30 + words} pace=${60 + random.below(60)}]]`, streamed);
    case "stream, leaves":
      return { ...chat("demo-chat", "[[words=40 pace=25]]", { stream: true }), leaveAfterMs: random.between(0, 1_000) };
    case "whole, leaves":
      return { ...chat("demo-chat", "[[words=10 first=800]]"), leaveAfterMs: random.between(0, 800) };
    case "tools": {
      const sum = JSON.stringify({ expression: `${random.below(1000)}*${random.below(1000)}` });
      const platform = { max_steps: 4, tools: ["calculator"] };
      return chat("demo-chat", `Please call calculator with ${sum}`, {
        platform,
        ...(random.chance(0.4) ? { stream: true } : {}),
      });
    }
    case "embeddings":
      return { ...chat("", ""), path: "/embeddings", body: { model: "demo-embedding", input: `Text ${random.id()}` } };
    case "lost answer":
      return {
        ...chat("demo-chat", "[[words=12 pace=15]]", random.chance(0.5) ? { stream: true } : {}),
        leaveAfterMs: random.between(20, 600),
      };
    case "second route":
      return chat("demo-fallback", plain);
    case "no usage":
      return chat("demo-no-usage", plain, random.chance(0.5) ? { stream: true } : {});
    case "cut short":
      return { ...chat("demo-cut", plain, { stream: true }), asked: true };
    case "small envelope":
      // Several callers share the envelope of a task.
      return { ...chat("demo-chat", plain), asked: true, task: `task-${random.below(40)}` };
    case "refused":
      return { ...chat(random.oneOf(["demo-error-429", "demo-error-500", "demo-all-fail"]), plain), asked: true };
  }
}

/** @returns `again` if an SDK would retry */
async function attempt(
  { world, journal }: Stage & { journal: Journal; world: World },
  { name, tenant, ask, sent, random }: { name: string; tenant: Tenant; ask: Ask; sent: Sent; random: Random },
): Promise<"done" | "left" | "again"> {
  const leaving = new AbortController();
  const requestId = `soak-${random.id()}`;
  const attempt: Attempt = { requestId, startedAt: Date.now(), endedAt: 0, status: null, told: null, left: false };
  ask.attempts.push(attempt);
  const timer = sent.leaveAfterMs === null ? undefined : setTimeout(() => leaving.abort(), sent.leaveAfterMs);
  try {
    const { status, text, shouldRetry } = await watch(
      journal,
      { actor: name, what: `POST ${sent.path} (${ask.what})`, target: "ai", asked: sent.asked },
      {
        left: () => leaving.signal.aborted,
        call: async () => {
          const response = await fetch(`${world.stack.ai}/v1${sent.path}`, {
            method: "POST",
            headers: {
              authorization: `Bearer ${tenant.key}`,
              "content-type": "application/json",
              "x-request-id": requestId,
              "x-platform-operation": "soak",
              "x-platform-envelope": sent.task ? "usd=0.0002; calls=6" : "usd=1000; calls=1000000",
              ...(sent.task ? { "x-platform-entity-id": sent.task } : {}),
              ...(ask.idempotencyKey ? { "idempotency-key": ask.idempotencyKey } : {}),
            },
            body: JSON.stringify(sent.body),
            signal: leaving.signal,
          });
          attempt.status = response.status;
          return {
            status: response.status,
            text: await response.text(),
            shouldRetry: response.headers.get("x-should-retry"),
          };
        },
        seen: ({ status, text }) => ({ status: statusOf(status, text), code: errorCodeOf(text), requestId }),
      },
    );
    attempt.told = toldBy(text);
    if (status === 200) return "done";
    if (shouldRetry === "false") return "done";
    const code = errorCodeOf(text);
    const busy = status === 409 && code === "request_in_progress";
    if (status >= 400 && status < 500 && !busy && status !== 429 && code !== "idempotency_key_used" && !sent.asked) {
      journal.find(name, `${sent.path} (${ask.what}) was answered ${status} ${code}, request ${requestId}`);
    }
    return (busy || status === 503 || status === 429) && !sent.asked ? "again" : "done";
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    attempt.left = leaving.signal.aborted;
    return attempt.left ? "left" : "again";
  } finally {
    attempt.endedAt = Date.now();
    clearTimeout(timer);
    if (leaving.signal.aborted) await sleep(0);
  }
}

/** Returns 502 for a stream that begins with 200 and ends in an error. */
function statusOf(status: number, text: string): number {
  return status === 200 && /^data: \{(?:"error":|"type":"response\.failed")/m.test(text) ? 502 : status;
}

export function errorCodeOf(text: string): string | null {
  return /"error":\s*\{.*?"code":\s*"(\w+)"/s.exec(text)?.[1] ?? null;
}

/** Reads the run's data from a streamed or complete answer, with the exact digits of amounts. */
function toldBy(text: string): Attempt["told"] {
  const at = text.lastIndexOf('"platform":');
  if (at < 0) return null;
  const said = text.slice(at);
  const read = (name: string) => new RegExp(`"${name}":\\s*"?([^",}\\s]+)`).exec(said)?.[1] ?? null;
  const [runId, billedCredits, usageSource] = [read("run_id"), read("billed_credits"), read("usage_source")];
  if (!runId || !billedCredits || !usageSource) return null;
  return { runId, billedCredits, costUsd: read("provider_cost_usd"), usageSource };
}
