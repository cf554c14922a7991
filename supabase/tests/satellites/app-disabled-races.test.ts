import { describe, expect, test } from "vitest";
import { createActor, createWorkspace } from "../actors.ts";
import { type App, call, handOver, newHash, openPools, prove, redeem, registerApp } from "../apps/fixtures.ts";
import { type Claims, type Database, join } from "../database.ts";
import { openLine, race, untilItWaits } from "../race-fixtures.ts";
import { exchange, newPair, refresh } from "./app-token-fixtures.ts";

const turnOff = (line: Database, { id }: App) =>
  line.query("update private.apps set enabled = false where id = $1", [id]);

/**
 * Creates an app that is linked to three workspaces. One person has tokens of the app in the two workspaces with the
 * lowest and the highest id.
 */
async function tokensOfTwo(db: Database, service: Database) {
  const workspaces = [await createWorkspace(db), await createWorkspace(db), await createWorkspace(db)];
  const [first, middle, last] = workspaces.map(({ id }) => id).sort() as [string, string, string];
  const app = await registerApp(service, { kind: "external" });
  const [one, other] = [await createActor(db, {}), await createActor(db, {})];
  const issue = async (claims: Claims, workspaceId: string) => {
    await join(db, { workspaceId, userId: claims.sub, role: "member" });
    const pair = newPair();
    const setting = { app, claims, workspaceId, handoff: await handOver(service, { claims, app }) };
    await exchange(service, { ...setting, pair });
    return { ...setting, from: pair.refresh };
  };
  for (const workspace_id of [first, middle, last])
    await call(service, "set_app_workspace", { app_name: app.name, workspace_id, linked: true, reason: "test" });
  const ones = [await issue(one, last), await issue(one, first)];
  return {
    app,
    one,
    ones,
    others: await issue(other, middle),
    people: [one, other, ...workspaces.map(({ owner }) => owner)].map(({ sub }) => sub),
  };
}

test("disabling an app while people disconnect the app and refresh its tokens does not deadlock", async () => {
  const { db, service, close } = openPools(2);
  const [refreshing, off, leaving] = [
    await openLine("service_role"),
    await openLine("postgres"),
    await openLine("service_role"),
  ];
  const { app, one, ones, others, people } = await tokensOfTwo(db, service);
  try {
    // Forces index scans, which Postgres uses on large tables. Disabling the app then reads the tokens by workspace,
    // while disconnecting reads them by person.
    await off.client.query("set enable_seqscan = off; set enable_bitmapscan = off");
    await refreshing.client.query("begin");
    await refresh(refreshing.db, { ...others, to: newPair() });
    const turned = turnOff(off.db, app);
    await untilItWaits(db, { work: turned, blocker: refreshing.pid });
    const args = { subject_id: one.sub, app_name: app.name, event: { kind: "app_disconnected" } };
    const left = call(leaving.db, "disconnect_app", args);
    await untilItWaits(db, { work: left, blocker: off.pid });
    await refreshing.client.query("commit");
    expect((await Promise.allSettled([turned, left])).filter(({ status }) => status === "rejected")).toEqual([]);
    await service.query("update private.apps set enabled = true where id = $1", [app.id]);
    for (const held of [...ones, others])
      expect(await refresh(service, { ...held, to: newPair() })).toEqual({ refused: "token" });
  } finally {
    await refreshing.client.query("rollback");
    await db.query("delete from auth.users where id = any ($1)", [people]);
    await Promise.all([refreshing.client.end(), off.client.end(), leaving.client.end(), close()]);
  }
});

test("disabling an app while people revoke all their handoffs does not deadlock", async () => {
  const { db, service, close } = openPools(2);
  const [redeeming, off, revoking] = [
    await openLine("service_role"),
    await openLine("postgres"),
    await openLine("service_role"),
  ];
  const app = await registerApp(service);
  const [one, other] = [await createActor(db, {}), await createActor(db, {})];
  const latest = await handOver(service, { claims: one, app });
  await db.query(
    "update private.cross_app_tokens set created_at = created_at + interval '10 seconds' where token_hash = $1",
    [latest.tokenHash],
  );
  const others = await handOver(service, { claims: other, app });
  const first = await handOver(service, { claims: one, app });
  try {
    // Forces index scans, so that the two transactions lock the handoffs in different orders.
    for (const { client } of [off, revoking])
      await client.query("set enable_seqscan = off; set enable_bitmapscan = off");
    await redeeming.client.query("begin");
    await redeem(redeeming.db, { app, handoff: others });
    const turned = turnOff(off.db, app);
    await untilItWaits(db, { work: turned, blocker: redeeming.pid });
    const revoked = call(revoking.db, "revoke_cross_app_tokens", { user_id: one.sub });
    await untilItWaits(db, { work: revoked, blocker: off.pid });
    await redeeming.client.query("commit");
    expect((await Promise.allSettled([turned, revoked])).filter(({ status }) => status === "rejected")).toEqual([]);
    await service.query("update private.apps set enabled = true where id = $1", [app.id]);
    for (const handoff of [latest, others, first])
      expect(await redeem(service, { app, handoff })).toEqual({ refused: "token" });
  } finally {
    await redeeming.client.query("rollback");
    await db.query("delete from auth.users where id = any ($1)", [[one.sub, other.sub]]);
    await Promise.all([redeeming.client.end(), off.client.end(), revoking.client.end(), close()]);
  }
});

