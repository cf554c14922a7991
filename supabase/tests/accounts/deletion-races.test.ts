import { createHash, randomBytes, randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openPools } from "../apps/fixtures.ts";
import { type Claims, createUser, type Database, enrollFactor, join, one, signIn } from "../database.ts";
import { openPool } from "../pools.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";
import { beginExchange, exchange, newPair, refresh } from "../satellites/app-token-fixtures.ts";
import { beginChallenge, decideQr, poll } from "../sign-in/login-challenge-fixtures.ts";

type Line = Awaited<ReturnType<typeof openLine>>;

/** The two ways to delete an account: by its owner, and by the identity backend. */
const ways = [
  { way: "by the owner", role: "service_role", sql: "select private.delete_account($1, 'race')" },
  { way: "by the identity backend", role: "postgres", sql: "delete from auth.users where id = $1" },
] as const;

const remaining = (db: Database, ids: string[]) =>
  db.query<{ id: string }>("select u.id from auth.users u where u.id = any ($1::uuid[])", [ids]);

let owner: ReturnType<typeof openPool>;
let lines: Line[];
beforeEach(() => {
  owner = openPool(1);
  lines = [];
});
afterEach(async () => {
  await Promise.all(lines.map(({ client }) => client.end()));
  await owner.close();
});

async function open(role: "service_role" | "postgres"): Promise<Line> {
  const line = await openLine(role);
  lines.push(line);
  return line;
}

/** Creates a workspace with a given id, so that a test knows in which order workspaces are locked. */
async function found(id: string, { founderId }: { founderId: string }): Promise<string> {
  await owner.db.query("insert into public.workspaces (id, name, created_by) values ($1, 'Shared', $2)", [
    id,
    founderId,
  ]);
  return id;
}

/**
 * Returns a random id that starts with zeros and `place`. It sorts by `place`, and before nearly every other random id.
 */
const idInOrder = (place: number) => `0000000${place}${randomUUID().slice(8)}`;

test.each(ways)(
  "the founder who left a workspace and the workspace's next owner can be deleted concurrently, $way",
  async (ending) => {
    const [founder, heir, third] = [await createUser(owner.db), await createUser(owner.db), await createUser(owner.db)];
    const left = await found(idInOrder(1), { founderId: founder.id });
    await join(owner.db, { workspaceId: left, userId: heir.id, role: "owner" });
    await owner.db.query("delete from public.workspace_members where workspace_id = $1 and user_id = $2", [
      left,
      founder.id,
    ]);
    const common = await found(idInOrder(2), { founderId: third.id });
    await join(owner.db, { workspaceId: common, userId: founder.id, role: "viewer" });
    await join(owner.db, { workspaceId: common, userId: heir.id, role: "viewer" });

    const [holder, first, second] = [await open("postgres"), await open(ending.role), await open(ending.role)];
    // The founder's deletion has begun, and waits at the last of their workspaces.
    await holder.client.query("begin");
    const last = await one<{ id: string }>(holder.db, {
      sql: "select w.id from public.workspaces w where w.personal_user_id = $1 for update",
      values: [founder.id],
    });
    expect(last.id > common).toBe(true);
    const founderEnds = first.client.query(ending.sql, [founder.id]);
    await untilItWaits(owner.db, { work: founderEnds, blocker: holder.pid });
    const heirEnds = second.client.query(ending.sql, [heir.id]);
    await untilItWaits(owner.db, { work: heirEnds, blocker: first.pid });
    await holder.client.query("rollback");

    await Promise.all([founderEnds, heirEnds]);
    expect(await remaining(owner.db, [founder.id, heir.id])).toEqual([]);
    const workspaces = "select w.id from public.workspaces w where w.id = any ($1::uuid[]) and w.deleted_at is null";
    expect(await owner.db.query(workspaces, [[left, common]])).toEqual([{ id: common }]);
  },
);

