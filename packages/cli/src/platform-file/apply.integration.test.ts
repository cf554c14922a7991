import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { openPlainTab } from "../../../../remix-app/testing/plain-tab.ts";
import { type ConsoleAdmin, createConsoleAdmin } from "../../../../scripts/test/console-admin.ts";
import { type CommandLine, openCommandLine } from "../../../../scripts/test/gatehouse-command.ts";
import { createPerson, deletePerson, type Person, query } from "../../../../scripts/test/people.ts";
import { createServiceAccount, type TestServiceAccount } from "../../../../scripts/test/service-accounts.ts";
import { readStack } from "../../../../scripts/test/stack.ts";
import { readServiceAccount } from "../service-account.ts";
import { AdminApi } from "./admin-api.ts";
import { applySteps } from "./apply.ts";
import { comparePlatforms } from "./compare.ts";
import { type Platform, platformSchema } from "./schema.ts";

const { base } = readStack();
const id = crypto.randomUUID().slice(0, 8);
/** What is built by clicking, and what by a file: equal except for their names. */
const [clicked, filed] = [`c${id}`, `f${id}`];
/** What is built by runs that lose each answer. */
const lossy = `l${id}`;
const names = [clicked, filed, lossy];
let admin: ConsoleAdmin;
let owner: Person;
let account: TestServiceAccount;
let terminal: CommandLine;
let workspaces: { clicked: string; filed: string };

const scopes = ["catalogue", "apps", "workspaces"].flatMap((name) => [`admin:${name}:read`, `admin:${name}:write`]);

beforeAll(async () => {
  [admin, owner, account, terminal] = await Promise.all([
    createConsoleAdmin(),
    createPerson(),
    createServiceAccount({ scopes }),
    openCommandLine(),
  ]);
  const [first, second] = await query<{ id: string }>(
    "insert into public.workspaces (name, created_by) select 'Built', $1 from generate_series(1, 2) returning id",
    [owner.id],
  );
  workspaces = { clicked: first?.id ?? "", filed: second?.id ?? "" };
});
afterAll(async () => {
  await query("update ai.models set enabled = false where id = any($1)", [names]);
  await query("delete from ai.model_prices where model_id = any($1)", [names]);
  await query("delete from ai.models where id = any($1)", [names]);
  await query("delete from private.apps where name = any($1)", [names]);
  await query("delete from public.workspaces where id = any($1)", [Object.values(workspaces)]);
  await query("delete from ai.plans where id = any($1)", [names]);
  await Promise.all([deletePerson(admin), deletePerson(owner), terminal.remove()]);
});

/** Runs the command as the service account. */
const run = (args: string[], { clientId, secret } = account) =>
  terminal.run(args, {
    environment: { GATEHOUSE_URL: base, GATEHOUSE_CLIENT_ID: clientId, GATEHOUSE_CLIENT_SECRET: secret },
  });

const reason = "Built by clicking";
const file = () => join(terminal.home, "platform.yaml");
const contents = {
  apiVersion: "gatehouse/v1",
  plans: [{ id: filed, name: "Built", payer: "workspace", markup: "1.25", requestsPerMinute: 60 }],
  models: [
    {
      ...{ id: filed, kind: "chat", displayName: "Built", ownedBy: "test" },
      routes: [{ providerId: "demo", providerModel: "demo-chat" }],
      prices: [{ providerId: "demo", inputUsd: "3", outputUsd: "15" }],
      grants: { plans: [filed] },
    },
  ],
  apps: [{ name: filed, displayName: "Built", kind: "internal", scopes: ["profile"] }],
};

async function post(path: string, fields: Record<string, string>): Promise<void> {
  const { status, words } = await admin.browser.post(path, { reason, ...fields });
  if (status !== 303 && status !== 200) throw new Error(`${path}: ${status} ${words}`);
}

async function buildByClicking(): Promise<void> {
  const limits = { requestsPerMinute: "60", tokensPerMinute: "" };
  const credits = { initialCredits: "0", lowCredits: "" };
  const plan = { plan: clicked, name: "Built", payer: "workspace", markup: "1.25" };
  await post("/admin/plans/new", { ...plan, ...credits, ...limits });
  const tab = openPlainTab(base, admin.browser);
  await tab.open("/admin/models/new");
  tab.fill("ID", clicked);
  tab.fill("Name", "Built");
  tab.fill("Owned by", "test");
  tab.fill("Provider of route 1", "demo");
  tab.fill("Provider’s model name of route 1", "demo-chat");
  await tab.press("Test");
  tab.fill("Input price of demo", "3.00");
  tab.fill("Output price of demo", "15");
  tab.check(new RegExp(`\\(${clicked}\\): `));
  tab.check("Enable model");
  tab.fill("Reason", reason);
  await tab.press("Add model");
  expect(tab.words()).toContain("Changes saved.");
  await post("/admin/apps/new", { name: clicked, kind: "internal", displayName: "Built", scopeProfile: "on" });
  await post(`/admin/workspaces/${workspaces.clicked}/plan`, { seen: "free", plan: clicked });
}

