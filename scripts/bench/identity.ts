import { Agent, request } from "node:http";
import { availableParallelism, cpus } from "node:os";
import { createTokenVerifier } from "@gatehousehq/local-stack/services/gateway/user-tokens";
import { hash, verify } from "@node-rs/bcrypt";
import { createClient } from "@supabase/supabase-js";
import { readArguments } from "../help.ts";
import { readStack, type Stack } from "../test/stack.ts";
import { startStack } from "../test/start-stack.ts";
import { type CpuTimes, readCpuTimes } from "./cpu.ts";
import { quantile, saturate, spread, timeEach, warmUpFactor } from "./statistics.ts";

const usage = `npm run bench -- identity

Measures what limits sign-ins: the password grant against bcrypt alone, where CPU time is spent, and how long it takes
to fetch the key set and check claims. Uses the stack that GATEHOUSE_STACK names, or starts its own.`;
readArguments(usage, {});

const concurrencies = [1, 4, 16];
const rounds = 3;
const roundMs = 1_200;
const sampleSize = 500;
const bcryptCost = 10;
const password = "correct horse battery staple";

const own = process.env.GATEHOUSE_STACK
  ? undefined
  : await startStack({ GOTRUE_PASSWORD_HASH_COST: String(bcryptCost) }, { durable: true });
if (own) process.env.GATEHOUSE_STACK = own.file;
try {
  await measure(readStack());
} finally {
  await own?.stop();
}

async function measure(stack: Stack): Promise<void> {
  const identity = service(stack, "identity");
  const url = `http://127.0.0.1:${identity.port}`;
  const client = createClient(stack.supabase.url, stack.supabase.secretKey, { auth: { persistSession: false } });
  const email = `${crypto.randomUUID().slice(0, 8)}@bench.gatehouse.test`;
  const { data, error } = await client.auth.admin.createUser({ email, password, email_confirm: true });
  if (error) throw error;
  try {
    console.log(`Node ${process.versions.node}, ${availableParallelism()} × ${cpus()[0]?.model.trim()}\n`);
    const signIn = openClient(url, email);
    const pids = { identity: identity.pid, postgres: service(stack, "postgres").pid };
    await measureThroughput(() => signIn().then(() => undefined), pids);
    await measureLatencies(url, { token: await signIn(), stack, pids });
  } finally {
    await client.auth.admin.deleteUser(data.user.id);
  }
}

/** Returns a function that signs in over HTTP and returns the access token. */
function openClient(url: string, email: string): () => Promise<string> {
  return async () => {
    const response = await fetch(`${url}/token?grant_type=password`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ email, password }),
    });
    const body = (await response.json()) as { access_token?: string };
    if (!body.access_token) throw new Error(`The sign-in was answered with ${response.status}.`);
    return body.access_token;
  };
}

async function measureThroughput(signIn: () => Promise<void>, pids: Pids): Promise<void> {
  const stored = await hash(password, { cost: bcryptCost, version: "2a" });
  const check = async () => {
    if (!(await verify(password, stored))) throw new Error("bcrypt does not know its own hash.");
  };
  await saturate({ concurrency: 4, durationMs: 500, work: signIn });
  await saturate({ concurrency: 4, durationMs: 500, work: check });

  const rates = new Map(
    concurrencies.map((concurrency) => [concurrency, { bcrypt: [], signIn: [], ratio: [] } as Rates]),
  );
  const cpu = { bcryptMs: 0, checks: 0, clientMs: 0, signIns: 0, poolMs: 0, restMs: 0, postgresMs: 0 };
  for (let round = 0; round < rounds; round += 1) {
    for (const [concurrency, rate] of rates) {
      const beforeChecks = process.cpuUsage();
      const alone = await saturate({ concurrency, durationMs: roundMs, work: check });
      cpu.bcryptMs += usedMs(beforeChecks);
      cpu.checks += alone.latenciesMs.length;

      const [client, server] = [process.cpuUsage(), readCpuTimes(pids)];
      const whole = await saturate({ concurrency, durationMs: roundMs, work: signIn });
      addTimes(cpu, server, readCpuTimes(pids));
      cpu.clientMs += usedMs(client);
      cpu.signIns += whole.latenciesMs.length;

      rate.bcrypt.push(alone.perSecond);
      rate.signIn.push(whole.perSecond);
      rate.ratio.push((100 * whole.perSecond) / alone.perSecond);
    }
  }
  console.log(`Per second, median of ${rounds} rounds (lowest–highest):\n`);
  printTable(
    ["at once", "bcrypt alone", "sign-ins", "sign-ins / bcrypt, %"],
    [...rates].map(([concurrency, rate]) => [
      String(concurrency),
      spread(rate.bcrypt, 1),
      spread(rate.signIn, 1),
      spread(rate.ratio, 0),
    ]),
  );
  if (cpu.poolMs === 0) return;
  const server = cpu.poolMs + cpu.restMs;
  const each = (ms: number) => (ms / cpu.signIns).toFixed(1);
  const share = (ms: number) => `${((100 * ms) / server).toFixed(0)} %`;
  console.log("\nCPU time of a sign-in:\n");
  printTable(
    ["where", "ms", "of the server's"],
    [
      ["identity server, libuv's pool: bcrypt, and signing the token", each(cpu.poolMs), share(cpu.poolMs)],
      ["identity server, main thread and V8's own", each(cpu.restMs), share(cpu.restMs)],
      ["Postgres", each(cpu.postgresMs), ""],
      ["this program, which asks", each(cpu.clientMs), ""],
      ["for comparison: bcrypt alone", (cpu.bcryptMs / cpu.checks).toFixed(1), ""],
    ],
  );
}