test("deletes an account only once when its owner and the identity backend delete it concurrently", async () => {
  const user = await createUser(owner.db);
  const [holder, own, backend] = [await open("postgres"), await open("service_role"), await open("postgres")];
  await holder.client.query("begin");
  await holder.client.query("select from public.workspaces w where w.id = $1 for update", [user.personalWorkspaceId]);
  const ownEnd = own.client.query(ways[0].sql, [user.id]);
  await untilItWaits(owner.db, { work: ownEnd, blocker: holder.pid });
  const backendEnd = backend.client.query(ways[1].sql, [user.id]);
  await untilItWaits(owner.db, { work: backendEnd, blocker: own.pid });
  await holder.client.query("rollback");
  expect((await Promise.all([ownEnd, backendEnd])).map(({ rowCount }) => rowCount)).toEqual([1, 0]);
});

test("deleting two members' accounts and an invitation by one of them all succeed when they run concurrently", async () => {
  const [founder, inviter, leaver] = [
    await createUser(owner.db),
    await createUser(owner.db),
    await createUser(owner.db),
  ];
  const workspaceId = await found(randomUUID(), { founderId: founder.id });
  await join(owner.db, { workspaceId, userId: inviter.id, role: "admin" });
  await join(owner.db, { workspaceId, userId: leaver.id, role: "viewer" });
  const [holder, own, backend] = [await open("postgres"), await open("service_role"), await open("postgres")];
  const inviting = await open("postgres");
  await holder.client.query("begin");
  await holder.client.query("select from public.workspace_members m where m.user_id = $1 for update", [leaver.id]);
  const leaverEnds = own.client.query(ways[0].sql, [leaver.id]);
  await untilItWaits(owner.db, { work: leaverEnds, blocker: holder.pid });
  const inviterEnds = backend.client.query(ways[1].sql, [inviter.id]);
  await untilItWaits(owner.db, { work: inviterEnds, blocker: own.pid });
  const invited = inviting.client.query(
    `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, invited_by)
     select $1, 'somebody@example.test', r.id, $2, $3
     from public.workspace_roles r where r.workspace_id = $1 and r.name = 'member'`,
    [workspaceId, randomBytes(32), inviter.id],
  );
  // Waits until the inviter's deletion blocks the invitation, or for at most 300 ms.
  await Promise.race([
    untilItWaits(owner.db, { work: invited, blocker: backend.pid }),
    new Promise((resolve) => setTimeout(resolve, 300)),
  ]);
  await holder.client.query("rollback");
  await Promise.all([leaverEnds, inviterEnds, invited]);
  expect(await remaining(owner.db, [inviter.id, leaver.id])).toEqual([]);
});

test("an app refreshes its token while the account is deleted: neither transaction aborts the other", async () => {
  const { db, service, close } = openPools(1);
  try {
    const setting = await beginExchange(db, { service });
    const [pair, next] = [newPair(), newPair()];
    await exchange(service, { ...setting, pair });
    const [holder, deletion, working] = [
      await open("postgres"),
      await open("service_role"),
      await open("service_role"),
    ];
    await holder.client.query("begin");
    await holder.client.query("select from ai.app_tokens t where t.refresh_hash = $1 for update", [pair.refresh]);
    const refreshed = refresh(
      { ...working.db, asRole: (_, work) => work() },
      { ...setting, from: pair.refresh, to: next },
    );
    await untilItWaits(owner.db, { work: refreshed, blocker: holder.pid });
    const ended = deletion.client.query(ways[0].sql, [setting.claims.sub]);
    await untilItWaits(owner.db, { work: ended, blocker: working.pid });
    await holder.client.query("rollback");
    expect(await refreshed).toMatchObject({ user: setting.claims.sub });
    await ended;
    expect(await remaining(owner.db, [setting.claims.sub])).toEqual([]);
    expect(await refresh(service, { ...setting, from: next.refresh, to: newPair() })).toEqual({ refused: "token" });
  } finally {
    await close();
  }
});

