import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { freePort } from "@gatehousehq/local-stack/ports";
import { type DenoPackage, functionsCommand } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import { generateText, streamText } from "ai";
import OpenAI from "openai";
import { createPricedModel } from "../../../supabase/tests/gateway/priced-model.ts";
import { answerText, startSilentProvider, usage } from "../../../supabase/tests/gateway/silent-provider.ts";
import { openPool } from "../../../supabase/tests/pools.ts";
import { readStackFile } from "../../test/stack.ts";
import { startStack } from "../../test/start-stack.ts";
import { clients } from "../clients.ts";
import { install } from "../install.ts";

const help = `npm test -- silence [--stream SECONDS] [--whole SECONDS]

Runs clients with their default settings against a provider that is silent before the first token and again in the
middle of a stream (300 s each), and before a whole answer (480 s), behind HAProxy (the program haproxy) without an idle
limit, and with one of 60 s. Checks their answers and the charges, and that the provider's other models answer meanwhile.`;
const { values } = parseArgs({
  options: {
    stream: { type: "string", default: "300" },
    whole: { type: "string", default: "480" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(help);
  process.exit(0);
}

const provider = await startSilentProvider({
  streamMs: Number(values.stream) * 1_000,
  wholeMs: Number(values.whole) * 1_000,
});
const stack = await startStack({}, { without: ["web"] });
const { aiKey: apiKey, workspaceId, supabase, gatewayDbUrl } = readStackFile(stack.file);
const { db, close } = openPool(2, supabase.dbUrl);
const running: ChildProcess[] = [];

/** Starts the functions with the silent provider. The stack's own functions have only the demo provider. */
async function startFunctions(): Promise<string> {
  const port = await freePort();
  const { command, args } = functionsCommand(process.cwd(), {
    deno: process.env.LOCAL_DENO as DenoPackage | undefined,
    loop: process.env.LOCAL_RESPONSE_LOOP,
  });
  const child = spawn(command, args, {
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      HOST: "127.0.0.1",
      PORT: String(port),
      SUPABASE_URL: supabase.url,
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      SUPABASE_SECRET_KEY: supabase.secretKey,
      GATEWAY_DB_URL: gatewayDbUrl,
      AI_PROVIDER_SILENT_KIND: "openai",
      AI_PROVIDER_SILENT_BASE_URL: provider.url,
      AI_PROVIDER_SILENT_API_KEY: "k",
      AI_PROVIDER_SILENT_MESSAGES_KIND: "anthropic",
      AI_PROVIDER_SILENT_MESSAGES_BASE_URL: provider.url,
      AI_PROVIDER_SILENT_MESSAGES_API_KEY: "k",
    },
  });
  running.push(child);
  for (let tries = 0; ; tries++) {
    try {
      await fetch(`http://127.0.0.1:${port}/healthz`);
      return `127.0.0.1:${port}`;
    } catch (error) {
      if (tries > 100) throw error;
      await sleep(500);
    }
  }
}

/**
 * Starts HAProxy in front of the functions, below `/v1`, where Supabase serves them.
 * @returns the addresses of a balancer without an idle limit, and of one that closes connections idle for 60 s
 */
async function startBalancers(origin: string): Promise<{ patient: string; impatient: string }> {
  const [patient, impatient] = [await freePort(), await freePort()];
  const file = path.join(mkdtempSync(path.join(tmpdir(), "silence-")), "haproxy.cfg");
  const balancer = (name: string, { port, timeout }: { port: number; timeout: string }) => `
listen ${name}
  bind 127.0.0.1:${port}
  timeout client ${timeout}
  timeout server ${timeout}
  http-request replace-path /v1/(.*) /functions/v1/\\1
  server functions ${origin}
`;
  writeFileSync(
    file,
    `defaults
  mode http
  timeout connect 5s
${balancer("patient", { port: patient, timeout: "2h" })}${balancer("impatient", { port: impatient, timeout: "60s" })}`,
  );
  const child = spawn("haproxy", ["-db", "-f", file], { stdio: "inherit" });
  running.push(child);
  await once(child, "spawn");
  const urlOf = (port: number) => `http://127.0.0.1:${port}/v1`;
  return { patient: urlOf(patient), impatient: urlOf(impatient) };
}

type Connection = { baseURL: string; apiKey: string; slow: string; slowMessages: string };
type Client = { name: string; run: (connection: Connection) => Promise<unknown> };

const content = "Say hello.";
const messages = [{ role: "user" as const, content }];
const openai = ({ baseURL, apiKey }: Connection) => new OpenAI({ baseURL, apiKey });
const anthropic = ({ baseURL, apiKey }: Connection) => new Anthropic({ baseURL: baseURL.slice(0, -3), apiKey });
const compatible = ({ baseURL, apiKey, slow }: Connection) =>
  createOpenAICompatible({ name: "gatehouse", baseURL, apiKey, includeUsage: true })(slow);

/** Runs a program until it ends. @returns its output */
async function runProgram(
  { command, args, cwd }: { command: string; args: string[]; cwd: string },
  env: Record<string, string>,
): Promise<string> {
  const home = mkdtempSync(path.join(tmpdir(), "silence-"));
  const nowhere = "http://127.0.0.1:9";
  const proxies = { HTTP_PROXY: nowhere, HTTPS_PROXY: nowhere, NO_PROXY: "127.0.0.1,localhost" };
  const { PATH, NODE_ENV } = process.env;
  const child = spawn(command, args, {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH, NODE_ENV, HOME: home, CODEX_HOME: home, ...proxies, ...env },
  });
  running.push(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes: Buffer) => (output += bytes));
  await once(child, "close");
  return output;
}