/** Returns what an export has of one of the two as text, with the same names for both. */
async function exportOf(name: string, workspaceId: string): Promise<string> {
  const { code, stdout, stderr } = await run(["export"]);
  // Other tests write values that a file cannot state.
  if (code !== 0) expect(stderr).toContain("complete except for");
  const exported = parse(stdout) as Record<string, { id?: string; name?: string }[]>;
  const own = Object.fromEntries(
    Object.entries(exported).map(([list, items]) => [
      list,
      Array.isArray(items) ? items.filter((item) => [name, workspaceId].includes(item.id ?? item.name ?? "")) : items,
    ]),
  );
  return stringify(own).replaceAll(name, "built").replaceAll(workspaceId, "workspace");
}

test("a platform that is built from a file has the same export as one that is built by clicking", async () => {
  await writeFile(file(), stringify({ ...contents, workspaces: [{ id: workspaces.filed, planId: filed }] }));
  const plan = await run(["plan", "-f", file()]);
  expect(plan).toMatchObject({ code: 2, stderr: "", stdout: expect.stringContaining(`+ model ${filed}, route demo`) });
  const applied = await run(["apply", "-f", file(), "--yes", "--reason", "Built from a file"]);
  expect(applied).toMatchObject({ code: 0, stderr: "" });
  expect(applied.stdout).toContain(`+ app ${filed}: done`);
  await buildByClicking();
  const built = await exportOf(filed, workspaces.filed);
  expect(built).toBe(await exportOf(clicked, workspaces.clicked));
  expect(parse(built)).toMatchObject({ models: [{ prices: [{ inputUsd: "3" }], grants: { plans: ["built"] } }] });
});

test("a plan after apply is empty", async () => {
  const plan = await run(["plan", "-f", file()]);
  expect(plan).toMatchObject({ code: 0, stdout: expect.stringMatching(/^No differences\.$/m) });
  expect(await run(["drift", "-f", file()])).toMatchObject({ code: 0 });
});

test("a price that was changed by hand shows as drift with who changed it, and apply restores it", async () => {
  const page = `/admin/models/price?${new URLSearchParams({ model: filed, provider: "demo", tier: "0" })}`;
  const { text } = await admin.browser.get(page);
  const seenOn = (name: string) => new RegExp(`name="${name}" value="(\\d*)"`).exec(text)?.[1] ?? "";
  const empty = ["from", "serviceTier", "cachedInputUsd", "cacheWriteUsd", "cacheWrite1hUsd", "audioInputUsd"];
  await post(page, {
    ...Object.fromEntries([...empty, "audioOutputUsd", "imageInputUsd", "requestFeeUsd"].map((name) => [name, ""])),
    ...{ latest: seenOn("latest"), seen: seenOn("seen"), inputUsd: "3.5", outputUsd: "15" },
  });
  const drift = await run(["drift", "-f", file()]);
  expect(drift.code).toBe(2);
  expect(drift.stdout).toContain("inputUsd: 3 in the file, 3.5 live");
  expect(drift.stdout).toContain(`last change of model ${filed}: by ${admin.email} at 20`);
  expect(await run(["apply", "-f", file(), "--yes"])).toMatchObject({ code: 0, stderr: "" });
  expect((await run(["drift", "-f", file()])).code).toBe(0);
  const [log] = await query(
    `select action, reason, actor_id as actor, service_account_id as account
     from private.admin_audit_log where target = 'model ' || $1 order by created_at desc limit 1`,
    [filed],
  );
  expect(log).toEqual({
    action: "model.add_price",
    reason: expect.stringMatching(/^apply platform\.yaml [0-9a-f]{12}$/),
    actor: null,
    account: account.id,
  });
});

/** Passes requests on to the platform, and closes the connection instead of answering a change of the admin API. */
async function openLossyProxy() {
  const lost: string[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const { method = "GET", url = "", headers } = incoming;
    const sent = Object.entries(headers).flatMap(([name, value]) =>
      typeof value === "string" && !["host", "connection", "content-length"].includes(name) ? [[name, value]] : [],
    );
    const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
    const response = await fetch(`${base}${url}`, { method, headers: Object.fromEntries(sent), ...(body && { body }) });
    const text = await response.text();
    if (method === "GET" || !url.startsWith("/api/v1/admin/")) {
      outgoing.writeHead(response.status, { "content-type": "application/json" }).end(text);
      return;
    }
    lost.push(`${response.status} ${method} ${url} ${response.ok ? "" : text}`);
    incoming.socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, lost, close: () => server.close() };
}