test("disabling an app while its handoffs are swept does not deadlock, and the next sweep deletes the remaining handoffs", async () => {
  const { db, service, close } = openPools(2);
  const [holding, off, sweeping] = [
    await openLine("postgres"),
    await openLine("postgres"),
    await openLine("service_role"),
  ];
  const app = await registerApp(service);
  const person = await createActor(db, {});
  const handoffs = [];
  for (const daysAgo of [3, 4, 5]) {
    const handoff = await handOver(service, { claims: person, app });
    await db.query(
      `update private.cross_app_tokens
      set created_at = created_at - make_interval(days => $2), expires_at = expires_at - make_interval(days => $2)
      where token_hash = $1`,
      [handoff.tokenHash, daysAgo],
    );
    handoffs.push(handoff);
  }
  const [, middle] = handoffs;
  try {
    // Makes the two transactions read the handoffs in opposite orders. Disabling the app reads them in the order in
    // which they were stored, and the sweep reads them by expiry.
    for (const { client } of [off, sweeping])
      await client.query("set enable_seqscan = off; set enable_bitmapscan = off");
    await holding.client.query("begin");
    await holding.client.query("select from private.cross_app_tokens where token_hash = $1 for update", [
      middle?.tokenHash,
    ]);
    const turned = turnOff(off.db, app);
    await untilItWaits(db, { work: turned, blocker: holding.pid });
    const swept = call(sweeping.db, "sweep_app_credentials", {});
    await untilItWaits(db, { work: swept, blocker: off.pid });
    await holding.client.query("commit");
    expect((await Promise.allSettled([turned, swept])).filter(({ status }) => status === "rejected")).toEqual([]);
    await call(service, "sweep_app_credentials", {});
    expect(await db.query("select from private.cross_app_tokens where app_id = $1", [app.id])).toEqual([]);
  } finally {
    await holding.client.query("rollback");
    await db.query("delete from auth.users where id = $1", [person.sub]);
    await Promise.all([holding.client.end(), off.client.end(), sweeping.client.end(), close()]);
  }
});

describe("a handoff created while its app is being disabled", () => {
  const mintingScene = async (db: Database, service: Database) => {
    const [claims, app] = [await createActor(db, {}), await registerApp(service)];
    const handoff = { tokenHash: newHash(), facts: await prove(service, { claims, app }), proof: "signed" };
    return { app, handoff, userId: claims.sub };
  };
  type Minting = Awaited<ReturnType<typeof mintingScene>>;
  const mint = (line: Database, { handoff: { tokenHash, facts, proof } }: Minting) =>
    call<boolean>(line, "mint_cross_app_token", { token_hash: tokenHash, facts, proof });
  const expectRefusal = async (service: Database, { app, handoff }: Minting) => {
    await service.query("update private.apps set enabled = true where id = $1", [app.id]);
    expect(await redeem(service, { app, handoff })).toEqual({ refused: "token" });
  };

  test("no handoff is stored while its app is being disabled, and none appears when the app is enabled again", () =>
    race<Minting>({
      scene: mintingScene,
      early: (line, { app }) => turnOff(line, app),
      late: mint,
      after: async (service, { scene, answer }) => {
        expect(answer).toBe(false);
        await expectRefusal(service, scene);
      },
    }));

  test("a handoff is revoked if its creation began before the app was disabled", () =>
    race<Minting>({
      scene: mintingScene,
      early: mint,
      late: (line, { app }) => turnOff(line, app),
      after: (service, { scene }) => expectRefusal(service, scene),
    }));

  test("a handoff is stored even after it waited for a concurrent change to its app's name", () =>
    race<Minting>({
      scene: mintingScene,
      early: (line, { app: { id } }) =>
        line.query("update private.apps set display_name = 'Journal' where id = $1", [id]),
      late: mint,
      after: async (service, { scene, answer }) => {
        expect(answer).toBe(true);
        expect(await redeem(service, scene)).not.toHaveProperty("refused");
      },
    }));
});
