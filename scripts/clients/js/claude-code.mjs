import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { check, fullWindow, model } from "./check.mjs";

const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey, PATH } = process.env;
const claude = path.resolve("node_modules/@anthropic-ai/claude-code-linux-x64/claude");
const root = mkdtempSync(path.resolve("claude-code-"));
const [home, folder] = [path.join(root, "home"), path.join(root, "work")];
for (const each of [home, folder]) mkdirSync(each);
const file = path.join(folder, "greeting.txt");

// An unreachable proxy, so that Claude Code can reach only the gateway.
const nowhere = "http://127.0.0.1:9";
const env = {
  PATH,
  HOME: home,
  ANTHROPIC_BASE_URL: baseURL.replace(/\/v1$/, ""),
  ANTHROPIC_AUTH_TOKEN: apiKey,
  ANTHROPIC_MODEL: model,
  ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  HTTP_PROXY: nowhere,
  HTTPS_PROXY: nowhere,
  NO_PROXY: "127.0.0.1,localhost",
};

async function ask(prompt, ...args) {
  return run(env, ["-p", prompt, ...args]);
}

async function run(environment, args) {
  const running = promisify(execFile)(claude, args, { cwd: folder, env: environment });
  running.child.stdin.end();
  return (await running).stdout;
}

try {
  await check("stream", "answers", async () => {
    assert.match(await ask("Hello from Claude Code"), /Hello from Claude Code/);
  });

  await check("tools", "writes and edits a file, and continues the session", async () => {
    const accept = ["--permission-mode", "acceptEdits"];
    writeFileSync(file, "hello\n");
    const change = { file_path: file, old_string: "hello", new_string: "hello Claude" };
    await ask(`Please call Edit with ${JSON.stringify(change)}`, ...accept);
    assert.equal(readFileSync(file, "utf8"), "hello Claude\n");
    const other = { file_path: path.join(folder, "other.txt"), content: "written" };
    await ask(`Please call Write with ${JSON.stringify(other)}`, ...accept);
    assert.equal(readFileSync(other.file_path, "utf8"), "written");
    assert.match(await ask("And again", "--continue"), /And again/);
  });

  await check("stream", "compacts the conversation when the context window is full, and continues it", async () => {
    await ask("Hello");
    // Claude Code compacts only a conversation of several turns.
    for (const turn of ["one", "two", "three"]) await ask(`Turn ${turn}`, "--continue");
    const events = ["--continue", "--output-format", "stream-json", "--verbose"];
    const lines = (await ask(`Hello again ${fullWindow()}`, ...events)).trim().split("\n");
    const sent = lines.map((line) => JSON.parse(line));
    assert.ok(sent.some(({ subtype }) => subtype === "compact_boundary"));
    assert.equal(sent.find(({ type }) => type === "result")?.is_error, false);
    assert.match(await ask("And again", "--continue"), /And again/);
  });

  await check("stream", "shows the limit that its session runs into, and where to raise it", async () => {
    // https://code.claude.com/docs/en/env-vars
    const limited = { ...env, ANTHROPIC_CUSTOM_HEADERS: "X-Platform-Envelope: usd=100; calls=1" };
    await run(limited, ["-p", "Hello from Claude Code"]);
    const refused = run(limited, ["-p", "And again", "--continue"]);
    await assert.rejects(refused, ({ stdout }) => /\/ai\/envelopes\/[0-9a-f-]{36}/.test(stdout));
  });
} finally {
  rmSync(root, { recursive: true, force: true });
}