type Pids = { identity: number; postgres: number };
type Rates = Record<"bcrypt" | "signIn" | "ratio", number[]>;

function addTimes(sum: CpuTimes, before: CpuTimes | undefined, after: CpuTimes | undefined): void {
  if (!before || !after) return;
  for (const key of ["poolMs", "restMs", "postgresMs"] as const) sum[key] += after[key] - before[key];
}

function usedMs(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

async function measureLatencies(
  url: string,
  { token, stack, pids }: { token: string; stack: Stack; pids: Pids },
): Promise<void> {
  const issuer = `${stack.supabase.url}/auth/v1`;
  const jwksUrl = new URL(`${url}/.well-known/jwks.json`);
  const verifyToken = createTokenVerifier({ jwksUrl, issuer, audience: "authenticated" });
  const { auth } = createClient(stack.supabase.url, stack.supabase.publishableKey, { auth: { persistSession: false } });
  const agent = new Agent({ keepAlive: true });
  const kinds: [string, () => Promise<unknown>][] = [
    ["GET /.well-known/jwks.json", () => get(jwksUrl, agent)],
    [
      "claims, by the gateway's check",
      async () => {
        if (!("claims" in (await verifyToken(token)))) throw new Error("The gateway's check refuses the token.");
      },
    ],
    [
      "claims, by supabase-js getClaims",
      async () => {
        const { error } = await auth.getClaims(token);
        if (error) throw error;
      },
    ],
  ];
  const rows: string[][] = [];
  for (const [name, work] of kinds) {
    const samples: number[][] = [];
    const [client, server] = [process.cpuUsage(), readCpuTimes(pids)];
    for (let round = 0; round < rounds; round += 1) samples.push(await timeEach(sampleSize, work));
    const cpu = { poolMs: 0, restMs: 0, postgresMs: 0 };
    addTimes(cpu, server, readCpuTimes(pids));
    const calls = rounds * sampleSize * warmUpFactor;
    rows.push([
      name,
      ...[0.5, 0.99].map((share) =>
        spread(
          samples.map((sample) => quantile(sample, share)),
          2,
        ),
      ),
      ((usedMs(client) + cpu.poolMs + cpu.restMs) / calls).toFixed(2),
    ]);
  }
  agent.destroy();
  console.log(`\nMilliseconds, of ${sampleSize} one after another, median of ${rounds} rounds (lowest–highest):\n`);
  printTable(["what", "median", "p99", "CPU time of both sides"], rows);
}

/** Sends one request on a kept-alive connection, without the overhead of fetch. */
function get(url: URL, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`${url} answered ${response.statusCode}.`));
      response.resume().once("end", resolve);
    });
    sent.once("error", reject).end();
  });
}

function service(stack: Stack, name: string) {
  const found = stack.services.find((candidate) => candidate.name === name);
  if (!found) throw new Error(`The stack runs without ${name}.`);
  return found;
}

function printTable(head: string[], rows: string[][]): void {
  const line = (cells: string[]) => `| ${cells.join(" | ")} |`;
  console.log([line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n"));
}
