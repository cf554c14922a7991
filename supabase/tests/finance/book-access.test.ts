import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { platformBookId } from "../../../remix-app/studio/costs/platform-book.ts";
import { createActor, createWorkspace, workspaceRoles } from "../actors.ts";
import { openAppSession, registerApp } from "../apps/fixtures.ts";
import { createAdmin } from "../console/fixtures.ts";
import { type Database, one, test } from "../database.ts";
import { documentOf, usd } from "./cost-file-fixtures.ts";

const document = JSON.stringify(documentOf([usd("2026-10-03", "5")]));
const invoice = JSON.stringify({
  provider: "openai",
  reference: "INV-1",
  amountUsd: "10",
  issuedOn: "2026-02-03",
  reviewedAt: "2026-02-04T00:00:00Z",
});
const change = JSON.stringify({ reason: "test" });

/** Every function of a book for people, with its arguments after the member and the book. */
const functions: [name: string, values: (app: string) => unknown[]][] = [
  ["list_provider_costs", () => []],
  ["list_provider_invoices", () => []],
  ["reconcile_costs", () => []],
  ["compare_costs", () => []],
  ["list_linked_apps", () => []],
  ["read_provider_invoice", () => [randomUUID()]],
  ["read_cost_import", () => [randomUUID()]],
  ["review_provider_invoice", (app) => [app, invoice]],
  ["record_provider_invoice", (app) => [app, invoice, change]],
  ["preview_cost_import", (app) => [app, document]],
  ["import_cost_file", (app) => [app, document, null, change]],
];

async function call(db: Database, name: string, values: unknown[]): Promise<Record<string, unknown>> {
  const sql = `select ai.${name}(${values.map((_, n) => `$${n + 1}`).join(", ")}) as answer`;
  return (await db.asRole("service_role", () => one<{ answer: Record<string, unknown> }>(db, { sql, values }))).answer;
}
const isNotAllowed = ({ outcome, refused }: Record<string, unknown>) => (outcome ?? refused) === "not_allowed";

describe.for(functions)("ai.%s", ([name, valuesOf]) => {
  test("is for members who may use the studio, and for no infrastructure admin, in a workspace's book", async ({
    db,
  }) => {
    const { id } = await createWorkspace(db);
    const app = (await registerApp(db, { kind: "external", workspaceId: id })).id;
    const admin = await createAdmin(db);
    expect(isNotAllowed(await call(db, name, [admin.id, id, ...valuesOf(app)]))).toBe(true);
    expect(isNotAllowed(await call(db, name, [null, id, ...valuesOf(app)]))).toBe(true);
    for (const { role, permissions } of workspaceRoles) {
      const member = await createActor(db, { workspaceId: id, role });
      const may = (permissions as readonly string[]).includes("use_ai_studio");
      expect([role, isNotAllowed(await call(db, name, [member.sub, id, ...valuesOf(app)]))]).toEqual([role, !may]);
    }
  });

  test("is only for admins and finance people in the platform's book", async ({ db }) => {
    const { owner } = await createWorkspace(db);
    const admin = await createAdmin(db);
    const values = valuesOf(platformBookId);
    expect(isNotAllowed(await call(db, name, [owner.sub, platformBookId, ...values]))).toBe(true);
    expect(isNotAllowed(await call(db, name, [null, platformBookId, ...values]))).toBe(true);
    expect(isNotAllowed(await call(db, name, [admin.id, platformBookId, ...values]))).toBe(false);
    await db.query("delete from private.infrastructure_admins where user_id = $1", [admin.id]);
    expect(isNotAllowed(await call(db, name, [admin.id, platformBookId, ...values]))).toBe(true);

    await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [admin.id]);
    expect(isNotAllowed(await call(db, name, [admin.id, platformBookId, ...values]))).toBe(false);
    const { id: workspaceId } = await createWorkspace(db);
    expect(isNotAllowed(await call(db, name, [admin.id, workspaceId, ...values]))).toBe(true);
    await db.query("delete from private.finance_people where user_id = $1", [admin.id]);
    expect(isNotAllowed(await call(db, name, [admin.id, platformBookId, ...values]))).toBe(true);
  });
});

test("refuses records of an unlinked app in a workspace's book, and of any app in the platform's", async ({ db }) => {
  const { id, owner } = await createWorkspace(db);
  const admin = await createAdmin(db);
  const app = (await registerApp(db, { kind: "external" })).id;
  for (const [name, valuesOf] of functions.filter(([, values]) => values("app").includes("app"))) {
    for (const values of [
      [owner.sub, id, ...valuesOf(app)],
      [owner.sub, id, ...valuesOf(platformBookId)],
      [admin.id, platformBookId, ...valuesOf(app)],
    ]) {
      const { outcome, refused } = await call(db, name, values);
      expect([name, outcome ?? refused]).toEqual([name, "app_not_linked"]);
    }
  }
});

test.for(["list_provider_costs", "list_provider_invoices", "reconcile_costs"])(
  "a satellite reads ai.%s of a workspace for a member who may use the studio, and never the platform's",
  async (name, { db }) => {
    const { id, owner } = await createWorkspace(db);
    const viewer = await createActor(db, { workspaceId: id, role: "viewer" });
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [owner.sub]);
    const app = await registerApp(db, { scopes: ["studio:read"] });
    const other = await registerApp(db, { scopes: ["workspaces:read"] });
    const read = async (hash: Buffer, book: string) => {
      const sql = `select ai.${name}(null, $1, token_hash => $2) as answer`;
      const { answer } = await db.asRole("service_role", () =>
        one<{ answer: Record<string, unknown> }>(db, { sql, values: [book, hash] }),
      );
      return answer.refused ?? answer.outcome;
    };
    const session = async (claims: typeof owner, of = app) =>
      (await openAppSession(db, { claims, app: of })).centralHash;
    const hash = await session(owner);
    expect(await read(hash, id)).toBe("listed");
    expect(await read(hash, platformBookId)).toBe("not_found");
    expect(await read(await session(viewer), id)).toBe("forbidden");
    expect(await read(await session(owner, other), id)).toBe("insufficient_scope");
    expect(await read(Buffer.alloc(32), id)).toBe("unauthenticated");
  },
);