function installed(name: string) {
  const client = clients.find((each) => each.name === name);
  if (!client) throw new Error(`There is no client ${name}.`);
  return install(client, { newest: false });
}

const python = `
import os
from openai import OpenAI
client = OpenAI()
messages = [{"role": "user", "content": "${content}"}]
stream = client.chat.completions.create(model=os.environ["MODEL"], messages=messages, stream=True)
print("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
with client.responses.stream(model=os.environ["MODEL"], input="${content}") as stream:
    stream.until_done()
    print(stream.get_final_response().output_text)
`;
const pythonWhole = `
import os
from openai import OpenAI
messages = [{"role": "user", "content": "${content}"}]
print(OpenAI().chat.completions.create(model=os.environ["MODEL"], messages=messages).choices[0].message.content)
`;

function codexArguments({ baseURL, slow }: Connection): string[] {
  const settings = {
    model: slow,
    model_provider: "gatehouse",
    "model_providers.gatehouse.name": "Gatehouse",
    "model_providers.gatehouse.base_url": baseURL,
    "model_providers.gatehouse.env_key": "OPENAI_API_KEY",
    "model_providers.gatehouse.wire_api": "responses",
  };
  const config = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${JSON.stringify(value)}`]);
  return ["exec", "--skip-git-repo-check", "--sandbox", "read-only", ...config, content];
}

const pythonOpenai = installed("openai-python");
const codex = installed("codex");
const claude = installed("claude-code");
const pythonEnv = ({ baseURL, apiKey, slow }: Connection) => ({
  OPENAI_BASE_URL: baseURL,
  OPENAI_API_KEY: apiKey,
  MODEL: slow,
});

const silentClients: Client[] = [
  {
    name: "openai for JavaScript, chat",
    run: async (to) => (await openai(to).chat.completions.stream({ model: to.slow, messages }).finalContent()) ?? "",
  },
  {
    name: "openai for JavaScript, responses",
    run: async (to) =>
      (await openai(to).responses.stream({ model: to.slow, input: content }).finalResponse()).output_text,
  },
  {
    name: "openai for JavaScript, whole",
    run: async (to) =>
      (await openai(to).chat.completions.create({ model: to.slow, messages })).choices[0]?.message.content,
  },
  {
    name: "openai for JavaScript, whole response",
    run: async (to) => (await openai(to).responses.create({ model: to.slow, input: content })).output_text,
  },
  {
    name: "@anthropic-ai/sdk, stream",
    run: (to) => anthropic(to).messages.stream({ model: to.slowMessages, max_tokens: 100, messages }).finalText(),
  },
  { name: "AI SDK, stream", run: async (to) => streamText({ model: compatible(to), prompt: content }).text },
  {
    name: "AI SDK, whole",
    run: async (to) => (await generateText({ model: compatible(to), prompt: content })).text,
  },
  {
    name: "openai for Python, chat and responses",
    run: (to) => runProgram({ ...pythonOpenai, args: ["-c", python] }, pythonEnv(to)),
  },
  {
    name: "openai for Python, whole",
    run: (to) => runProgram({ ...pythonOpenai, args: ["-c", pythonWhole] }, pythonEnv(to)),
  },
  {
    name: "Codex",
    run(to) {
      const folder = mkdtempSync(path.join(tmpdir(), "silence-"));
      const command = path.join(codex.cwd, "node_modules/.bin/codex");
      return runProgram({ command, args: codexArguments(to), cwd: folder }, { OPENAI_API_KEY: to.apiKey });
    },
  },
  {
    name: "Claude Code",
    run(to) {
      const folder = mkdtempSync(path.join(tmpdir(), "silence-"));
      const command = path.join(claude.cwd, "node_modules/@anthropic-ai/claude-code-linux-x64/claude");
      return runProgram(
        { command, args: ["-p", content], cwd: folder },
        {
          ANTHROPIC_BASE_URL: to.baseURL.slice(0, -3),
          ANTHROPIC_AUTH_TOKEN: to.apiKey,
          ANTHROPIC_MODEL: to.slowMessages,
          ANTHROPIC_DEFAULT_HAIKU_MODEL: to.slowMessages,
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        },
      );
    },
  },
];

let failures = 0;
function report(name: string, ok: boolean, detail: string): void {
  if (!ok) failures += 1;
  console.log(`${ok ? "passed" : "FAILED"}  ${name}${detail && `: ${detail}`}`);
}

const tenant = { db, workspaceId };
try {
  mkdirSync(".local/clients", { recursive: true });
  const slow = await createPricedModel(tenant, { providers: ["silent"], upstream: "slow" });
  const slowMessages = await createPricedModel(tenant, { providers: ["silent_messages"], upstream: "slow" });
  const quick = await createPricedModel(tenant, { providers: ["silent"], upstream: "quick" });
  const { patient, impatient } = await startBalancers(await startFunctions());
  const startedAt = Date.now();
  const calls = [patient, impatient].flatMap((baseURL) =>
    silentClients.map(async ({ name, run }) => {
      const full = `${name}, ${baseURL === impatient ? "idle limit of 60 s" : "no idle limit"}`;
      const said = await run({ baseURL, apiKey, slow, slowMessages }).catch((error) => `${error}`);
      const seconds = Math.round((Date.now() - startedAt) / 1_000);
      const ok = String(said).includes(answerText);
      report(full, ok, `${seconds} s${ok ? "" : `, ${String(said).trim().slice(-500)}`}`);
    }),
  );
  let quickCalls = 0;
  const others = setInterval(async () => {
    const to = { baseURL: patient, apiKey, slow: quick, slowMessages };
    const answer = await openai(to)
      .chat.completions.create({ model: quick, messages })
      .catch(() => undefined);
    quickCalls += Number(answer?.choices[0]?.message.content === answerText);
  }, 5_000);
  await Promise.all(calls);
  clearInterval(others);
  const expected = Math.floor((Date.now() - startedAt) / 5_000);
  report("other calls of the same provider", quickCalls >= expected - 1, `${quickCalls} of ${expected} answered`);
  const rows = await db.query(
    `select status, usage_source, input_tokens, output_tokens, count(*)::integer as runs, round(max(latency_ms) / 1000.0) as seconds
     from ai.runs where workspace_id = $1 and model_id = any ($2) group by 1, 2, 3, 4 order by 1`,
    [workspaceId, [slow, slowMessages, quick]],
  );
  console.table(rows);
  const exact = rows.every(
    (row) =>
      row.status === "succeeded" &&
      row.input_tokens === String(usage.input) &&
      row.output_tokens === String(usage.output),
  );
  report("every run is charged what the provider states", exact, "");
  const [books] = await db.query(
    `select (select sum(r.billed_credits) from ai.runs r where r.workspace_id = $1)
       + coalesce((select sum(l.amount) from ai.credit_ledger l join ai.runs r on r.id = l.run_id where r.workspace_id = $1), 0) as difference,
       (select a.reserved from ai.credit_accounts a where a.workspace_id = $1) as reserved`,
    [workspaceId],
  );
  report("runs and ledger agree", Number(books?.difference) === 0 && Number(books?.reserved) === 0, "");
} finally {
  for (const child of running) child.kill();
  provider.close();
  await close();
  await stack.stop();
}
process.exitCode = failures === 0 ? 0 : 1;
