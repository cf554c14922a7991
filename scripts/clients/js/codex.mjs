import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { check, fullWindow, model } from "./check.mjs";

const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey, PATH } = process.env;
const codex = path.resolve("node_modules/.bin/codex");
const root = mkdtempSync(path.resolve("codex-"));
const sandboxed = ["--sandbox", "workspace-write"];
const bypassed = ["--dangerously-bypass-approvals-and-sandbox"];

/**
 * Creates a Codex session with a new home and working directory. Its proxy settings leave only this machine reachable,
 * where the gateway runs.
 */
function createSession(name, settings = {}) {
  const home = path.join(root, name, "home");
  const folder = path.join(root, name, "work");
  mkdirSync(home, { recursive: true });
  mkdirSync(folder);
  const file = path.join(folder, "greeting.txt");
  writeFileSync(file, "hello\n");
  const nowhere = "http://127.0.0.1:9";
  const proxies = { HTTP_PROXY: nowhere, HTTPS_PROXY: nowhere, NO_PROXY: "127.0.0.1,localhost" };
  const env = { PATH, HOME: home, CODEX_HOME: home, GATEHOUSE_KEY: apiKey, ...proxies };
  const provider = { name: "Gatehouse", base_url: baseURL, env_key: "GATEHOUSE_KEY", wire_api: "responses" };
  const all = { model, model_provider: "gatehouse", check_for_update_on_startup: false, ...settings };
  const toml = (values) => Object.entries(values).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`);
  const config = [...toml(all), "[model_providers.gatehouse]\n", ...toml(provider)].join("");
  writeFileSync(path.join(home, "config.toml"), config);

  async function exec(prompt, { resume = false, access }) {
    const args = ["exec", ...access, "--skip-git-repo-check", ...(resume ? ["resume", "--last"] : []), prompt];
    const running = promisify(execFile)(codex, args, { cwd: folder, env });
    running.child.stdin.end();
    return (await running).stdout;
  }

  return {
    read: () => readFileSync(file, "utf8"),
    /**
     * Lets Codex edit the file in its sandbox. If the file did not change, tries again without the sandbox, because
     * Codex cannot run commands in its sandbox on a kernel without sandbox support.
     */
    async edit(prompt, changed) {
      for (const access of [sandboxed, bypassed]) {
        const answer = await exec(prompt, { access });
        if (changed(readFileSync(file, "utf8"))) return { answer, access };
      }
      throw new Error(`The file is as it was: ${readFileSync(file, "utf8")}`);
    },
    exec,
    /** Returns what Codex recorded of its sessions. */
    recorded() {
      const sessions = path.join(home, "sessions");
      const files = readdirSync(sessions, { recursive: true }).filter((name) => name.endsWith(".jsonl"));
      return files.map((name) => readFileSync(path.join(sessions, name), "utf8")).join("");
    },
  };
}

await check("stream", "answers", async () => {
  const answer = await createSession("answer").exec("Hello from Codex", { access: sandboxed });
  assert.match(answer, /Hello from Codex/);
});

await check("structured", "answers by a schema", async () => {
  const schema = path.join(root, "schema.json");
  const properties = { name: { type: "string" }, age: { type: "integer" } };
  const person = { type: "object", properties, required: ["name", "age"], additionalProperties: false };
  writeFileSync(schema, JSON.stringify(person));
  const access = [...sandboxed, "--output-schema", schema];
  const answer = await createSession("schema").exec("Jason is 25 years old.", { access });
  assert.ok(Number.isInteger(JSON.parse(answer).age));
});

const greets = (name) => (text) => text === `hello ${name}\n`;

/**
 * Writes a model catalog for Codex: the description of Codex's default model under the name of the gateway's model.
 * @returns the setting that selects the catalog
 */
function defaultModelCatalog() {
  const home = path.join(root, "catalog");
  mkdirSync(home);
  const listed = execFileSync(codex, ["debug", "models"], {
    env: { PATH, HOME: home, CODEX_HOME: home },
    stdio: "pipe",
  });
  const [first] = JSON.parse(listed).models;
  const file = path.join(home, "models.json");
  writeFileSync(file, JSON.stringify({ models: [{ ...first, slug: model }] }));
  return { model_catalog_json: file };
}

await check("tools", "edits a file by a command", async () => {
  const { edit } = createSession("plain");
  const { answer } = await edit(
    'Please call exec_command with {"cmd":"echo hello command > greeting.txt"}',
    greets("command"),
  );
  assert.match(answer, /The tool answered/);
});

await check(
  "tools",
  "edits a file with the features of its default model, and continues the conversation",
  async () => {
    const session = createSession("default", defaultModelCatalog());
    const patch = "*** Begin Patch\n*** Update File: greeting.txt\n@@\n-hello\n+hello patch\n*** End Patch";
    const script = `text(await tools.apply_patch(${JSON.stringify(patch)}));`;
    const { access } = await session.edit(`Please call exec with ${script}`, greets("patch"));
    const answer = await session.exec("And again", { resume: true, access });
    assert.match(answer, /And again/);
  },
);

await check("stream", "compacts the conversation when the context window is full, and continues it", async () => {
  const session = createSession("full");
  const [access, next] = [sandboxed, { access: sandboxed, resume: true }];
  await session.exec("Hello from Codex", { access });
  // Codex fails this turn, and compacts the conversation before the next one.
  await assert.rejects(
    session.exec(`Hello again ${fullWindow()}`, next),
    /ran out of room in the model's context window/,
  );
  assert.doesNotMatch(session.recorded(), /"type":"compacted"/);
  assert.match(await session.exec("And again", next), /And again/);
  assert.match(session.recorded(), /"type":"compacted"/);
});

await check("stream", "shows the limit that its session runs into, and where to raise it", async () => {
  const session = createSession("limited");
  // https://developers.openai.com/codex/config-reference: http_headers of a model provider.
  const headers = 'model_providers.gatehouse.http_headers={X-Platform-Envelope="usd=100; calls=1"}';
  const access = [...sandboxed, "-c", headers];
  assert.match(await session.exec("Hello from Codex", { access }), /Hello from Codex/);
  await assert.rejects(session.exec("And again", { access, resume: true }), /\/ai\/envelopes\/[0-9a-f-]{36}/);
});

rmSync(root, { recursive: true, force: true });
