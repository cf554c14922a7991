import { expect } from "vitest";
import { platformScopes, workspaceScopes } from "../../../remix-app/machines/scopes.ts";
import { failureOf } from "../actors.ts";
import { test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { createMachine } from "./fixtures.ts";

test("the database accepts exactly the scopes that the web server offers", async ({ db }) => {
  const [constraint] = await db.query<{ definition: string }>(
    `select pg_get_constraintdef(k.oid) as definition from pg_constraint k
     where k.conrelid = 'private.service_accounts'::regclass and k.conname = 'service_accounts_known_scopes'`,
  );
  const [platform = "", workspace = ""] = constraint?.definition.split("ELSE") ?? [];
  const scopesIn = (text: string) => [...text.matchAll(/'([a-z_:]+)'/g)].map(([, scope]) => scope).toSorted();
  expect(scopesIn(platform)).toEqual([...platformScopes].toSorted());
  expect(scopesIn(workspace)).toEqual([...workspaceScopes].toSorted());
});

test("a scope of the platform is not a scope of a workspace, and no scope lets a machine manage members", async ({
  db,
}) => {
  const { workspaceId } = await createTenant(db);
  const wrong = [
    { workspaceId, scopes: ["admin:audit:read"] },
    { workspaceId, scopes: ["use_ai_studio", "manage_members"] },
    { workspaceId, scopes: ["manage_workspace_settings"] },
    { scopes: ["use_ai_studio"] },
    { scopes: ["admin:security:write"] },
    { scopes: [] },
  ];
  for (const options of wrong) {
    await db.query("savepoint wrong");
    const failure = await failureOf(() => createMachine(db, options));
    await db.query("rollback to savepoint wrong");
    expect(failure.code, JSON.stringify(options)).toBe("23514");
  }
});