test("runs that end at each change, before its answer, make each change once", async () => {
  const proxy = await openLossyProxy();
  const api = new AdminApi(
    await readServiceAccount({
      GATEHOUSE_URL: proxy.url,
      GATEHOUSE_CLIENT_ID: account.clientId,
      GATEHOUSE_CLIENT_SECRET: account.secret,
    }),
    { retryDelaysMs: [] },
  );
  /** Runs until nothing is left. */
  const applyInRuns = async (file: Platform) => {
    for (;;) {
      const live = await api.readPlatform(file);
      const compared = { live: live.platform, now: live.at, prune: false, deletableModels: [] };
      const { steps, refusals } = comparePlatforms(file, compared);
      expect(refusals).toEqual([]);
      if (steps.length === 0) return;
      expect(proxy.lost.length).toBeLessThan(20);
      const made = applySteps(steps, { api, live, fileHash: "f", reason: lossy, onDone: () => {} });
      await expect(made).rejects.toMatchObject({ kind: "unreachable" });
    }
  };
  const from = `${new Date(Date.now() + 86_400_000).toISOString().slice(0, 19)}Z`;
  const describe = (inputUsd: string, later: string): Platform =>
    platformSchema.parse(
      JSON.parse(
        JSON.stringify({
          ...contents,
          models: contents.models.map((model) => ({
            ...model,
            prices: [
              { providerId: "demo", inputUsd, outputUsd: "15" },
              { providerId: "demo", from, inputUsd: later, outputUsd: "15" },
            ],
          })),
          workspaces: [
            { id: workspaces.filed, planId: filed, budgets: [{ scope: "workspace", limitUsd: "0.000000000001" }] },
          ],
        }).replaceAll(filed, lossy),
      ),
    );
  await applyInRuns(describe("0.100001", "4"));
  await applyInRuns(describe("0.100002", "5"));
  proxy.close();
  expect(proxy.lost.filter((line) => !line.startsWith("2"))).toEqual([]);
  const [log] = await query<{ count: number }>(
    "select count(*)::int from private.admin_audit_log where reason = $1 and service_account_id = $2",
    [lossy, account.id],
  );
  expect(log?.count).toBe(proxy.lost.length);
  const prices = await query(
    "select input_usd_per_million::text as usd from ai.model_prices where model_id = $1 order by lower(valid)",
    [lossy],
  );
  expect(prices.map(({ usd }) => usd)).toEqual(["0.100001", "0.100002", "5.000000"]);
});

test("an operation is called from the command line, and its change is recorded", async () => {
  const { stdout } = await run(["api", "GET", `plans/${filed}`]);
  const { version } = (JSON.parse(stdout) as { plan: { version: string } }).plan;
  const body = join(terminal.home, "change.json");
  await writeFile(body, JSON.stringify({ version, name: "Called", reason: "Called by hand" }));
  expect(await run(["api", "PATCH", `plans/${filed}`, "--input", body])).toMatchObject({ code: 0, stdout: "" });
  const again = await run(["api", "PATCH", `plans/${filed}`, "--input", body]);
  expect([again.code, again.stdout]).toEqual([1, ""]);
  const logs = await query(
    "select service_account_id as account from private.admin_audit_log where target = $1 and reason = 'Called by hand'",
    [`plan ${filed}`],
  );
  expect(logs).toEqual([{ account: account.id }]);
});

test("no command prints a secret", async () => {
  const ran = await Promise.all(["plan", "drift"].map((verb) => run([verb, "-f", file()])));
  const printed = [...ran, await run(["export"])].map(({ stdout, stderr }) => `${stdout}${stderr}`).join("");
  expect(printed).not.toContain(account.secret);
  expect(printed).not.toMatch(/ghs_/);
});

test("a service account without a scope is refused by its name", async () => {
  const reader = await createServiceAccount({ scopes: ["admin:catalogue:read"] });
  const { code, stdout, stderr } = await run(["export"], reader);
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toContain("admin:apps:read");
});

test("a terminal is needed to apply without --yes", async () => {
  await writeFile(file(), stringify({ ...contents, plans: [{ ...contents.plans[0], markup: "9" }] }));
  const { code, stderr } = await run(["apply", "-f", file()]);
  expect([code, stderr]).toEqual([1, expect.stringContaining("add --yes")]);
  const [plan] = await query("select markup::float as markup from ai.plans where id = $1", [filed]);
  expect(plan).toEqual({ markup: 1.25 });
});
