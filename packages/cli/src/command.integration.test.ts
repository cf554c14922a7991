import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDeviceClient, type DeviceClient, deleteDeviceClient } from "../../../scripts/test/device-requests.ts";
import { type CommandLine, openCommandLine, signInByCommand } from "../../../scripts/test/gatehouse-command.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";

const { ai, base } = readStack();
let person: Person;
let client: DeviceClient;
let terminal: CommandLine;
let workspaceId: string;

beforeAll(async () => {
  [person, client, terminal] = await Promise.all([
    createPerson(),
    createDeviceClient({
      displayName: "Gatehouse command",
      scopes: ["profile", "workspaces:read", "studio:keys"],
    }),
    openCommandLine(),
  ]);
  const [workspace] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [
    person.id,
  ]);
  workspaceId = workspace?.id ?? "";
  await query("insert into ai.key_approvals (workspace_id) values ($1)", [workspaceId]);
});
afterAll(async () => {
  await Promise.all([deletePerson(person), terminal.remove()]);
  await deleteDeviceClient(client);
});

const fileOf = (name: string) => join(terminal.home, ".config", "gatehouse", name);
const readHome = (...path: string[]) => readFile(join(terminal.home, ...path), "utf8");

/** Approves the sign-in in a browser, as a person would. */
async function approve(address: string): Promise<void> {
  const userCode = new URL(address).searchParams.get("user_code") ?? "";
  const browser = await enter(person);
  const { status } = await browser.post("/device", { accountId: person.id, userCode, decision: "approve" });
  expect(status).toBe(303);
}

const describeKey = async (key: string) =>
  (await fetch(`${ai}/v1/key`, { headers: { Authorization: `Bearer ${key}` } })).status;

const printedKey = async (tool: string) => (await terminal.run(["token", tool])).stdout.trim();

async function revokeKeys(): Promise<void> {
  const browser = await enter(person);
  const keys = await query<{ id: string }>(
    "select id from ai.keys where workspace_id = $1 and connection_id is not null and replaced_by is null",
    [workspaceId],
  );
  for (const { id } of keys) await browser.post(`/workspaces/${workspaceId}/ai/keys`, { keyId: id });
}

