import { describe, expect } from "vitest";
import { comparePlatforms } from "../../../packages/cli/src/platform-file/compare.ts";
import { type Platform, platformSchema } from "../../../packages/cli/src/platform-file/schema.ts";
import { type Database, one, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { createAdmin } from "./fixtures.ts";

interface Export {
  at: string;
  platform: Platform;
  targets: Record<string, { version: string | null; prices: string | null; last: object | null }>;
  deletableModels: string[];
}

/** Exports the platform as our server does, and parses it as the command line does. */
async function exportPlatform(db: Database, workspaceIds: string[] = []): Promise<Export> {
  const { answer } = await db.asRole("service_role", () =>
    one<{ answer: Export }>(db, {
      sql: "select private.export_platform($1) as answer",
      values: [workspaceIds],
    }),
  );
  return { ...answer, platform: platformSchema.parse(withoutOddities(answer.platform)) };
}

/** Leaves out what only SQL can write, such as the null in a list of models that another test commits. */
function withoutOddities({ apiVersion, ...platform }: Platform): object {
  const parses = (list: string, item: unknown) => platformSchema.safeParse({ apiVersion, [list]: [item] }).success;
  const lists = Object.entries(platform).map(([list, items]) => [
    list,
    Array.isArray(items) ? items.filter((item) => parses(list, item)) : items,
  ]);
  return { apiVersion, ...Object.fromEntries(lists) };
}

const modelOf = ({ platform }: Export, id: string) => platform.models?.find((model) => model.id === id);
const workspaceOf = ({ platform }: Export, id: string) => platform.workspaces?.find((each) => each.id === id);
const budget = { timeZone: "UTC", thresholds: [50, 80, 100], maxCalls: null, reservesExpected: false };

/** The columns of each table that platform.yaml describes, and those that are not configuration. */
const columns: Readonly<Record<string, { exported: string; runtime: string }>> = {
  "ai.plans": {
    exported: "id name payer markup initial_credits low_credits requests_per_minute tokens_per_minute",
    runtime: "",
  },
  "ai.models": {
    exported:
      "id kind display_name owned_by enabled studio_default context_window output_limit default_output_limit voices is_default",
    runtime: "created_at",
  },
  "ai.model_routes": {
    exported:
      "model_id position provider_id provider_model enabled trusts_stated_cost tier_multipliers first_byte_seconds idle_seconds total_seconds",
    runtime: "",
  },
  "ai.model_prices": {
    exported:
      "model_id provider_id service_tier min_input_tokens valid input_usd_per_million cached_input_usd_per_million cache_write_usd_per_million cache_write_1h_usd_per_million output_usd_per_million audio_input_usd_per_million audio_output_usd_per_million image_input_usd_per_million request_fee_usd",
    runtime: "id as_offered",
  },
  "ai.model_grants": { exported: "model_id plan_id workspace_id", runtime: "id" },
  "ai.provider_limits": {
    exported: "provider_id requests_per_minute tokens_per_minute",
    runtime: "requests_full_at tokens_full_at",
  },
  "private.apps": {
    exported: "name display_name kind enabled scopes backchannel_logout_uri",
    // The command line sets resource_url.
    runtime: "id created_at updated_at resource_url",
  },
  "private.openid_clients": {
    exported:
      "app_id is_public redirect_uris post_logout_redirect_uris allows_device_grant requires_pkce claims_in_id_token groups_workspace_id",
    runtime: "registration metadata_url metadata_expires_at expires_at created_at",
  },
  "ai.workspace_policies": {
    exported:
      "workspace_id allowed_models denied_models allowed_regions requests_per_minute tokens_per_minute model_limits provider_cost_visible content_capture content_retention_days",
    runtime: "updated_at updated_by service_account_id",
  },
  "ai.budgets": {
    exported: "scope subject_id workspace_id label period limit_usd max_calls time_zone thresholds reserves_expected",
    runtime: "period_start starts_at ends_at spent_usd reserved_usd calls refused_at",
  },
};

describe("an export of the platform", () => {
  test.for(Object.entries(columns))("has a decision about each column of %s", async ([table, parts], { db }) => {
    const found = await db.query<{ name: string }>(
      "select attname as name from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped",
      [table],
    );
    const decided = `${parts.exported} ${parts.runtime}`.split(" ").filter(Boolean);
    expect(found.map(({ name }) => name).toSorted()).toEqual(decided.toSorted());
  });

  test("has everything of the catalogue in the form of the file", async ({ db }) => {
    const { model, planId, workspaceId } = await createTenant(db);
    await db.query(
      `insert into ai.model_prices
         (model_id, provider_id, valid, input_usd_per_million, output_usd_per_million, request_fee_usd)
       values ($1, 'old', tstzrange(now() - interval '2 days', now() - interval '1 day'), 9, 9, null),
         ($1, 'later', tstzrange('2999-01-01T00:00:00Z', null), 1.5, 2.000001, 0.01)`,
      [model],
    );
    await db.query("update ai.model_routes set tier_multipliers = '{\"flex\": 0.50}' where model_id = $1", [model]);
    await db.query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [model, workspaceId]);
    const exported = await exportPlatform(db);
    expect(modelOf(exported, model)).toMatchObject({
      kind: "chat",
      enabled: true,
      isDefault: false,
      routes: [{ providerId: "demo", providerModel: "upstream", enabled: true, tierMultipliers: { flex: "0.5" } }],
      prices: [
        { providerId: "demo", from: null, inputUsd: "0.15", outputUsd: "0.6", requestFeeUsd: null },
        { providerId: "later", from: "2999-01-01T00:00:00Z", outputUsd: "2.000001", requestFeeUsd: "0.01" },
      ],
      grants: { plans: [planId], workspaces: [workspaceId] },
    });
    expect(exported.platform.plans?.find(({ id }) => id === planId)).toMatchObject({
      payer: "workspace",
      markup: "1",
      initialCredits: "0",
      lowCredits: null,
    });
    const options = { ...exported, live: exported.platform, now: exported.at, prune: true };
    expect(comparePlatforms(exported.platform, options).steps).toEqual([]);
  });

  test("has no secrets, self-registered clients, names of workspaces or email addresses", async ({ db }) => {
    const { ask } = await createAdmin(db);
    const { workspaceId } = await createTenant(db);
    await db.query("update public.workspaces set name = 'Secret project' where id = $1", [workspaceId]);
    const hash = `\\x${"ab".repeat(32)}`;
    const app = { name: "export-app", displayName: "Export", kind: "external", logoutUrl: null };
    expect(await ask("add_app", { ...app, origins: [], scopes: [], secretHash: hash })).toEqual({});
    await db.query("select private.save_self_registered_client($1)", [
      JSON.stringify({ name: "self-registered", displayName: "Self", redirectUris: [], freshSeconds: 60 }),
    ]);
    const { answer } = await one<{ answer: Export }>(db, { sql: "select private.export_platform() as answer" });
    const text = JSON.stringify(answer.platform);
    expect(text).toContain("export-app");
    expect(text).not.toMatch(/abababab|secret|self-registered|@/i);
  });

  test("has an app that was registered without a secret, which can't authenticate", async ({ db }) => {
    const { ask } = await createAdmin(db);
    const app = { name: "secretless", displayName: "Secretless", kind: "internal", logoutUrl: null };
    expect(await ask("add_app", { ...app, origins: [], scopes: [], secretHash: null })).toEqual({});
    expect((await exportPlatform(db)).platform.apps).toContainEqual(expect.objectContaining({ name: "secretless" }));
    expect(await db.query("select from private.authenticate_app('secretless', null)")).toEqual([]);
  });

  test("has the workspaces with another plan, a policy or a budget, and those asked for", async ({ db }) => {
    const { workspaceId, ownerId } = await createTenant(db);
    const [personal] = await db.query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [
      ownerId,
    ]);
    const id = personal?.id ?? "";
    expect(workspaceOf(await exportPlatform(db), workspaceId)).toMatchObject({ budgets: [] });
    expect(workspaceOf(await exportPlatform(db), id)).toBeUndefined();
    expect(workspaceOf(await exportPlatform(db, [id]), id)).toMatchObject({ planId: "free", budgets: [] });
    await db.query("insert into ai.workspace_policies (workspace_id, content_capture) values ($1, true)", [id]);
    const exported = await exportPlatform(db);
    expect(workspaceOf(exported, id)?.policy).toMatchObject({ contentCapture: true, contentRetentionDays: 30 });
    expect(exported.targets[`workspace ${id}`]?.version).toMatch(/Z$/);
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [id]);
    expect(workspaceOf(await exportPlatform(db, [id]), id)).toBeUndefined();
  });

  test("names the versions that changes take, and who made the last change", async ({ db }) => {
    const { ask, email } = await createAdmin(db);
    const { model, planId } = await createTenant(db);
    const { targets } = await exportPlatform(db);
    const plan = { plan: planId, seen: targets[`plan ${planId}`]?.version };
    const fields = { name: "Changed", payer: "workspace", markup: "2", initialCredits: "0", lowCredits: null };
    expect(await ask("save_plan", { ...plan, ...fields })).toEqual({});
    const route = { model, version: targets[`model ${model}`]?.version, place: 1, route: null };
    expect(await ask("change_model_route", route)).toEqual({});
    const limit = { provider: "demo", seen: targets["provider demo"]?.version, requestsPerMinute: 5 };
    expect(await ask("save_provider_limit", limit)).toEqual({});
    const last = { by: email, at: expect.stringMatching(/Z$/), serviceAccountId: null };
    const after = await exportPlatform(db);
    expect(after.targets[`plan ${planId}`]?.last).toEqual(last);
    const limits = { providerId: "demo", requestsPerMinute: 5, tokensPerMinute: null };
    expect(after.platform.providerLimits).toContainEqual(limits);
    // The newest price's id, the number of prices, and the one in force.
    expect(after.targets[`model ${model}`]?.prices).toMatch(/^([1-9]\d*) 1 \1$/);
  });

  test("lists the models that were never enabled", async ({ db }) => {
    const { ask } = await createAdmin(db);
    const { model } = await createTenant(db);
    const fields = { kind: "chat", displayName: "N", ownedBy: "x", studioDefault: true, voices: [] };
    expect(await ask("save_model", { ...fields, model: "never-enabled" })).toEqual({});
    const { deletableModels } = await exportPlatform(db);
    expect(deletableModels).toContain("never-enabled");
    expect(deletableModels).not.toContain(model);
  });
});

