import { randomUUID } from "node:crypto";
import type { Client } from "pg";
import { expect, test } from "vitest";
import { createActor } from "../actors.ts";
import { type Claims, type Database, one } from "../database.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";
import { call, handOver, openPools, redeem } from "./fixtures.ts";
import {
  openClientLogin,
  openSatelliteLogin,
  queuedLogouts,
  registerClient,
  registerSatellite,
} from "./logout-fixtures.ts";

interface Scene {
  db: Database;
  service: Database;
  claims: Claims;
  factorId: string;
  logins: string[];
  /** Two connections whose transactions the test controls. */
  first: { db: Database; client: Client; pid: number };
  second: { db: Database; client: Client; pid: number };
}

/** Creates an account at AAL2 with two app logins, commits it, and runs `work`. Deletes the account afterwards. */
async function withLogins(work: (scene: Scene) => Promise<void>): Promise<void> {
  const { db, service, close } = openPools(8);
  const [first, second] = [await openLine("postgres"), await openLine("postgres")];
  const claims = await createActor(db, { mfa: "required, at AAL2" });
  try {
    const logins = [
      await openSatelliteLogin(service, { claims, app: await registerSatellite(service) }),
      await openClientLogin(db, { claims, app: await registerClient(db) }),
    ].sort();
    const { id: factorId } = await one<{ id: string }>(db, {
      sql: "select factor_id as id from auth.sessions where id = $1",
      values: [claims.session_id],
    });
    // Keeps the stack's own server from sending the notices.
    await db.query(
      "update private.apps set backchannel_logout_uri = 'https://127.0.0.1:1/' where backchannel_logout_uri = 'https://app.example/logout'",
    );
    await work({ db, service, claims, factorId, logins, first, second });
  } finally {
    await first.client.query("rollback");
    await second.client.query("rollback");
    await db.query("delete from auth.users where id = $1", [claims.sub]);
    await db.query("delete from private.logout_notices where user_id = $1", [claims.sub]);
    await Promise.all([first.client.end(), second.client.end(), close()]);
  }
}

const signOut = (line: Database, { claims }: Scene) =>
  line.query("delete from auth.sessions where id = $1", [claims.session_id]);
const distinct = async (scene: Scene) => [...new Set(await queuedLogouts(scene.db, scene.claims.sub))];

test("signing out while the second factor is being removed ends all app and client logins, without a deadlock", () =>
  withLogins(async (scene) => {
    const { claims, factorId, first, second, db } = scene;
    // Removes a factor as Supabase Auth does: first the factor, then the sessions that had reached AAL2 with it.
    await first.client.query("begin");
    await first.db.query("delete from auth.mfa_factors where id = $1", [factorId]);
    await second.client.query("begin");
    await signOut(second.db, scene);
    const downgrade = first.db.query("update auth.sessions set aal = 'aal1', factor_id = null where user_id = $1", [
      claims.sub,
    ]);
    await untilItWaits(db, { work: downgrade, blocker: second.pid });
    await second.client.query("commit");
    await downgrade;
    await first.client.query("commit");
    expect(await distinct(scene)).toEqual(scene.logins);
  }));

test("a sign-out at the identity backend doesn't deadlock with a concurrent sign-out everywhere", () =>
  withLogins(async (scene) => {
    const { claims, service, first, db } = scene;
    await first.client.query("begin");
    await signOut(first.db, scene);
    const everywhere = call(service, "sign_out_everywhere", { subject_id: claims.sub, actor_session_id: null });
    await untilItWaits(db, { work: everywhere, blocker: first.pid });
    await first.client.query("commit");
    await everywhere;
    expect(await distinct(scene)).toEqual(scene.logins);
  }));

