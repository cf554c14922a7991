import { describe, expect } from "vitest";
import { createActor, workspaceRoles } from "../actors.ts";
import { createAdmin } from "../console/fixtures.ts";
import { createUser, type Database, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import {
  attempt,
  changeMachine,
  createMachine,
  describeMachine,
  type Machine,
  newAccount,
  newHash,
  newKey,
  readCaller,
  signInMachine,
} from "./fixtures.ts";

/** Every change of service accounts, for an existing one. Removing and revoking need no scopes. */
const changes: Record<string, { needsScopes: boolean; fields: (machine: Machine) => Record<string, unknown> }> = {
  rotate_service_secret: { needsScopes: true, fields: () => ({ secretHash: newHash(), overlapSeconds: 0 }) },
  add_service_key: { needsScopes: true, fields: () => ({ publicJwk: newKey() }) },
  remove_service_credential: { needsScopes: false, fields: ({ credentialId }) => ({ credential: credentialId }) },
  revoke_service_account: { needsScopes: false, fields: () => ({}) },
};

/** Tries to create a service account, to edit one, and to make each other change. @returns the outcomes by change */
async function attemptAll(
  db: Database,
  {
    who,
    machine,
    workspace = null,
    scopes,
  }: { who: Record<string, unknown>; machine: Machine; workspace?: string | null; scopes: readonly string[] },
): Promise<Record<string, string>> {
  const { version } = (await describeMachine(db, { id: machine.id, workspaceId: workspace })) ?? {};
  const whose = { ...who, workspace };
  const outcomes: Record<string, string> = {
    create: await attempt(db, { name: "save_service_account", change: { ...newAccount({ scopes }), ...whose } }),
    edit: await attempt(db, {
      name: "save_service_account",
      change: { ...newAccount({ scopes }), account: machine.id, version, ...whose },
    }),
  };
  for (const [name, { fields }] of Object.entries(changes))
    outcomes[name] = await attempt(db, { name, change: { ...fields(machine), account: machine.id, ...whose } });
  return outcomes;
}

const all = (outcome: string) =>
  Object.fromEntries(["create", "edit", ...Object.keys(changes)].map((name) => [name, outcome]));

describe("who manages service accounts", () => {
  test("infrastructure admins and the command line manage those of the platform", async ({ db }) => {
    const admin = await createAdmin(db);
    const { id: stranger } = await createUser(db);
    const { id: finance } = await createUser(db);
    await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [finance]);
    const machine = await createMachine(db);
    const { id: serviceAccount } = await createMachine(db, { scopes: ["admin:security:read", "admin:apps:write"] });
    const people: [string, Record<string, unknown>, string][] = [
      ["an admin", { actor: admin.id }, "made"],
      ["the command line", {}, "made"],
      ["a stranger", { actor: stranger }, "forbidden"],
      ["a finance person", { actor: finance }, "forbidden"],
      ["a service account", { serviceAccount }, "forbidden"],
      ["an admin with a service account", { actor: admin.id, serviceAccount }, "forbidden"],
      ["a service account as actor", { actor: serviceAccount }, "forbidden"],
    ];
    for (const [name, who, outcome] of people)
      expect(await attemptAll(db, { who, machine, scopes: ["admin:books"] }), name).toEqual(all(outcome));
  });

  test("members who manage members manage those of a workspace, with scopes that they have", async ({ db }) => {
    const { workspaceId, ownerId } = await createTenant(db);
    const admin = await createAdmin(db);
    const scopes = ["manage_ai_keys", "use_ai_studio"];
    const machine = await createMachine(db, { workspaceId, scopes });
    const outcomesOf = (actor: string, wanted: readonly string[] = scopes) =>
      attemptAll(db, { who: { actor }, machine, workspace: workspaceId, scopes: wanted });
    for (const { role, permissions } of workspaceRoles) {
      const { sub } = await createActor(db, { workspaceId, role });
      const allowed = (permissions as readonly string[]).includes("manage_members");
      expect(await outcomesOf(sub), role).toEqual(all(allowed ? "made" : "forbidden"));
    }
    expect(await outcomesOf(admin.id), "an admin of the console").toEqual(all("forbidden"));
    expect(await outcomesOf(machine.id), "the service account itself").toEqual(all("forbidden"));

    // Somebody who may do less than the service account can only remove it, and create others.
    const [role] = await db.query<{ id: string }>(
      `insert into public.workspace_roles (workspace_id, name, permissions)
       values ($1, 'Lead', '{manage_members,use_ai_studio}') returning id`,
      [workspaceId],
    );
    const { id: lead } = await createUser(db);
    await db.query("insert into public.workspace_members (workspace_id, user_id, role_id) values ($1, $2, $3)", [
      workspaceId,
      lead,
      role?.id,
    ]);
    const lesser = Object.fromEntries(
      Object.entries(changes).map(([name, { needsScopes }]) => [name, needsScopes ? "forbidden" : "made"]),
    );
    expect(await outcomesOf(lead)).toEqual({ create: "forbidden", edit: "forbidden", ...lesser });
    expect(await outcomesOf(lead, ["use_ai_studio"])).toEqual({ create: "made", edit: "forbidden", ...lesser });

    await db.query("update public.workspaces set deleted_at = now() where id = $1", [workspaceId]);
    expect(await outcomesOf(ownerId), "the owner of a deleted workspace").toEqual(all("forbidden"));
  });

  test("a service account of another workspace, or of the platform, is not found", async ({ db }) => {
    const [mine, theirs] = [await createTenant(db), await createTenant(db)];
    const others = [await createMachine(db, { workspaceId: theirs.workspaceId }), await createMachine(db)];
    const admin = await createAdmin(db);
    const notFound = { ...all("not_found"), create: "made" };
    for (const machine of others) {
      const who = { actor: mine.ownerId };
      const outcomes = await attemptAll(db, { who, machine, workspace: mine.workspaceId, scopes: ["use_ai_studio"] });
      expect(outcomes).toEqual(notFound);
    }
    expect(
      await attemptAll(db, { who: { actor: admin.id }, machine: others[0] as Machine, scopes: ["admin:books"] }),
    ).toEqual(notFound);
  });
});

