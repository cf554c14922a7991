import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { check, model } from "./check.mjs";

const { OPENAI_BASE_URL: baseURL, HOME: home, PATH } = process.env;
const project = mkdtempSync(path.join(home, "opencode-"));
const providers = {
  gatehouse: {
    npm: "@ai-sdk/openai-compatible",
    options: { baseURL, apiKey: "{env:OPENAI_API_KEY}" },
    models: { [model]: { limit: { context: 128_000, output: 8_192 } } },
  },
};
writeFileSync(
  path.join(project, "opencode.json"),
  JSON.stringify({ model: `gatehouse/${model}`, provider: providers }),
);
writeFileSync(path.join(project, "secret.txt"), "The secret word is heron.\n");

/**
 * Runs the command-line client in its own project. The prompt is passed on standard input, since the client would add
 * quotes to an argument.
 */
function opencode(prompt, ...args) {
  const { status, stdout, stderr } = spawnSync(
    path.resolve("node_modules/opencode-linux-x64-baseline/bin/opencode"),
    ["run", "--format", "json", "--auto", ...args],
    {
      cwd: project,
      encoding: "utf8",
      input: prompt,
      env: {
        PATH,
        HOME: home,
        OPENAI_API_KEY: process.env.OPENAI_API_KEY,
        OPENCODE_DISABLE_AUTOUPDATE: "1",
        OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
        OPENCODE_DISABLE_MODELS_FETCH: "1",
      },
    },
  );
  assert.equal(status, 0, stderr.slice(-2_000));
  const events = stdout.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line)] : []));
  const text = events.flatMap(({ type, part }) => (type === "text" ? [part.text] : [])).join("");
  return { types: events.map(({ type }) => type), text };
}

try {
  await check("stream", "answers", async () => {
    assert.match(opencode("Hello from opencode").text, /Hello from opencode/);
  });

  await check("tools", "reads a file, and continues the session", async () => {
    const filePath = path.join(project, "secret.txt");
    const first = opencode(`Please call read with ${JSON.stringify({ filePath })}`);
    assert.ok(first.types.includes("tool_use"), first.types.join());
    assert.match(first.text, /heron/);
    assert.match(opencode("And again", "--continue").text, /And again/);
  });
} finally {
  rmSync(project, { recursive: true, force: true });
}