test.each([
  ["everywhere", (actor: string) => ({ name: "sign_out_everywhere", actor })],
  ["of other sessions", () => ({ name: "end_other_sessions", actor: randomUUID() })],
])("a sign-out %s that waits for another session doesn't block a sign-out at the identity backend", (_, called) =>
  withLogins(async (scene) => {
    const { claims, service, first, second, db } = scene;
    // Sessions end in the order of their ids, so this session ends first.
    const waitedFor = `00000000-0000-4000-8000-${randomUUID().slice(-12)}`;
    await db.query("insert into auth.sessions (id, user_id, created_at, updated_at) values ($1, $2, now(), now())", [
      waitedFor,
      claims.sub,
    ]);
    await first.client.query("begin");
    await first.db.query("select from auth.sessions where id = $1 for update", [waitedFor]);
    const { name, actor } = called(claims.session_id);
    const everywhere = call(service, name, { subject_id: claims.sub, actor_session_id: actor });
    await untilItWaits(db, { work: everywhere, blocker: first.pid });
    // This sign-out deletes a session and records an event. The event references the account's row, which the other
    // sign-out has locked.
    await second.client.query("set lock_timeout = '2s'");
    await second.db.query("delete from auth.sessions where id = $1", [claims.session_id]);
    await first.client.query("commit");
    await everywhere;
    const events = await db.query<{ kind: string }>(
      "select kind from public.security_events where user_id = $1 and kind <> 'sign_in'",
      [claims.sub],
    );
    expect(events.map(({ kind }) => kind)).toContain("sign_out");
    expect(await db.query("select from auth.sessions where user_id = $1", [claims.sub])).toEqual([]);
  }),
);

test("a change of the MFA policy and a concurrent sign-out don't wait for each other", () =>
  withLogins(async (scene) => {
    const { claims, first, second } = scene;
    await first.client.query("begin");
    await first.client.query("select set_config('gatehouse.required_mfa_writer', 'on', true)");
    await first.db.query(
      `update auth.users set raw_app_meta_data =
         jsonb_set(raw_app_meta_data, '{platform_required_mfa,generation}', '7') where id = $1`,
      [claims.sub],
    );
    await second.client.query("begin");
    await second.client.query("set local lock_timeout = '2s'");
    await signOut(second.db, scene);
    await second.client.query("commit");
    await first.client.query("commit");
    expect(await distinct(scene)).toEqual(scene.logins);
  }));

test("many concurrent changes queue one logout notice per login, and each notice is claimed by exactly one caller", () =>
  withLogins(async (scene) => {
    const { db, service, claims, factorId } = scene;
    const changes = [
      () => db.query("delete from auth.sessions where user_id = $1 and factor_id is not null", [claims.sub]),
      () => db.query("delete from auth.mfa_factors where id = $1", [factorId]),
      () => db.query("update auth.users set encrypted_password = 'new' where id = $1", [claims.sub]),
      () => call(service, "sign_out_everywhere", { subject_id: claims.sub, actor_session_id: null }),
      () => db.query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [claims.sub]),
    ];
    await Promise.all(changes.map((change) => change()));
    expect(await distinct(scene)).toEqual(scene.logins);
    const claimed = await Promise.all(
      Array.from({ length: 8 }, () =>
        service.query<{ sid: string; user_id: string }>("select sid, user_id from private.claim_logout_notices(50)"),
      ),
    );
    const sids = claimed.flat().flatMap(({ sid, user_id }) => (user_id === claims.sub ? [sid] : []));
    // The stack's own server may have claimed some of the notices.
    expect(sids).toEqual([...new Set(sids)]);
  }));

test("a sign-out waits for a login in progress, and queues that login's logout notice", () =>
  withLogins(async (scene) => {
    const { service, claims, first, second, db } = scene;
    const app = await registerSatellite(service, "https://127.0.0.1:1/");
    const handoff = await handOver(service, { claims, app });
    await first.client.query("begin");
    await redeem(first.db, { app, handoff });
    const ended = signOut(second.db, scene);
    await untilItWaits(db, { work: ended, blocker: first.pid });
    await first.client.query("commit");
    await ended;
    expect(await distinct(scene)).toHaveLength(3);
  }));

test("a login in progress is refused if its session signs out meanwhile", () =>
  withLogins(async (scene) => {
    const { service, claims, first, db } = scene;
    const app = await registerSatellite(service, "https://127.0.0.1:1/");
    const handoff = await handOver(service, { claims, app });
    await first.client.query("begin");
    await signOut(first.db, scene);
    const opened = redeem(service, { app, handoff });
    await untilItWaits(db, { work: opened, blocker: first.pid });
    await first.client.query("commit");
    expect(await opened).toEqual({ refused: "token" });
  }));
