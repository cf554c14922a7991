import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { type Database, one } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { createAdmin } from "./fixtures.ts";

export type Answer = { refused?: string; part?: string; last?: { actorEmail: string } | null };
export type Change = Record<string, unknown>;
type Route = Record<string, unknown> & { providerId: string; providerModel: string };
type Saved = {
  version: string;
  displayName: string;
  enabled: boolean;
  isDefault: boolean;
  defaultOfKind: string | null;
  routes: (Route & { position: number })[];
  prices: { id: number; providerId: string; serviceTier: string; minInputTokens: number; current: boolean }[];
  plans: { id: string; granted: boolean }[];
};

/** The settings of a chat model. */
export const settings = {
  kind: "chat",
  displayName: "New",
  ownedBy: "test",
  studioDefault: true,
  contextWindow: 1000,
  outputLimit: null,
  defaultOutputLimit: null,
  voices: [],
  isDefault: false,
  defaultOfKind: null,
};

/** Returns a route to a provider. */
export const routeTo = (providerId: string, providerModel = "x", changes: Change = {}): Route => ({
  providerId,
  providerModel,
  enabled: true,
  trustsStatedCost: false,
  tierMultipliers: {},
  firstByteSeconds: null,
  idleSeconds: null,
  totalSeconds: null,
  ...changes,
});

const amounts = {
  inputUsd: "1",
  cachedInputUsd: null,
  cacheWriteUsd: null,
  cacheWrite1hUsd: null,
  outputUsd: "2",
  audioInputUsd: null,
  audioOutputUsd: null,
  imageInputUsd: null,
  requestFeeUsd: null,
};

/** Returns a price at a provider that has none yet. */
export const priceAt = (providerId: string, changes: Change = {}) => ({
  providerId,
  serviceTier: "default",
  minInputTokens: 0,
  latest: null,
  seen: 0,
  ...amounts,
  ...changes,
});

export const newId = () => `setup-${randomUUID()}`;

export async function readModel(db: Database, model: string): Promise<Saved | null> {
  const { answer } = await one<{ answer: Saved | null }>(db, {
    sql: "select private.read_model($1) as answer",
    values: [model],
  });
  return answer;
}

export async function requireSaved(db: Database, model: string): Promise<Saved> {
  const saved = await readModel(db, model);
  if (!saved) throw new Error(`${model} does not exist`);
  return saved;
}

export const grantedPlans = ({ plans }: Saved) => plans.filter(({ granted }) => granted).map(({ id }) => id);

/** Returns everything of a model that a setup decides, without ids and times. */
export async function stateOf(db: Database, model: string) {
  const [row] = await db.query(
    `select
       to_jsonb(m) - array['id', 'created_at'] as settings,
       (select coalesce(jsonb_agg(to_jsonb(r) - 'model_id' order by r.position), '[]')
        from ai.model_routes r where r.model_id = m.id) as routes,
       (select coalesce(jsonb_agg(p.as_offered || jsonb_build_object('provider', p.provider_id)
          order by p.provider_id, p.service_tier, p.min_input_tokens), '[]')
        from ai.model_prices p where p.model_id = m.id and p.valid @> now()) as prices,
       (select coalesce(jsonb_agg(g.plan_id order by g.plan_id), '[]')
        from ai.model_grants g where g.model_id = m.id) as plans
     from ai.models m where m.id = $1`,
    [model],
  );
  return row;
}

/** Returns the actions in a model's audit lines, sorted, because the lines of a transaction have the same time. */
export async function linesOf(db: Database, model: string): Promise<string[]> {
  const lines = await db.query<{ action: string }>(
    "select action from private.admin_audit_log where target = $1 order by action",
    [`model ${model}`],
  );
  return lines.map(({ action }) => action);
}

/** Returns the actions that were added to a list of actions. */
export function addedLines(before: readonly string[], after: readonly string[]): string[] {
  const rest = [...after];
  for (const action of before) rest.splice(rest.indexOf(action), 1);
  return rest;
}

/** Creates an admin and a plan. `save` saves a setup in the admin's name. */
export async function createSetup(db: Database) {
  const admin = await createAdmin(db);
  const tenant = await createTenant(db, { credits: "100" });
  const save = (change: Change) => admin.ask("save_model_setup", { ...settings, ...change }) as Promise<Answer>;
  return { admin, tenant, plan: tenant.planId, save };
}

/** Adds a complete model, and makes its prices a day old. */
export async function addCompleteModel(db: Database, { save, plan }: Awaited<ReturnType<typeof createSetup>>) {
  const model = newId();
  const complete = {
    model,
    routes: [routeTo("one"), routeTo("two")],
    prices: [priceAt("one"), priceAt("one", { serviceTier: "flex", inputUsd: "0.5" }), priceAt("two")],
    plans: [plan],
    enabled: true,
  };
  expect(await save(complete)).toEqual({});
  await makeOlder(db, model);
  const { version } = await requireSaved(db, model);
  return { ...complete, version, seenPlans: [plan] };
}

/**
 * Makes the current prices of a model a day old, because a price can't replace another one of the same transaction.
 * Drops its earlier prices.
 */
export async function makeOlder(db: Database, model: string): Promise<void> {
  await db.query(
    `with old as (delete from ai.model_prices where model_id = $1 returning *)
     insert into ai.model_prices (
       model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million,
       cached_input_usd_per_million, output_usd_per_million
     )
     select model_id, provider_id, service_tier, min_input_tokens, tstzrange(now() - interval '1 day', null),
       input_usd_per_million, cached_input_usd_per_million, output_usd_per_million
     from old where valid @> now() order by id`,
    [model],
  );
}

/** Returns the newest price of a provider and the number of its prices, as a form would have seen them. */
export async function basisOf(db: Database, model: string, providerId: string) {
  const [row] = await db.query<{ latest: string | null; seen: number }>(
    `select max(id)::text as latest, count(*)::integer as seen
     from ai.model_prices where model_id = $1 and provider_id = $2 and min_input_tokens = 0`,
    [model, providerId],
  );
  return row ?? { latest: null, seen: 0 };
}
