import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GatewayProcess, startGatewayProcess } from "../../../tests/gateway/gateway-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import {
  answerWell,
  hang,
  type ScriptedProvider,
  startScriptedProvider,
} from "../../../tests/gateway/scripted-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

const processes = 3;
const callsEach = 6;
/** The number of timeouts in a row after which a route is set aside. */
const waitsEach = 3;
/** The time limit for a stream's first byte in this test, and the length of the first cooldown. */
const firstByteMs = 1_000;
const cooldownMs = 30_000;

let tenant: GatewayTenant;
let hanging: ScriptedProvider;
let working: ScriptedProvider;
let model: string;
const servers: GatewayProcess[] = [];

beforeAll(async () => {
  [tenant, hanging, working] = await Promise.all([
    createGatewayTenant(),
    startScriptedProvider(hang),
    startScriptedProvider(answerWell),
  ]);
  model = await createPricedModel(tenant, { providers: ["hanging", "working"] });
  servers.push(...(await Promise.all(Array.from({ length: processes }, startFunctions))));
});
afterAll(async () => {
  for (const server of servers) await server.stop();
  hanging.close();
  working.close();
  await tenant.close();
});

/** Starts the functions in a separate process, since hosted Supabase runs several isolates. */
const startFunctions = () =>
  startGatewayProcess({
    AI_PROVIDER_HANGING_BASE_URL: hanging.url,
    AI_PROVIDER_HANGING_FIRST_BYTE_SECONDS: String(firstByteMs / 1_000),
    AI_PROVIDER_WORKING_BASE_URL: working.url,
  });

/**
 * Sends calls to one gateway process, one after the other.
 * @returns the latency of each call in milliseconds
 */
async function callInTurn({ url }: { url: string }, calls: number): Promise<number[]> {
  const client = new OpenAI({ baseURL: `${url}/functions/v1`, apiKey: tenant.key, maxRetries: 0 });
  const latencies: number[] = [];
  for (let n = 0; n < calls; n++) {
    const startedAt = performance.now();
    const stream = await client.chat.completions.create({
      model,
      stream: true,
      messages: [{ role: "user", content: "hello" }],
    });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe("hi");
    latencies.push(performance.now() - startedAt);
  }
  return latencies;
}

test("in each process, three calls wait for a hanging route, and later one call detects that the route has recovered", async () => {
  const latencies = await Promise.all(servers.map((server) => callInTurn(server, callsEach)));
  const waits = processes * waitsEach;
  expect(hanging.calls).toBe(waits);
  expect(latencies.flat().filter((ms) => ms >= firstByteMs)).toHaveLength(waits);
  expect(working.calls).toBe(processes * callsEach);

  hanging.script = answerWell;
  await sleep(cooldownMs + firstByteMs);
  await Promise.all(servers.map((server) => callInTurn(server, 2)));
  expect(hanging.calls).toBe(waits + processes * 2);
  expect(working.calls).toBe(processes * callsEach);
}, 60_000);
