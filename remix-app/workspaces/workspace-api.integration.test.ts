import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  asApp,
  bearer,
  createApp,
  createPerson,
  handOver,
  type Person,
  paths,
  send,
  service,
  type TestApp,
} from "../../scripts/test/apps.ts";
import { join, one } from "../../supabase/tests/database.ts";
import { openPool } from "../../supabase/tests/pools.ts";

const { db, close } = openPool(1);
const scopes = ["profile", "workspaces:read", "workspaces:write"];
let app: TestApp;
let reader: TestApp;
let person: Person;
let member: Person;
let path: string;

beforeAll(async () => {
  [app, reader] = await Promise.all([createApp({ scopes }), createApp({ scopes: ["workspaces:read"] })]);
});
beforeEach(async () => {
  [person, member] = await Promise.all([createPerson(), createPerson()]);
  const { id } = await one<{ id: string }>(db, {
    sql: "insert into public.workspaces (name, created_by) values ('Orbit', $1) returning id",
    values: [person.id],
  });
  path = `/api/v1/workspaces/${id}`;
  await join(db, { workspaceId: id, userId: member.id, role: "viewer" });
});
afterEach(async () => {
  for (const { id } of [person, member]) await service.auth.admin.deleteUser(id);
});
afterAll(close);

const sessionOf = async (who: Person, of = app) => (await handOver(who, of)).centralSession.token;
/** Returns the statuses for bodies without a name, with an empty name, and with a valid name. */
const answersTo = async (token: string, address = path) => {
  const bodies = [{}, { name: "" }, { name: "Taken" }];
  const answers = await Promise.all(
    bodies.map((body) => send(address, { method: "PATCH", body, headers: bearer(token) })),
  );
  return answers.map(({ status }) => status);
};

describe("PATCH of a workspace, with valid and invalid bodies", () => {
  test("PATCH of a workspace returns 401 for an ended app session, whether the body is valid or not", async () => {
    const { appSession, centralSession } = await handOver(person, app);
    await asApp(app, paths.revoke, { token: appSession.token });
    for (const address of [path, "/api/v1/workspaces/x"]) {
      expect(await answersTo(centralSession.token, address)).toEqual([401, 401, 401]);
      expect(await answersTo(appSession.token, address)).toEqual([401, 401, 401]);
    }
  });

  test("PATCH of a workspace returns 403 without the app session's scope or the person's permission, even for invalid bodies", async () => {
    expect(await answersTo(await sessionOf(person, reader))).toEqual([403, 403, 403]);
    expect(await answersTo(await sessionOf(member))).toEqual([403, 403, 403]);
    expect(await answersTo(member.accessToken)).toEqual([403, 403, 403]);
  });

  test("PATCH of a workspace returns 404 to people who are not its members, even for invalid bodies", async () => {
    for (const address of [`/api/v1/workspaces/${crypto.randomUUID()}`, "/api/v1/workspaces/x"]) {
      for (const token of [await sessionOf(person), person.accessToken])
        expect(await answersTo(token, address)).toEqual([404, 404, 404]);
    }
  });

  test("PATCH of a workspace validates the body only after the permission check", async () => {
    for (const token of [await sessionOf(person), person.accessToken])
      expect(await answersTo(token)).toEqual([400, 400, 200]);
  });
});