test("a session is passed between a phone and a browser by QR code while the account is deleted: neither transaction aborts the other", async () => {
  const { db, service, close } = openPools(1);
  try {
    const user = await createUser(db);
    const factorId = await enrollFactor(db, { userId: user.id });
    const [browser, phone, minted] = [
      await signIn(db, { userId: user.id, factorId }),
      await signIn(db, { userId: user.id, factorId }),
      await signIn(db, { userId: user.id }),
    ];
    const begun = await beginChallenge(service, { kind: "qr", claims: browser });
    expect(await decideQr(service, { begun, claims: phone })).toBe("approved");
    expect(await poll<string>(service, "claim_qr_challenge", { begun, claims: browser })).toBe("claimed");
    // A deletion locks security events after the sessions and before the challenges.
    await owner.db.query("insert into public.security_events (user_id, kind) values ($1, 'sign_in')", [user.id]);
    const [holder, deletion, working] = [
      await open("postgres"),
      await open("service_role"),
      await open("service_role"),
    ];
    await holder.client.query("begin");
    await holder.client.query("select from public.security_events e where e.user_id = $1 for update", [user.id]);
    const ended = deletion.client.query(ways[0].sql, [user.id]);
    await untilItWaits(owner.db, { work: ended, blocker: holder.pid });
    const completion = JSON.stringify({ id: begun.id, claims: browser, mintedSessionId: minted.session_id });
    const completed = one<{ state: string }>(working.db, {
      sql: "select private.complete_qr_challenge($1) as state",
      values: [completion],
    });
    await untilItWaits(owner.db, { work: completed, blocker: deletion.pid });
    await holder.client.query("rollback");
    await ended;
    expect(await completed).toEqual({ state: "expired" });
    expect(await remaining(owner.db, [user.id])).toEqual([]);
  } finally {
    await close();
  }
});

