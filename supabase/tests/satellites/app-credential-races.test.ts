import { describe, expect, test } from "vitest";
import {
  call,
  handOver,
  newHash,
  openAppSession,
  openPools,
  redeem,
  refreshSession,
  registerApp,
  revoke,
} from "../apps/fixtures.ts";
import type { Database } from "../database.ts";
import { openLine, race, untilItWaits } from "../race-fixtures.ts";
import { beginExchange, exchange, newPair, refresh } from "./app-token-fixtures.ts";

const event = { kind: "app_disconnected" };

async function tokenScene(db: Database, service: Database) {
  const setting = await beginExchange(db, { service });
  const [pair, next] = [newPair(), newPair()];
  await exchange(service, { ...setting, pair });
  return { setting, pair, next, userId: setting.claims.sub };
}
type TokenScene = Awaited<ReturnType<typeof tokenScene>>;

const refreshToken = (line: Database, { setting, pair, next }: TokenScene) =>
  refresh(line, { ...setting, from: pair.refresh, to: next });
const disconnect = (line: Database, { app, userId }: { app: { name: string }; userId: string }) =>
  call<string>(line, "disconnect_app", { subject_id: userId, app_name: app.name, event });
/** Expects that nothing can be obtained with any of the app's credentials. */
async function expectNothingLeft(service: Database, { setting, pair, next }: TokenScene): Promise<void> {
  for (const from of [pair.refresh, next.refresh])
    expect(await refresh(service, { ...setting, from, to: newPair() })).toEqual({ refused: "token" });
}

describe("a refresh that overlaps with a revocation", () => {
  test("a token refresh in progress yields no valid token once the app is disconnected", () =>
    race<TokenScene>({
      scene: tokenScene,
      early: refreshToken,
      late: (line, { setting, userId }) => disconnect(line, { app: setting.app, userId }),
      after: async (service, { scene, answer }) => {
        expect(answer).toBe("disconnected");
        await expectNothingLeft(service, scene);
        expect(await call(service, "connected_apps", { subject_id: scene.userId })).toEqual([]);
      },
    }));

  test("a token refresh in progress yields no valid token once the password changes", () =>
    race<TokenScene>({
      scene: tokenScene,
      early: refreshToken,
      late: (line, { userId }) =>
        line.query("update auth.users set encrypted_password = 'another' where id = $1", [userId]),
      lateRole: "postgres",
      after: (service, { scene }) => expectNothingLeft(service, scene),
    }));

  test("a token refresh in progress yields no valid token once the app is disabled, even if it is enabled again", () =>
    race<TokenScene>({
      scene: tokenScene,
      early: refreshToken,
      late: (line, { setting: { app } }) =>
        line.query("update private.apps set enabled = false where id = $1", [app.id]),
      lateRole: "postgres",
      after: async (service, { scene }) => {
        await service.query("update private.apps set enabled = true where id = $1", [scene.setting.app.id]);
        await expectNothingLeft(service, scene);
      },
    }));

  test("a token refresh in progress yields no valid token once the app revokes its credential", () =>
    race<TokenScene>({
      scene: tokenScene,
      early: refreshToken,
      late: (line, { setting, pair }) => revoke(line, { app: setting.app, hash: pair.access }),
      after: (service, { scene }) => expectNothingLeft(service, scene),
    }));

  test("refreshing an app session while the app is being disconnected leaves no valid session", () =>
    race({
      scene: async (db, service) => {
        const { claims } = await beginExchange(db, { service });
        const app = await registerApp(service);
        return { app, userId: claims.sub, session: await openAppSession(service, { claims, app }), next: newHash() };
      },
      early: (line, { app, session, next }) => refreshSession(line, { app, hash: session.appHash, successor: next }),
      late: (line, { app, session }) => disconnect(line, { app, userId: session.claims.sub }),
      after: async (service, { scene: { app, next }, answer }) => {
        expect(answer).toBe("disconnected");
        expect(await refreshSession(service, { app, hash: next, successor: newHash() })).toEqual({ refused: "token" });
      },
    }));
});

/** Makes a row expire soon, and waits until it has expired. */
const endsSoon = (db: Database, table: string, userId: string) =>
  db.query(`update ${table} set expires_at = clock_timestamp() + interval '2 seconds' where user_id = $1`, [userId]);
const isOver = () => new Promise((resolve) => setTimeout(resolve, 2_100));

describe("credentials issued just before the app is disconnected", () => {
  test("disconnecting an app revokes the session that a concurrent refresh just issued", () =>
    race({
      scene: async (db, service) => {
        const { claims } = await beginExchange(db, { service });
        const app = await registerApp(service);
        const session = await openAppSession(service, { claims, app });
        await endsSoon(db, "private.app_sessions", claims.sub);
        return { app, userId: claims.sub, session, next: newHash() };
      },
      early: (line, { app, session, next }) => refreshSession(line, { app, hash: session.appHash, successor: next }),
      late: (line, { app, userId }) => isOver().then(() => disconnect(line, { app, userId })),
      after: async (service, { scene: { app, next }, answer }) => {
        expect(answer).toBe("disconnected");
        expect(await refreshSession(service, { app, hash: next, successor: newHash() })).toEqual({ refused: "token" });
      },
    }));

  test("disconnecting an app revokes the credential that a concurrent handoff just issued", () =>
    race({
      scene: async (db, service) => {
        const { claims } = await beginExchange(db, { service });
        const app = await registerApp(service);
        const handoff = await handOver(service, { claims, app });
        await endsSoon(db, "private.cross_app_tokens", claims.sub);
        return { app, userId: claims.sub, handoff, hash: newHash() };
      },
      early: (line, { app, handoff, hash }) => redeem(line, { app, handoff, appHash: hash }),
      late: (line, { app, userId }) => isOver().then(() => disconnect(line, { app, userId })),
      after: async (service, { scene: { app, hash }, answer }) => {
        expect(answer).toBe("disconnected");
        expect(await refreshSession(service, { app, hash, successor: newHash() })).toEqual({ refused: "token" });
      },
    }));
});