describe("the gatehouse command", () => {
  test("the gatehouse command explains why a connection or sign-in fails", async () => {
    const [connect, nowhere, unknown] = await Promise.all([
      terminal.run(["connect", "claude"]),
      terminal.run(["login", "--url", "http://127.0.0.1:9"]),
      terminal.run(["login", "--url", base, "--client-id", "unregistered"]),
    ]);
    expect(connect).toEqual({
      code: 1,
      stdout: "",
      stderr: "gatehouse: You’re not signed in. Run: gatehouse login\n",
    });
    expect(nowhere.stderr).toContain("Couldn’t reach 127.0.0.1:9");
    expect(unknown.stderr).toContain("doesn’t let the client “unregistered” sign in");
  });

  test("gatehouse login signs in with a device code and keeps the tokens private", async () => {
    const { code, stdout } = await signInByCommand(terminal, { clientId: client.name, approve });
    expect(code).toBe(0);
    expect(stdout).toContain(`Signed in to ${base} as ${person.email}.`);
    expect((await stat(fileOf("login.json"))).mode & 0o777).toBe(0o600);
    expect((await stat(fileOf(""))).mode & 0o777).toBe(0o700);
    const { refreshToken } = JSON.parse(await readFile(fileOf("login.json"), "utf8"));
    expect(stdout).not.toContain(refreshToken);
  });

  test("gatehouse connects three agents, each in its own configuration file, and keeps the files' other contents", async () => {
    await mkdir(join(terminal.home, ".claude"));
    await writeFile(join(terminal.home, ".claude", "settings.json"), '{\n  "model": "opus"\n}\n');
    await mkdir(join(terminal.home, ".codex"));
    await writeFile(join(terminal.home, ".codex", "config.toml"), '# Mine\nmodel_provider = "openai"\n');
    for (const args of [["claude"], ["codex"], ["opencode", "--model", "demo-chat"]]) {
      const done = await terminal.run(["connect", ...args]);
      expect(done, args[0]).toMatchObject({ code: 0, stderr: "" });
      // Both endpoints serve demo-agent, the only model with a default output limit of its own.
      const proposal = `To choose its model, run: gatehouse connect ${args[0]} --model demo-agent`;
      expect(done.stdout.split("\n").includes(proposal)).toBe(args.length === 1);
    }
    const claude = JSON.parse(await readHome(".claude", "settings.json"));
    expect(claude).toEqual({
      model: "opus",
      apiKeyHelper: expect.stringMatching(/^'.+' '.+main\.ts' 'token' 'claude'$/),
      env: { ANTHROPIC_BASE_URL: ai, CLAUDE_CODE_API_KEY_HELPER_TTL_MS: "300000" },
    });
    const codex = await readHome(".codex", "config.toml");
    expect(codex).toContain('# Mine\nmodel_provider = "gatehouse"\n');
    expect(codex).toContain(`base_url = "${ai}/v1"\nwire_api = "responses"`);
    const opencode = JSON.parse(await readHome(".config", "opencode", "opencode.json"));
    expect(opencode).toMatchObject({
      model: "gatehouse/demo-chat",
      provider: { gatehouse: { options: { apiKey: `{file:${fileOf("opencode.key")}}` } } },
    });
    const offered = Object.keys(opencode.provider.gatehouse.models);
    expect(opencode.provider.gatehouse.models["demo-chat"]).toEqual({ limit: { context: 128_000, output: 32_768 } });
    expect(offered).not.toContain("demo-messages");
  });

  test("gatehouse changes nothing when an agent is connected again", async () => {
    const before = await readHome(".codex", "config.toml");
    expect(await terminal.run(["connect", "codex"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("config.toml is unchanged."),
    });
    expect(await readHome(".codex", "config.toml")).toBe(before);
    const [{ count } = { count: -1 }] = await query<{ count: number }>(
      "select count(*)::int as count from ai.agent_connections where workspace_id = $1",
      [workspaceId],
    );
    expect(count).toBe(3);
  });

  test("gatehouse refuses a model that the workspace does not have", async () => {
    const { code, stderr } = await terminal.run(["connect", "claude", "--model", "gpt-0"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("has no model “gpt-0” that Claude Code can use. ")]);
  });

  test("gatehouse prints a key that the gateway accepts, and stores it in a file that only the file's owner can read", async () => {
    const key = await printedKey("claude");
    expect(key).toMatch(/^ttr_ai_/);
    expect(await describeKey(key)).toBe(200);
    expect((await stat(fileOf("claude.key"))).mode & 0o777).toBe(0o600);
    expect(await printedKey("claude")).toBe(key);
    const { apiKeyHelper } = JSON.parse(await readHome(".claude", "settings.json"));
    expect(apiKeyHelper).not.toContain(key);
  });

  test("gatehouse renews a key and a sign-in that expire soon", async () => {
    const key = await printedKey("claude");
    for (const [name, field] of [
      ["connections.json", "keyExpiresAt"],
      ["login.json", "accessExpiresAt"],
    ] as const) {
      const text = await readFile(fileOf(name), "utf8");
      await writeFile(fileOf(name), text.replaceAll(new RegExp(`"${field}":\\d+`, "g"), `"${field}":1`));
    }
    const [first, second] = await Promise.all([printedKey("claude"), printedKey("claude")]);
    expect(first).toMatch(/^ttr_ai_/);
    expect(first).not.toBe(key);
    expect(second).toBe(first);
    expect([await describeKey(first), await describeKey(key)]).toEqual([200, 200]);
  });

  test("gatehouse status shows the workspace, this month's cost, the budget left, and the time until the key expires", async () => {
    await query(
      "insert into ai.budgets (scope, subject_id, workspace_id, limit_usd) values ('workspace', $1, $1, 20)",
      [workspaceId],
    );
    const { stdout } = await terminal.run(["status"]);
    expect(stdout).toContain(`as ${person.email}`);
    expect(stdout).toMatch(
      /Claude Code in .+: \$0\.00 spent this month; \$20\.00 of \$20\.00 left \(workspace budget\); key expires in 7 h \d+ min\./,
    );
  });

  test("gatehouse connect --limit opens one limit for an agent, keeps it, refuses another amount, and replaces it once its owner ended it", async () => {
    const connect = (...args: string[]) => terminal.run(["connect", "claude", ...args]);
    const amounts = ["--limit", "5", "--limit-calls", "200"];
    const page = new RegExp(`\\((http\\S+/workspaces/${workspaceId}/ai/envelopes/[0-9a-f-]{36})\\)`);
    const opened = await connect(...amounts);
    expect(opened).toMatchObject({ code: 0, stderr: "" });
    expect(opened.stdout).toMatch(
      /\nLimit: \$5\.00 of \$5\.00 left, \$0\.00 spent, calls: 0 of 200, open until \d{4}-\d\d-\d\d \(http/,
    );
    const address = page.exec(opened.stdout)?.[1] ?? "none";
    for (const same of [amounts, []]) expect((await connect(...same)).stdout).toContain(address);
    expect(await connect("--limit", "9")).toEqual({
      code: 1,
      stdout: "",
      stderr: `gatehouse: This agent already has an open task limit, which was set to $5.00 and 200 calls. Its owner can raise or stop it: ${address}\n`,
    });
    const change = (sql: string) =>
      query(`update ai.budgets set ${sql} where scope = 'envelope' and workspace_id = $1`, [workspaceId]);
    await change("spent_usd = 5, calls = 12");
    expect((await terminal.run(["status"])).stdout).toMatch(
      /\n {2}Limit: \$0\.00 of \$5\.00 left, \$5\.00 spent, calls: 12 of 200, used up until /,
    );
    expect(await connect(...amounts)).toMatchObject({
      code: 1,
      stderr: `gatehouse: This agent’s task limit of $5.00 and 200 calls is used up. Its owner can raise or stop it: ${address}\n`,
    });
    expect((await connect()).code).toBe(0);
    await change("ends_at = now() - interval '1 minute'");
    await query("update ai.envelopes set ended_at = now() where workspace_id = $1", [workspaceId]);
    expect((await terminal.run(["status"])).stdout).toContain(`, stopped (${address})`);
    const next = await connect("--limit", "7.50");
    expect(next.stdout).toContain("Limit: $7.50 of $7.50 left, $0.00 spent, calls: 0, open until ");
    expect(next.stdout).not.toContain(address);
  });

  test("after an agent's key is revoked, the gateway refuses the key and gatehouse says how to connect again", async () => {
    const key = await printedKey("claude");
    await revokeKeys();
    expect(await describeKey(key)).toBe(401);
    const { code, stdout, stderr } = await terminal.run(["token", "claude"]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toBe(
      "gatehouse: This connection was revoked in the workspace’s API keys. To connect again, run: gatehouse connect claude\n",
    );
    expect((await terminal.run(["status"])).stdout).toContain("Claude Code in");
    expect((await terminal.run(["connect", "claude"])).code).toBe(0);
    expect(await describeKey(await printedKey("claude"))).toBe(200);
  });

  test("gatehouse disconnects an agent and restores the agent's configuration file", async () => {
    const key = await printedKey("claude");
    expect(await terminal.run(["disconnect", "claude"])).toMatchObject({
      code: 0,
      stdout: "Claude Code is disconnected.\n",
    });
    expect(await readHome(".claude", "settings.json")).toBe('{\n  "model": "opus"\n}\n');
    expect((await terminal.run(["disconnect", "codex"])).code).toBe(0);
    expect(await readHome(".codex", "config.toml")).toBe('# Mine\nmodel_provider = "openai"\n');
    expect(await describeKey(key)).toBe(401);
  });

  test("gatehouse requests access if the member may not create keys, and connects the agent after approval", async () => {
    const owner = await createPerson();
    const [shared] = await query<{ id: string }>(
      "insert into public.workspaces (name, created_by) values ('Shared', $1) returning id",
      [owner.id],
    );
    const id = shared?.id ?? "";
    await query(
      `insert into public.workspace_members (workspace_id, user_id, role_id)
       select workspace_id, $2, id from public.workspace_roles where workspace_id = $1 and name = 'member'`,
      [id, person.id],
    );
    await query("insert into ai.key_approvals (workspace_id) values ($1)", [id]);
    expect((await terminal.run(["connect", "codex"])).stderr).toContain("Name the workspace with --workspace");
    const asked = await terminal.run(["connect", "codex", "--workspace", "shared"]);
    expect([asked.code, asked.stderr]).toEqual([1, expect.stringContaining("has your request")]);
    await query("update ai.agent_access set state = 'approved', answered_at = now() where workspace_id = $1", [id]);
    expect((await terminal.run(["connect", "codex", "--workspace", id])).stdout).toContain("Codex uses Shared.");
    expect(await describeKey(await printedKey("codex"))).toBe(200);
    await deletePerson(owner);
  });

  test("signing out of gatehouse revokes the keys that the sign-in created", async () => {
    const key = await printedKey("codex");
    expect((await terminal.run(["logout"])).stdout).toContain("Keys from this sign-in no longer work.");
    expect(await describeKey(key)).toBe(401);
    expect((await terminal.run(["token", "codex"])).stderr).toContain("You’re not signed in.");
  });
});