describe("deleting the account that a browser is signed in to", () => {
  const hash = (secret: string) => createHash("sha256").update(secret).digest("hex");
  const newTag = () => randomBytes(16).toString("hex");

  /**
   * Creates an account and signs it in to a new browser.
   * @returns the values for the SQL statements of `steps`
   */
  async function enter() {
    const user = await createUser(owner.db);
    const claims = await signIn(owner.db, { userId: user.id });
    const [deviceId, secret, tag] = [randomUUID(), randomUUID(), newTag()];
    const entry = (of: Claims, shown: { secret: string | null; next: string; tag: string }) =>
      JSON.stringify({
        deviceId,
        secret: shown.secret,
        nextHash: hash(shown.next),
        userId: of.sub,
        sessionId: of.session_id,
        sealed: "s".repeat(40),
        keyId: "k1",
        tag: shown.tag,
      });
    await owner.db.query("select private.sign_in_account($1)", [entry(claims, { secret: null, next: secret, tag })]);
    return { user, claims, deviceId, secret, tag, entry };
  }
  type Entered = Awaited<ReturnType<typeof enter>>;

  const steps: { step: string; prepare: (entered: Entered) => Promise<{ sql: string; values: unknown[] }> }[] = [
    {
      step: "signs out of it",
      prepare: async ({ deviceId, secret, user }) => ({
        sql: "select private.sign_out_account($1, $2, $3)",
        values: [deviceId, secret, user.id],
      }),
    },
    {
      step: "signs out of all",
      prepare: async ({ deviceId, secret }) => ({
        sql: "select private.sign_out_device($1, $2)",
        values: [deviceId, secret],
      }),
    },
    {
      step: "finds that its session has ended",
      prepare: async ({ deviceId, user, tag }) => ({
        sql: "select private.discard_account_session($1, $2, $3, true)",
        values: [deviceId, user.id, tag],
      }),
    },
    {
      step: "is swept",
      prepare: async ({ deviceId }) => {
        const age =
          "update private.account_vault_entries e set last_active_at = now() - interval '31 days' where e.device_id = $1";
        await owner.db.query(age, [deviceId]);
        return { sql: "select private.sweep_account_devices()", values: [] };
      },
    },
    {
      step: "adds it again",
      prepare: async ({ user, secret, entry }) => {
        const again = entry(await signIn(owner.db, { userId: user.id }), { secret, next: "", tag: newTag() });
        return {
          sql: "select private.add_account($1)",
          values: [JSON.stringify({ ...JSON.parse(again), secretHash: hash(randomUUID()) })],
        };
      },
    },
    {
      step: "shows that it was added again",
      prepare: async ({ user, deviceId, secret, entry }) => {
        const [again, added] = [await signIn(owner.db, { userId: user.id }), randomUUID()];
        const addition = { ...JSON.parse(entry(again, { secret, next: "", tag: newTag() })), secretHash: hash(added) };
        await owner.db.query("select private.add_account($1)", [JSON.stringify(addition)]);
        return { sql: "select private.take_additions($1, $2, $3)", values: [deviceId, secret, [added]] };
      },
    },
    {
      step: "continues its session",
      prepare: async ({ user, claims, secret, entry }) => {
        const next = entry(await signIn(owner.db, { userId: user.id }), { secret, next: "", tag: newTag() });
        return {
          sql: "select private.continue_account_session($1)",
          values: [JSON.stringify({ ...JSON.parse(next), inPlaceOf: claims.session_id })],
        };
      },
    },
    {
      step: "switches to it",
      prepare: async ({ user, claims, deviceId, secret, tag, entry }) => {
        const second = await signIn(owner.db, { userId: (await createUser(owner.db)).id });
        const [added, leaseId] = [randomUUID(), randomUUID()];
        const addition = { ...JSON.parse(entry(second, { secret, next: "", tag: newTag() })), secretHash: hash(added) };
        await owner.db.query("select private.add_account($1)", [JSON.stringify(addition)]);
        const { next } = await one<{ next: string }>(owner.db, {
          sql: "select private.take_additions($1, $2, $3) ->> 'secret' as next",
          values: [deviceId, secret, [added]],
        });
        await owner.db.query("select private.begin_account_switch($1, $2, $3, $4)", [deviceId, next, user.id, leaseId]);
        const target = JSON.parse(entry(claims, { secret: next, next: randomUUID(), tag: newTag() }));
        return {
          sql: "select private.activate_account($1)",
          values: [JSON.stringify({ ...target, leaseId, expectedTag: tag })],
        };
      },
    },
  ];

  test.each(steps)(
    "an account is deleted while the browser $step: neither transaction aborts the other",
    async ({ prepare }) => {
      const entered = await enter();
      const { sql, values } = await prepare(entered);
      // A deletion locks challenges after the sessions and before the browsers.
      await owner.db.query(
        `insert into private.login_challenges (kind, status, user_id, session_id, secret_hash, pair_code_hash, expires_at)
       values ('mfa_mobile', 'created', $1, gen_random_uuid(), $2, $2, now() + interval '5 minutes')`,
        [entered.user.id, randomBytes(32)],
      );
      const [holder, deletion, working] = [
        await open("postgres"),
        await open("service_role"),
        await open("service_role"),
      ];
      await holder.client.query("begin");
      await holder.client.query("select from private.login_challenges c where c.user_id = $1 for update", [
        entered.user.id,
      ]);
      const ended = deletion.client.query(ways[0].sql, [entered.user.id]);
      await untilItWaits(owner.db, { work: ended, blocker: holder.pid });
      const worked = working.client.query(sql, values).then(
        () => "done",
        ({ code }: { code: string }) => code,
      );
      await untilItWaits(owner.db, { work: worked, blocker: deletion.pid });
      await holder.client.query("rollback");
      await ended;
      // A sign-in that comes after the deletion finds no account.
      expect(["done", "23503"]).toContain(await worked);
      expect(await remaining(owner.db, [entered.user.id])).toEqual([]);
    },
  );
});