describe("a handoff that overlaps with a disconnection", () => {
  test("redeeming a handoff for a token yields no valid token if the app is disconnected meanwhile", () =>
    race({
      scene: async (db, service) => {
        const setting = await beginExchange(db, { service });
        return { setting, pair: newPair(), next: newPair(), userId: setting.claims.sub };
      },
      early: (line, { setting, pair }) => exchange(line, { ...setting, pair }),
      late: (line, { setting }) => disconnect(line, { app: setting.app, userId: setting.claims.sub }),
      after: async (service, { scene, answer }) => {
        expect(answer).toBe("disconnected");
        await expectNothingLeft(service, scene);
      },
    }));

  test("redeeming a handoff for a session yields no valid session if the app is disconnected meanwhile", () =>
    race({
      scene: async (db, service) => {
        const { claims } = await beginExchange(db, { service });
        const app = await registerApp(service);
        const handoff = await handOver(service, { claims, app });
        return { app, userId: claims.sub, handoff, hash: newHash() };
      },
      early: (line, { app, handoff, hash }) => redeem(line, { app, handoff, appHash: hash }),
      late: (line, { app, handoff }) => disconnect(line, { app, userId: handoff.facts.user }),
      after: async (service, { scene: { app, hash }, answer }) => {
        expect(answer).toBe("disconnected");
        expect(await refreshSession(service, { app, hash, successor: newHash() })).toEqual({ refused: "token" });
      },
    }));
});

test.each(["session", "token"])(
  "concurrently redeeming a handoff for a %s and deleting the user's account doesn't deadlock",
  async (kind) => {
    const { db, service, close } = openPools(2);
    const [holding, redeeming, deleting] = [
      await openLine("postgres"),
      await openLine("service_role"),
      await openLine("postgres"),
    ];
    const setting = await beginExchange(db, { service });
    const { sub } = setting.claims;
    try {
      // Locks the handoff's token, so that the redemption begins and then waits for the lock.
      await holding.client.query("begin");
      await holding.client.query("select from private.cross_app_tokens where token_hash = $1 for update", [
        setting.handoff.tokenHash,
      ]);
      const redeemed = kind === "session" ? redeem(redeeming.db, setting) : exchange(redeeming.db, setting);
      await untilItWaits(db, { work: redeemed, blocker: holding.pid });
      const deleted = deleting.db.query("delete from auth.users where id = $1", [sub]);
      await untilItWaits(db, { work: deleted, blocker: redeeming.pid });
      await holding.client.query("commit");
      expect((await Promise.allSettled([redeemed, deleted])).filter(({ status }) => status === "rejected")).toEqual([]);
      for (const table of ["private.cross_app_tokens", "private.app_sessions", "ai.app_tokens"])
        expect(await db.query(`select from ${table} where user_id = $1`, [sub])).toEqual([]);
    } finally {
      await holding.client.query("rollback");
      await db.query("delete from auth.users where id = $1", [sub]);
      await Promise.all([holding.client.end(), redeeming.client.end(), deleting.client.end(), close()]);
    }
  },
);

test("a token refresh waits while its app is being disconnected, and is then refused", () =>
  race<TokenScene>({
    scene: tokenScene,
    early: (line, { setting, userId }) => disconnect(line, { app: setting.app, userId }),
    late: refreshToken,
    after: async (service, { scene, answer }) => {
      expect(answer).toEqual({ refused: "token" });
      await expectNothingLeft(service, scene);
    },
  }));

test("many concurrent refreshes, revocations and disconnections don't deadlock", async () => {
  const { db, service, close } = openPools(12);
  const scene = await tokenScene(db, service);
  const { setting, pair, next, userId } = scene;
  try {
    const session = await openAppSession(service, { claims: setting.claims, app: setting.app });
    const all = Array.from({ length: 8 }, () => [
      refreshToken(service, scene),
      refresh(service, { ...setting, from: next.refresh, to: newPair() }),
      revoke(service, { app: setting.app, hash: pair.access }),
      revoke(service, { app: setting.app, hash: session.appHash }),
      disconnect(service, { app: setting.app, userId }),
      db.query("update auth.users set encrypted_password = gen_random_uuid()::text where id = $1", [userId]),
    ]).flat();
    const failed = (await Promise.allSettled(all)).filter(({ status }) => status === "rejected");
    expect(failed).toEqual([]);
    await expectNothingLeft(service, scene);
  } finally {
    await db.query("delete from auth.users where id = $1", [userId]);
    await close();
  }
});