describe("saving a service account", () => {
  test("an admin creates one, which the list and the audit log show", async ({ db }) => {
    const admin = await createAdmin(db);
    const account = newAccount({ scopes: ["admin:books", "admin:apps:read"], allowedAddresses: ["192.0.2.1"] });
    const saved = await changeMachine(db, { name: "save_service_account", change: { ...account, actor: admin.id } });
    expect(saved).toEqual({ id: expect.any(String), clientId: `svc_${saved.id}` });
    const described = await describeMachine(db, { id: saved.id ?? "" });
    expect(described).toMatchObject({
      name: account.name,
      state: "active",
      scopes: ["admin:apps:read", "admin:books"],
      allowedAddresses: ["192.0.2.1/32"],
      expiresAt: account.expiresAt,
      createdBy: admin.email,
      credentials: [{ kind: "secret", kid: null, expiresAt: null }],
    });
    expect(JSON.stringify(described)).not.toMatch(/hash/i);
    const [row] = await db.asRole("service_role", () =>
      db.query<{ list: { id: string }[] }>("select private.list_service_accounts(null, null, 1000) as list"),
    );
    expect(row?.list.map(({ id }) => id)).toContain(saved.id);
    expect(
      await db.query("select action, actor_id, target_name from private.admin_audit_log where target = $1", [
        `service account ${saved.id}`,
      ]),
    ).toEqual([{ action: "service_account.add", actor_id: admin.id, target_name: account.name }]);
  });

  test("the list of a workspace has only its own, in pages sorted by name", async ({ db }) => {
    const { workspaceId } = await createTenant(db);
    const other = await createTenant(db);
    await createMachine(db, { workspaceId: other.workspaceId });
    for (const name of ["b", "a", "c"]) {
      const { id } = await createMachine(db, { workspaceId });
      await db.query("update private.service_accounts set name = $2 where id = $1", [id, name]);
    }
    const page = async (after: string[] | null) => {
      const [row] = await db.asRole("service_role", () =>
        db.query<{ list: { id: string; name: string }[] }>("select private.list_service_accounts($1, $2, 2) as list", [
          workspaceId,
          after,
        ]),
      );
      return row?.list ?? [];
    };
    const first = await page(null);
    expect(first.map(({ name }) => name)).toEqual(["a", "b"]);
    expect((await page(["b", first[1]?.id ?? ""])).map(({ name }) => name)).toEqual(["c"]);
  });

  test("a creation needs exactly one credential, a key without its private part", async ({ db }) => {
    const { kid: _, ...withoutKid } = newKey();
    const credentials: [Record<string, unknown>, string][] = [
      [{ secretHash: newHash() }, "made"],
      [{ publicJwk: newKey(), secretHash: null }, "made"],
      [{ secretHash: null }, "invalid"],
      [{ publicJwk: newKey(), secretHash: newHash() }, "invalid"],
      [{ secretHash: "\\x00" }, "invalid"],
      [{ publicJwk: { ...newKey(), d: "x" }, secretHash: null }, "invalid"],
      [{ publicJwk: { kty: "oct", k: "x", kid: "x" }, secretHash: null }, "invalid"],
      [{ publicJwk: withoutKid, secretHash: null }, "invalid"],
      [{ publicJwk: "x", secretHash: null }, "invalid"],
    ];
    for (const [fields, outcome] of credentials) {
      const change = newAccount(fields);
      expect(await attempt(db, { name: "save_service_account", change }), JSON.stringify(fields)).toBe(outcome);
    }
  });

  test("a service account expires within 366 days, and can be renewed", async ({ db }) => {
    const [{ now } = { now: new Date() }] = await db.query<{ now: Date }>("select now() as now");
    const inTime = (milliseconds: number) => new Date(now.getTime() + milliseconds).toISOString();
    const year = 366 * 86_400_000;
    const create = (expiresAt: string | null) =>
      attempt(db, { name: "save_service_account", change: newAccount({ expiresAt }) });
    // The database's time has microseconds, which a Date cuts off.
    expect(await create(inTime(0))).toBe("invalid");
    expect(await create(inTime(1))).toBe("made");
    expect(await create(inTime(year))).toBe("made");
    expect(await create(inTime(year + 1))).toBe("invalid");
    expect(await create(null)).toBe("invalid");

    const machine = await createMachine(db);
    await db.query("update private.service_accounts set expires_at = now() - interval '1 day' where id = $1", [
      machine.id,
    ]);
    const expired = await describeMachine(db, machine);
    expect(expired?.state).toBe("expired");
    const edit = (expiresAt: string | undefined) =>
      attempt(db, {
        name: "save_service_account",
        change: { ...newAccount({ expiresAt }), account: machine.id, version: expired?.version },
      });
    // Other fields can be edited without renewing it.
    expect(await edit(expired?.expiresAt)).toBe("made");
    expect(await edit(inTime(-1))).toBe("invalid");
    expect(await edit(inTime(year))).toBe("made");
  });

  test("refuses wrong fields, and a name that is in use", async ({ db }) => {
    const wrong: [Record<string, unknown>, string][] = [
      [{ name: "" }, "invalid"],
      [{ name: "x".repeat(101) }, "invalid"],
      [{ name: "x".repeat(100) }, "made"],
      [{ scopes: [] }, "invalid"],
      [{ scopes: ["use_ai_studio"] }, "invalid"],
      [{ scopes: ["admin:books", "admin:books"] }, "made"],
      [{ allowedAddresses: ["192.0.2.1/24"] }, "invalid"],
      [{ allowedAddresses: ["example.com"] }, "invalid"],
      [{ allowedAddresses: Array.from({ length: 50 }, (_, n) => `192.0.2.${n}`) }, "made"],
      [{ allowedAddresses: Array.from({ length: 51 }, (_, n) => `192.0.2.${n}`) }, "invalid"],
      [{ enabled: null }, "invalid"],
    ];
    for (const [fields, outcome] of wrong) {
      const change = newAccount(fields);
      expect(await attempt(db, { name: "save_service_account", change }), JSON.stringify(fields)).toBe(outcome);
    }
    const { name } = newAccount();
    const { id } = await createMachine(db);
    await db.query("update private.service_accounts set name = $2 where id = $1", [id, name]);
    const again = { name: "save_service_account", change: newAccount({ name }) };
    expect(await attempt(db, again)).toBe("taken");
    await db.query("update private.service_accounts set revoked_at = now() where id = $1", [id]);
    expect(await attempt(db, again)).toBe("made");
  });

  test("an edit of an outdated version is refused, and names who changed it", async ({ db }) => {
    const admin = await createAdmin(db);
    const machine = await createMachine(db);
    const { version, name } = (await describeMachine(db, machine)) ?? {};
    const edit = (fields: Record<string, unknown>) =>
      changeMachine(db, {
        name: "save_service_account",
        change: { ...newAccount({ name, version, ...fields }), account: machine.id, actor: admin.id },
      });
    expect(await edit({ scopes: ["admin:books"] })).toMatchObject({ id: machine.id });
    expect(await edit({ scopes: ["admin:apps:read"] })).toMatchObject({
      refused: "conflict",
      last: { actorEmail: admin.email },
    });
    // It had no responsible person.
    expect(await describeMachine(db, machine)).toMatchObject({ scopes: ["admin:books"], createdBy: admin.email });
  });

  test("disabling a service account ends its tokens, which enabling does not restore", async ({ db }) => {
    const machine = await createMachine(db);
    const tokenHash = await signInMachine(db, machine);
    const save = async (enabled: boolean) => {
      const current = await describeMachine(db, machine);
      const { name, scopes, expiresAt, version } = current ?? {};
      const change = { ...newAccount({ name, scopes, expiresAt, version, enabled }), account: machine.id };
      expect(await changeMachine(db, { name: "save_service_account", change })).toMatchObject({ id: machine.id });
    };
    await save(false);
    await save(true);
    expect(await readCaller(db, { tokenHash })).toBeNull();
    expect(
      await db.query("select action from private.admin_audit_log where target = $1 order by action", [
        `service account ${machine.id}`,
      ]),
    ).toEqual([{ action: "service_account.disable" }, { action: "service_account.enable" }]);
  });

  test("a workspace has at most 100 service accounts that are not revoked", async ({ db }) => {
    const { workspaceId, ownerId } = await createTenant(db);
    await db.query(
      `insert into private.service_accounts (workspace_id, name, scopes, expires_at)
       select $1, n::text, '{use_ai_studio}', now() + interval '1 day' from generate_series(1, 99) as n`,
      [workspaceId],
    );
    const create = () =>
      changeMachine(db, {
        name: "save_service_account",
        change: { ...newAccount({ scopes: ["use_ai_studio"] }), workspace: workspaceId, actor: ownerId },
      });
    expect(await create()).toMatchObject({ id: expect.any(String) });
    expect(await create()).toEqual({ refused: "too_many" });
    await db.query("update private.service_accounts set revoked_at = now() where workspace_id = $1 and name = '1'", [
      workspaceId,
    ]);
    expect(await create()).toMatchObject({ id: expect.any(String) });
  });
});

test("the service role can't write service accounts and credentials itself", async ({ db }) => {
  const machine = await createMachine(db);
  const writes = [
    "update private.service_accounts set scopes = '{admin:books}' where id = $1",
    "delete from private.service_accounts where id = $1",
    `insert into private.service_account_credentials (service_account_id, secret_hash) values ($1, sha256('x'))`,
    "update private.service_account_credentials set expires_at = null where service_account_id = $1",
  ];
  for (const sql of writes)
    await expect(db.asRole("service_role", () => db.query(sql, [machine.id]))).rejects.toMatchObject({ code: "42501" });
});