describe("the platform’s changes of workspaces", () => {
  test("change the given fields of a policy, with a line in both logs, unless it has changed", async ({ db }) => {
    const { ask, id: admin } = await createAdmin(db);
    const { workspaceId: workspace, model } = await createTenant(db);
    expect(await ask("set_workspace_policy", { workspace, seen: null, policy: { deniedModels: [model] } })).toEqual({});
    const stale = await ask("set_workspace_policy", { workspace, seen: null, policy: { contentCapture: true } });
    expect(stale).toMatchObject({ refused: "conflict", last: { at: expect.any(String) } });
    const exported = await exportPlatform(db);
    expect(workspaceOf(exported, workspace)?.policy).toMatchObject({ deniedModels: [model], contentCapture: false });
    const seen = exported.targets[`workspace ${workspace}`]?.version;
    expect(await ask("set_workspace_policy", { workspace, seen, policy: { contentCapture: true } })).toEqual({});
    const policy = workspaceOf(await exportPlatform(db), workspace)?.policy;
    expect(policy).toMatchObject({ deniedModels: [model], contentCapture: true });
    const logs = await db.query(
      `select action, actor_id as actor from private.admin_audit_log where target = 'workspace ' || $1
       union all
       select action, actor_id from public.workspace_audit_log
       where workspace_id = $1::uuid and action = 'ai_policy.changed'
       order by action desc`,
      [workspace],
    );
    expect(logs).toEqual([
      ...Array(2).fill({ action: "workspace.policy", actor: admin }),
      ...Array(2).fill({ action: "ai_policy.changed", actor: admin }),
    ]);
  });

  test("refuse models that don't exist, and workspaces that are deleted", async ({ db }) => {
    const { ask } = await createAdmin(db);
    const { workspaceId: workspace } = await createTenant(db);
    const unknown = { workspace, seen: null, policy: { deniedModels: ["no-such-model"] } };
    expect(await ask("set_workspace_policy", unknown)).toEqual({ refused: "unknown_models" });
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [workspace]);
    expect(await ask("set_workspace_policy", { ...unknown, policy: {} })).toEqual({ refused: "not_found" });
    const removal = { workspace, scope: "workspace", subject: null, period: "month", seen: null, budget: null };
    expect(await ask("set_workspace_budget", removal)).toEqual({ refused: "not_found" });
  });

  test.for([
    ["a workspace", { scope: "workspace", subject: null, period: "day" }, { ...budget, limitUsd: "5.5" }],
    ["a label", { scope: "label", subject: "build", period: "month" }, { ...budget, limitUsd: "7" }],
    [
      "concurrent calls",
      { scope: "workspace", subject: null, period: "concurrent" },
      { ...budget, limitUsd: null, maxCalls: 3 },
    ],
    [
      "a time zone and thresholds",
      { scope: "workspace", subject: null, period: "month" },
      { ...budget, limitUsd: "1", timeZone: "Europe/Berlin", thresholds: [10], reservesExpected: true },
    ],
  ] as const)("set, change and remove the budget of %s, if the caller saw it", async ([, key, value], { db }) => {
    const { ask } = await createAdmin(db);
    const { workspaceId: workspace } = await createTenant(db);
    const set = (change: object) => ask("set_workspace_budget", { workspace, ...key, ...change });
    const read = async () => workspaceOf(await exportPlatform(db), workspace)?.budgets;
    expect(await set({ seen: null, budget: value })).toEqual({});
    expect(await read()).toEqual([{ ...key, ...value }]);
    expect(await set({ seen: null, budget: null })).toMatchObject({ refused: "conflict" });
    const higher = { ...value, ...(value.limitUsd === null ? { maxCalls: 9 } : { limitUsd: "100" }) };
    expect(await set({ seen: { ...value, thresholds: [1] }, budget: higher })).toMatchObject({ refused: "conflict" });
    expect(await set({ seen: value, budget: higher })).toEqual({});
    expect(await set({ seen: higher, budget: null })).toEqual({});
    expect(await read()).toEqual([]);
  });

  test("refuse budgets of people, keys, unknown apps, and invalid ones", async ({ db }) => {
    const { ask } = await createAdmin(db);
    const { workspaceId: workspace, ownerId } = await createTenant(db);
    const set = (change: object) =>
      ask("set_workspace_budget", { workspace, subject: null, period: "month", seen: null, ...change });
    const value = { ...budget, limitUsd: "5" };
    expect(await set({ scope: "member", subject: ownerId, budget: value })).toEqual({ refused: "not_found" });
    expect(await set({ scope: "key", subject: ownerId, budget: value })).toEqual({ refused: "not_found" });
    expect(await set({ scope: "app", subject: "no-such-app", budget: value })).toEqual({ refused: "not_found" });
    const invalid = { scope: "workspace", budget: { ...value, timeZone: "Mars/Base" } };
    expect(await set(invalid)).toEqual({ refused: "invalid" });
  });
});
