import fc from "fast-check";
import { describe, expect } from "vitest";
import { chatCall, createTenant, type Tenant } from "./ai-fixtures.ts";
import { type Database, test } from "./database.ts";

/** What may be different about a model, and what makes it so: $1 is the model, $2 the workspace. */
const changes: Record<string, string> = {
  shut: "update ai.models set enabled = false where id = $1 and $2::uuid is not null",
  "kept from workspaces": "update ai.models set studio_default = false where id = $1 and $2::uuid is not null",
  "granted to nobody": "delete from ai.model_grants where model_id = $1 and $2::uuid is not null",
  "granted to the workspace": `with gone as (delete from ai.model_grants where model_id = $1)
    insert into ai.model_grants (model_id, workspace_id) values ($1, $2)`,
  "on two routes": `with routed as (
      insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 2, 'other', 'x')
    ) insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million)
    select $1, 'other', 0.2, 0.5 where $2::uuid is not null`,
  "with audio": `insert into ai.model_prices
      (model_id, provider_id, min_input_tokens, input_usd_per_million, output_usd_per_million, audio_input_usd_per_million)
    select $1, 'demo', 200, 0.1, 0.9, 7 where $2::uuid is not null`,
  "for large calls alone": `with before as (
      delete from ai.model_prices where model_id = $1
    ) insert into ai.model_prices
      (model_id, provider_id, min_input_tokens, input_usd_per_million, output_usd_per_million, valid)
    select $1, 'demo', 100, 0.1, 0.9, tstzrange(now() - interval '1 day', null) where $2::uuid is not null`,
  "without a price": "delete from ai.model_prices where model_id = $1 and $2::uuid is not null",
  embedding: "update ai.models set kind = 'embedding' where id = $1 and $2::uuid is not null",
  speaking: `update ai.models set kind = 'speech', voices = '{Kore,Puck}', output_limit = 50
    where id = $1 and $2::uuid is not null`,
};

const world = fc.record({
  changes: fc.uniqueArray(fc.constantFrom(...Object.keys(changes)), { maxLength: 3 }),
  workspaceModels: fc.constantFrom(null, null, "own", "other"),
  deniedModels: fc.constantFrom(null, null, "own", "other", "null"),
  keyModels: fc.constantFrom(null, null, "own", "other"),
});
const call = fc.record({
  kind: fc.constantFrom("chat", "chat", "chat", "embedding", "speech"),
  model: fc.constantFrom("own", "own", "own", "none", null),
  voice: fc.constantFrom(null, null, null, "Puck", "Nobody"),
  audio: fc.constantFrom(null, false, true),
  providers: fc.constantFrom(["demo"], ["demo", "other"], ["other"], []),
  input_bytes: fc.integer({ min: 0, max: 1_200 }),
  output_limit: fc.integer({ min: 1, max: 200 }),
});

type Call = typeof call extends fc.Arbitrary<infer Value> ? Value : never;
/** As nearly every call is, whatever else comes. */
const plainCall: Call = {
  kind: "chat",
  model: "own",
  voice: null,
  audio: null,
  providers: ["demo"],
  input_bytes: 300,
  output_limit: 100,
};

async function ask(db: Database, { planId, workspaceId }: Tenant, asked: { call: object; lists: unknown[] }) {
  const [row] = await db.query<{ prepared: Record<string, unknown>; catalogued: Record<string, unknown> }>(
    `select to_jsonb(ai.offer_for($1, c, t.input, t.output)) as prepared,
       to_jsonb(ai.offer_from_catalogue($1, c, t.input, t.output)) as catalogued
     from jsonb_populate_record(null::ai.caller, jsonb_build_object(
       'plan_id', $2::text, 'workspace_id', $3::uuid,
       'workspace_models', $4::text[], 'denied_models', $5::text[], 'key_models', $6::text[]
     )) as c
     cross join lateral (
       select ai.reserved_input_tokens($1) as input, ($1::jsonb ->> 'output_limit')::bigint as output
     ) as t`,
    [JSON.stringify(asked.call), planId, workspaceId, ...asked.lists],
  );
  return row;
}

describe("ai.offer_for", () => {
  test("says what the catalogue says, whatever is asked of whatever model", { timeout: 60_000 }, async ({ db }) => {
    const seen = new Set<unknown>();
    const tenant = await createTenant(db);
    await db.query("update ai.models set is_default = false where kind = 'chat'");
    await db.query("update ai.models set is_default = true where id = $1", [tenant.model]);
    await fc.assert(
      fc.asyncProperty(world, fc.array(call, { minLength: 1, maxLength: 6 }), async (made, calls) => {
        await db.query("savepoint world");
        try {
          for (const change of made.changes) {
            await db.query("savepoint change");
            // Some do not go together.
            await db
              .query(changes[change] ?? "", [tenant.model, tenant.workspaceId])
              .catch(() => db.query("rollback to savepoint change"));
          }
          const list = (of: string | null) =>
            of === null ? null : [{ own: tenant.model, other: "other-model", null: null }[of] ?? null];
          const lists = [made.workspaceModels, made.deniedModels, made.keyModels].map(list);
          for (const { model, ...rest } of calls) {
            const named = model === "own" ? tenant.model : model;
            const said = await ask(db, tenant, {
              call: chatCall({ ...tenant, keyHash: "", model: "" }, { ...rest, model: named }),
              lists,
            });
            const { output_tokens: _, ...prepared } = said?.prepared ?? {};
            const { output_tokens: __, ...catalogued } = said?.catalogued ?? {};
            if (said?.catalogued.refusal === null) {
              expect(said.prepared.output_tokens ?? rest.output_limit).toEqual(said.catalogued.output_tokens);
              expect(prepared).toEqual(catalogued);
            }
            expect(prepared.refusal).toEqual(catalogued.refusal);
            seen.add((catalogued.refusal as { refused: string } | null)?.refused ?? "offered");
            // By what is prepared, or by the catalogue.
            if (said?.catalogued.refusal === null)
              seen.add(said.prepared.output_tokens === null ? "plain" : "not plain");
          }
        } finally {
          await db.query("rollback to savepoint world; release savepoint world");
        }
      }),
      {
        numRuns: 200,
        examples: [
          [
            { changes: [], workspaceModels: null, deniedModels: null, keyModels: null },
            [
              plainCall,
              { ...plainCall, model: null },
              { ...plainCall, model: "none" },
              { ...plainCall, audio: true },
              { ...plainCall, providers: [] },
              { ...plainCall, voice: "Nobody" },
            ],
          ],
          [
            { changes: ["with audio"], workspaceModels: null, deniedModels: null, keyModels: null },
            [{ ...plainCall, audio: true }],
          ],
        ],
      },
    );
    expect([...seen].toSorted()).toEqual([
      "invalid_request",
      "model_not_found",
      "not plain",
      "offered",
      "plain",
      "service_unavailable",
      "unsupported_parameter",
    ]);
  });
});
