import { models as behaviours } from "@gatehousehq/local-stack/services/provider/behaviours";
import { expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { createTenant } from "./fixtures.ts";

/** The models that supabase/seed.sql adds, in display order. */
const newcomers = [
  { id: "demo-chat", name: "Demo chat", kind: "chat", isDefault: true },
  { id: "demo-agent", name: "Demo agent", kind: "chat", isDefault: false },
  { id: "demo-long", name: "Demo long answer", kind: "chat", isDefault: false },
  { id: "demo-messages", name: "Demo messages", kind: "chat", isDefault: false },
  { id: "demo-reasoning", name: "Demo reasoning", kind: "chat", isDefault: false },
  { id: "demo-embedding", name: "Demo embedding", kind: "embedding", isDefault: false },
  { id: "demo-speech", name: "Demo speech", kind: "speech", isDefault: true },
];

interface ListedModel {
  id: string;
  owned_by: string;
  platform: { name: string; kind: string; default?: boolean; prices: object[] };
}

/**
 * Returns the models in the lists of the gateway, the console and the policy page, for a workspace on the seed's team
 * plan. Each list keeps its own order.
 */
async function readLists(db: Database) {
  const { workspaceId, ownerId, keyHash } = await createTenant(db);
  await db.query("update public.workspaces set plan_id = 'team' where id = $1", [workspaceId]);
  const call = { credential: { source: "key", hash: keyHash }, providers: ["demo", "demo_messages", "demo_speech"] };
  const listed = await db.asRole("gateway", () =>
    one<{ answer: { data: ListedModel[] } }>(db, {
      sql: "select ai.list_models($1) as answer",
      values: [JSON.stringify(call)],
    }),
  );
  const others = await db.asRole("service_role", () =>
    one<{ console: { id: string }[]; policy: { models: { id: string }[] } }>(db, {
      sql: "select private.list_catalogue_models() as console, ai.read_policy_options($1, $2) as policy",
      values: [ownerId, workspaceId],
    }),
  );
  return { gateway: listed.answer.data, console: others.console, policy: others.policy.models };
}

test("a new user sees seven models with prices, the default of each kind first", async ({ db }) => {
  const { gateway } = await readLists(db);
  const seeded = gateway.filter(({ owned_by }) => owned_by === "gatehouse-demo");
  expect(
    seeded.map(({ id, platform: { name, kind, default: isDefault = false } }) => ({ id, name, kind, isDefault })),
  ).toEqual(newcomers);
  for (const { platform } of seeded) expect(platform.prices).toHaveLength(1);
});

test("models sort by kind, the default of each kind first, then by name", async ({ db }) => {
  const unsorted = [
    { id: "a", kind: "speech", display_name: "A", is_default: false },
    { id: "b", kind: "chat", display_name: "zeta", is_default: false },
    { id: "c", kind: "chat", display_name: "Zeta", is_default: false },
    { id: "d", kind: "chat", display_name: "Alpha", is_default: false },
    { id: "e", kind: "embedding", display_name: "A", is_default: false },
    { id: "f", kind: "chat", display_name: "Zulu", is_default: true },
    { id: "g", kind: "speech", display_name: "B", is_default: true },
  ];
  const { ids } = await one<{ ids: string }>(db, {
    sql: `select string_agg(m.id, '' order by ai.model_order(m)) as ids
          from jsonb_populate_recordset(null::ai.models, $1) m`,
    values: [JSON.stringify(unsorted)],
  });
  expect(ids).toBe("fdbcega");
});

test("models have the same order in the gateway, the console and the AI policy", async ({ db }) => {
  const lists = await readLists(db);
  const rows = await db.query<{ id: string }>("select m.id from ai.models m order by ai.model_order(m)");
  for (const [name, list] of Object.entries(lists)) {
    const ids = list.map(({ id }) => id);
    expect(ids, name).toEqual(expect.arrayContaining(newcomers.map(({ id }) => id)));
    expect(ids, name).toEqual(rows.map(({ id }) => id).filter((id) => ids.includes(id)));
  }
});

test("each behaviour of the demo provider has a model in seed.sql or test-models.sql", async ({ db }) => {
  const rows = await db.query<{ name: string }>(
    `select distinct r.provider_model as name
     from ai.model_routes r
     join ai.models m on m.id = r.model_id
     where m.owned_by in ('gatehouse-demo', 'gatehouse-test')`,
  );
  expect(new Set(rows.map(({ name }) => name))).toEqual(new Set(Object.keys(behaviours)));
});
