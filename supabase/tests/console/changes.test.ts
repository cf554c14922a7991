import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { newHash } from "../apps/fixtures.ts";
import { type Database, one, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";

type Answer = { refused?: string; last?: { actorEmail: string; at: string } | null };
type Change = Record<string, unknown>;
type Call =
  | "set_key_approval"
  | "add_app"
  | "change_app"
  | "save_model"
  | "save_model_setup"
  | "set_model_enabled"
  | "delete_model"
  | "change_model_route"
  | "set_model_grant"
  | "add_model_price"
  | "cancel_model_price";

const callers = 50;

async function ask(db: Pick<Database, "query">, { name, change }: { name: Call; change: Change }): Promise<Answer> {
  const stamped = { reason: "race", requestId: "request-1", ip: "192.0.2.1", ...change };
  const [row] = await db.query<{ answer: Answer }>(`select private.${name}($1) as answer`, [JSON.stringify(stamped)]);
  return row?.answer ?? {};
}

/**
 * Makes the same request 50 times concurrently.
 * @returns how many changes were made, and why the other requests were refused
 */
async function race(db: Database, call: { name: Call; change: Change }) {
  const answers = await Promise.all(Array.from({ length: callers }, () => ask(db, call)));
  const refused = answers.filter((answer) => answer.refused !== undefined);
  return {
    made: answers.length - refused.length,
    refusals: [...new Set(refused.map((answer) => answer.refused))],
    lostTo: [...new Set(refused.map((answer) => answer.last?.actorEmail))],
  };
}

const onlyOne = (email: string) => ({ made: 1, refusals: ["conflict"], lostTo: [email] });

test("when 50 admins make the same change concurrently, it is made once, and the others see who made it", async () => {
  const { db, close } = openPool(callers);
  const [actor, workspace] = [randomUUID(), randomUUID()];
  const email = `${actor}@race.test`;
  const [model, app] = [`race-${actor}`, `race-${actor.slice(0, 8)}`];
  const linesOf = (target: string) =>
    one<{ lines: number }>(db, {
      sql: "select count(*)::integer as lines from private.admin_audit_log where target = $1",
      values: [target],
    });
  try {
    await db.query("insert into auth.users (id, aud, role, email) values ($1, 'authenticated', 'authenticated', $2)", [
      actor,
      email,
    ]);
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'race')", [actor]);
    await db.query("insert into public.workspaces (id, name) values ($1, 'Race')", [workspace]);
    await db.query("insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', 'R', 'r')", [model]);
    await db.query("insert into ai.model_routes values ($1, 1, 'demo', 'x')", [model]);

    const approval = { actor, workspace, approved: true };
    expect(await race(db, { name: "set_key_approval", change: approval })).toEqual(onlyOne(email));
    expect(await linesOf(`workspace ${workspace}`)).toEqual({ lines: 1 });

    const shut = { actor, model, enabled: false };
    expect(await race(db, { name: "set_model_enabled", change: shut })).toEqual(onlyOne(email));
    const price = { actor, model, providerId: "demo", latest: null, inputUsd: "1", outputUsd: "2" };
    expect(await race(db, { name: "add_model_price", change: price })).toEqual(onlyOne(email));
    const { version } = await one<{ version: string }>(db, {
      sql: "select private.model_version($1) as version",
      values: [model],
    });
    const route = { position: 2, providerId: "demo", providerModel: "y", enabled: true, trustsStatedCost: false };
    const added = { actor, model, version, place: null, route };
    expect(await race(db, { name: "change_model_route", change: added })).toEqual(onlyOne(email));
    const grant = { actor, model, workspace, granted: true };
    expect(await race(db, { name: "set_model_grant", change: grant })).toEqual(onlyOne(email));
    expect(await linesOf(`model ${model}`)).toEqual({ lines: 4 });

    const made = { actor, name: app, displayName: "Race", kind: "internal", origins: [], scopes: ["profile"] };
    const secretHash = `\\x${newHash().toString("hex")}`;
    expect(await ask(db, { name: "add_app", change: { ...made, secretHash } })).toEqual({});
    const { version: seen } = await one<{ version: string }>(db, {
      sql: "select private.read_app($1) ->> 'version' as version",
      values: [app],
    });
    const disable = { actor, name: app, step: "disable", version: seen };
    expect(await race(db, { name: "change_app", change: disable })).toEqual(onlyOne(email));
    expect(await linesOf(`app ${app}`)).toEqual({ lines: 2 });
  } finally {
    await db.query("delete from private.apps where name = $1", [app]);
    await db.query("delete from ai.model_prices where model_id = $1", [model]);
    await db.query("delete from ai.models where id = $1", [model]);
    await db.query("delete from public.workspaces where id = $1", [workspace]);
    await db.query("delete from auth.users where id = $1", [actor]);
    await close();
  }
});

describe("a console change", () => {
  test("only an admin can make a console change, regardless of the database role that calls the function", async ({
    db,
  }) => {
    const { sub: actor } = await createActor(db, {});
    const { workspaceId, model } = await createTenant(db);
    const calls: { name: Call; change: Change }[] = [
      { name: "set_key_approval", change: { workspace: workspaceId, approved: false } },
      { name: "add_app", change: { name: "an-app" } },
      { name: "change_app", change: { name: "an-app", step: "enable" } },
      { name: "set_model_enabled", change: { model, enabled: false } },
      { name: "save_model", change: { model } },
      { name: "save_model_setup", change: { model } },
      { name: "delete_model", change: { model } },
      { name: "change_model_route", change: { model } },
      { name: "set_model_grant", change: { model, workspace: workspaceId, granted: true } },
      { name: "add_model_price", change: { model } },
      { name: "cancel_model_price", change: { model } },
    ];
    for (const { name, change } of calls) {
      expect(await ask(db, { name, change: { ...change, actor } })).toEqual({ refused: "forbidden" });
    }
  });

  test("a console change without a reason for the audit log is refused", async ({ db }) => {
    const { sub: actor } = await createActor(db, {});
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [actor]);
    const { workspaceId } = await createTenant(db);
    const change = { actor, workspace: workspaceId, approved: false, reason: "" };
    await expect(ask(db, { name: "set_key_approval", change })).rejects.toMatchObject({ code: "23514" });
  });
});
