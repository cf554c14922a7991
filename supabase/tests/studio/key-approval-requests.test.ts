import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createAdmin } from "../console/fixtures.ts";
import { createUser, type Database, join, one, test } from "../database.ts";
import { openPool } from "../pools.ts";

type State = {
  outcome: string;
  approved?: boolean;
  request?: { state: string; requestedAt: string; requestedBy: string; note: string; declineReason: string } | null;
};

const asked = { subject: "Approval requested", text: "A workspace asks." };
const answered = { subject: "Answered", text: "An administrator answered." };

async function call(db: Database, { name, values }: { name: string; values: unknown[] }): Promise<State> {
  const places = values.map((_, index) => `$${index + 1}`).join(", ");
  return (await one<{ state: State }>(db, { sql: `select ai.${name}(${places}) as state`, values })).state;
}
const request = (db: Database, member: string, workspace: string, note = "Nightly summaries") =>
  call(db, { name: "request_key_approval", values: [member, workspace, note, JSON.stringify(asked)] });
const withdraw = (db: Database, member: string, workspace: string, at?: string) =>
  call(db, { name: "withdraw_key_approval_request", values: [member, workspace, at] });
const read = (db: Database, member: string, workspace: string) =>
  call(db, { name: "read_key_approval", values: [member, workspace] });

async function decide(
  db: Database,
  name: "set_key_approval" | "decline_key_approval",
  change: Record<string, unknown>,
) {
  const stamped = { reason: "Known team", requestId: "request-1", ip: "192.0.2.1", email: answered, ...change };
  const row = await one<{ answer: { refused?: string } }>(db, {
    sql: `select private.${name}($1) as answer`,
    values: [JSON.stringify(stamped)],
  });
  return row.answer;
}

async function createWorkspace(db: Database) {
  const owner = await createUser(db);
  const workspaceId = randomUUID();
  await db.query("insert into public.workspaces (id, name) values ($1, 'Night shift')", [workspaceId]);
  await join(db, { workspaceId, userId: owner.id, role: "owner" });
  return { workspaceId, owner };
}

async function addMember(db: Database, { workspaceId, role }: { workspaceId: string; role: string }) {
  const user = await createUser(db);
  await join(db, { workspaceId, userId: user.id, role });
  return user;
}

/** Returns how many emails with the given subject are queued for each person. */
async function emailsTo(
  db: Database,
  { people, subject }: { people: { id: string }[]; subject: string },
): Promise<number[]> {
  const rows = await db.query<{ id: string; emails: number }>(
    `select u.id, (
       select count(*)::integer from private.outgoing_mails m where m.recipient = u.email and m.subject = $2
     ) as emails
     from auth.users u where u.id = any ($1)`,
    [people.map(({ id }) => id), subject],
  );
  return people.map(({ id }) => rows.find((row) => row.id === id)?.emails ?? 0);
}

describe("requesting approval for keys", () => {
  test("a workspace requests approval only once, with one email to each active admin", async ({ db }) => {
    const admins = [await createAdmin(db), await createAdmin(db)];
    const banned = await createAdmin(db);
    await db.query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [banned.id]);
    const { workspaceId, owner } = await createWorkspace(db);
    const made = await request(db, owner.id, workspaceId);
    expect(made).toMatchObject({ approved: false, request: { state: "open", note: "Nightly summaries" } });
    expect(await request(db, owner.id, workspaceId, "Again")).toEqual(made);
    expect(await emailsTo(db, { people: [...admins, banned], subject: asked.subject })).toEqual([1, 1, 0]);
  });

  test("only members with manage_ai_keys can request approval", async ({ db }) => {
    const { workspaceId } = await createWorkspace(db);
    const member = await addMember(db, { workspaceId, role: "member" });
    const stranger = await createUser(db);
    for (const { id } of [member, stranger]) {
      expect(await request(db, id, workspaceId)).toEqual({ outcome: "not_allowed" });
      expect(await withdraw(db, id, workspaceId)).toEqual({ outcome: "not_allowed" });
      expect(await read(db, id, workspaceId)).toEqual({ outcome: "not_allowed" });
    }
    const admin = await addMember(db, { workspaceId, role: "admin" });
    expect(await request(db, admin.id, workspaceId)).toMatchObject({ request: { state: "open" } });
  });

  test("an approved workspace can't request approval", async ({ db }) => {
    const { workspaceId, owner } = await createWorkspace(db);
    await db.query("insert into ai.key_approvals (workspace_id) values ($1)", [workspaceId]);
    expect(await request(db, owner.id, workspaceId)).toEqual({ outcome: "read", approved: true, request: null });
  });

  test("withdrawing a request for approval requires the request's timestamp, and repeating the request within a day sends no second email", async ({
    db,
  }) => {
    const admin = await createAdmin(db);
    const { workspaceId, owner } = await createWorkspace(db);
    const made = await request(db, owner.id, workspaceId);
    expect(await withdraw(db, owner.id, workspaceId, "2026-01-01T00:00:00Z")).toEqual(made);
    const withdrawn = await withdraw(db, owner.id, workspaceId, made.request?.requestedAt);
    expect(withdrawn).toMatchObject({ request: { state: "withdrawn" } });
    expect(await request(db, owner.id, workspaceId)).toMatchObject({ request: { state: "open" } });
    expect(await emailsTo(db, { people: [admin], subject: asked.subject })).toEqual([1]);
  });

  test.for([
    { hours: 23, emails: 1 },
    { hours: 24, emails: 2 },
  ])(
    "if a request for approval is repeated $hours hours after the first email, $emails email(s) are sent in total",
    async ({ hours, emails }, { db }) => {
      const admin = await createAdmin(db);
      const { workspaceId, owner } = await createWorkspace(db);
      await request(db, owner.id, workspaceId);
      await db.query(
        `update ai.key_approval_requests set state = 'withdrawn', admins_emailed_at = now() - $2 * interval '1 hour'
       where workspace_id = $1`,
        [workspaceId, hours],
      );
      await request(db, owner.id, workspaceId);
      expect(await emailsTo(db, { people: [admin], subject: asked.subject })).toEqual([emails]);
    },
  );

  test("a member's sixth request for key approval on a day is opened but not emailed", async ({ db }) => {
    const admin = await createAdmin(db);
    const { owner } = await createWorkspace(db);
    for (let made = 0; made < 6; made += 1) {
      const { workspaceId } = await createWorkspace(db);
      await join(db, { workspaceId, userId: owner.id, role: "owner" });
      expect(await request(db, owner.id, workspaceId)).toMatchObject({ request: { state: "open" } });
      expect(await emailsTo(db, { people: [admin], subject: asked.subject })).toEqual([Math.min(made + 1, 5)]);
    }
  });

  test("an approval email counts towards the daily limit of the member who requested approval first, even if another member repeats the request", async ({
    db,
  }) => {
    const [admin, member, other] = [await createAdmin(db), await createUser(db), await createUser(db)];
    for (let made = 0; made < 12; made += 1) {
      const { workspaceId } = await createWorkspace(db);
      for (const { id } of [member, other]) await join(db, { workspaceId, userId: id, role: "owner" });
      await withdraw(db, other.id, workspaceId, (await request(db, member.id, workspaceId)).request?.requestedAt);
      await request(db, other.id, workspaceId);
    }
    expect(await emailsTo(db, { people: [admin], subject: asked.subject })).toEqual([5 + 5]);
  });

  test("the queue of requests lists the oldest first, page by page, and its count excludes deleted workspaces", async ({
    db,
  }) => {
    await db.query("delete from ai.key_approval_requests where state = 'open'", []);
    const workspaces: string[] = [];
    for (let made = 0; made < 3; made += 1) {
      const { workspaceId, owner } = await createWorkspace(db);
      await request(db, owner.id, workspaceId);
      await db.query(
        "update ai.key_approval_requests set requested_at = now() - $2 * interval '1 hour' where workspace_id = $1",
        [workspaceId, made],
      );
      workspaces.unshift(workspaceId);
    }
    type Waiting = { id: string; createdAt: string };
    const page = async (after: Waiting | null) =>
      (
        await one<{ page: Waiting[] }>(db, {
          sql: "select private.list_approval_requests($1, 2) as page",
          values: [after && JSON.stringify(after)],
        })
      ).page;
    const first = await page(null);
    const rest = await page(first[1] ?? null);
    expect([...first, ...rest].map(({ id }) => id)).toEqual(workspaces);
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [workspaces[0]]);
    expect(await one(db, { sql: "select private.count_approval_requests() as open", values: [] })).toEqual({ open: 2 });
  });
});

describe("answering a request for approval", () => {
  test("an admin declines a request with a reason that members see, and the workspace can request again", async ({
    db,
  }) => {
    const admin = await createAdmin(db);
    const { workspaceId, owner } = await createWorkspace(db);
    const requester = await addMember(db, { workspaceId, role: "admin" });
    const bystander = await addMember(db, { workspaceId, role: "member" });
    const { request: made } = await request(db, requester.id, workspaceId);
    const decline = { actor: admin.id, workspace: workspaceId, requestedAt: made?.requestedAt, reason: "Which team?" };
    expect(await decide(db, "decline_key_approval", decline)).toEqual({});
    expect(await decide(db, "decline_key_approval", decline)).toEqual({ refused: "request_gone" });
    expect(await read(db, owner.id, workspaceId)).toMatchObject({
      approved: false,
      request: { state: "declined", declineReason: "Which team?" },
    });
    const people = [owner, requester, bystander];
    expect(await emailsTo(db, { people, subject: answered.subject })).toEqual([1, 1, 0]);
    const lines = await db.query("select action, reason from private.admin_audit_log where target = $1", [
      `workspace ${workspaceId}`,
    ]);
    expect(lines).toEqual([{ action: "ai_keys.decline", reason: "Which team?" }]);
    await request(db, requester.id, workspaceId, "The night team");
    expect(await read(db, owner.id, workspaceId)).toMatchObject({
      request: { state: "open", note: "The night team", declineReason: null },
    });
    expect(await emailsTo(db, { people: [admin], subject: asked.subject })).toEqual([2]);
  });

  test("approving a workspace answers its open request, even if the admin did not see the request", async ({ db }) => {
    const admin = await createAdmin(db);
    for (const saw of [true, false]) {
      const { workspaceId, owner } = await createWorkspace(db);
      const { request: made } = await request(db, owner.id, workspaceId);
      const approve = { actor: admin.id, workspace: workspaceId, approved: true };
      const seen = saw ? { requestedAt: made?.requestedAt } : {};
      expect(await decide(db, "set_key_approval", { ...approve, ...seen })).toEqual({});
      expect(await read(db, owner.id, workspaceId)).toMatchObject({ approved: true, request: { state: "approved" } });
      expect(await emailsTo(db, { people: [owner], subject: answered.subject })).toEqual([1]);
    }
  });

  test("after a key approval request is withdrawn, answers to the request are refused, and approving the workspace sends no email", async ({
    db,
  }) => {
    const admin = await createAdmin(db);
    const { workspaceId, owner } = await createWorkspace(db);
    const { request: made } = await request(db, owner.id, workspaceId);
    await withdraw(db, owner.id, workspaceId, made?.requestedAt);
    const change = { actor: admin.id, workspace: workspaceId, requestedAt: made?.requestedAt, approved: true };
    expect(await decide(db, "decline_key_approval", change)).toEqual({ refused: "request_gone" });
    expect(await decide(db, "set_key_approval", change)).toEqual({ refused: "request_gone" });
    expect(await read(db, owner.id, workspaceId)).toMatchObject({ approved: false });
    expect(await decide(db, "set_key_approval", { ...change, requestedAt: null })).toEqual({});
    expect(await emailsTo(db, { people: [owner], subject: answered.subject })).toEqual([0]);
  });

  test("only an admin can answer a key approval request, and no admin can answer one for their own personal workspace", async ({
    db,
  }) => {
    const admin = await createAdmin(db);
    const { workspaceId, owner } = await createWorkspace(db);
    const { request: made } = await request(db, owner.id, workspaceId);
    const change = { workspace: workspaceId, requestedAt: made?.requestedAt };
    expect(await decide(db, "decline_key_approval", { ...change, actor: owner.id })).toEqual({ refused: "forbidden" });
    const own = await one<{ id: string }>(db, {
      sql: "select id from public.workspaces where personal_user_id = $1",
      values: [admin.id],
    });
    const ownRequest = await request(db, admin.id, own.id);
    const about = { actor: admin.id, workspace: own.id, requestedAt: ownRequest.request?.requestedAt };
    expect(await decide(db, "decline_key_approval", about)).toEqual({ refused: "oneself" });
    const missing = { ...about, workspace: randomUUID() };
    expect(await decide(db, "decline_key_approval", missing)).toEqual({ refused: "not_found" });
  });
});

describe("concurrent key approval requests and answers", () => {
  test("concurrent requests for key approval create one request and one email, and at most one concurrent answer takes effect", async () => {
    const { db, close } = openPool(20);
    const [admin, owner, workspace] = [randomUUID(), randomUUID(), randomUUID()];
    try {
      for (const id of [admin, owner]) {
        await db.query(
          "insert into auth.users (id, aud, role, email) values ($1, 'authenticated', 'authenticated', $1::uuid || '@race.test')",
          [id],
        );
      }
      await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'race')", [admin]);
      await db.query("insert into public.workspaces (id, name) values ($1, 'Race')", [workspace]);
      await join(db, { workspaceId: workspace, userId: owner, role: "owner" });
      const made = await Promise.all(Array.from({ length: 20 }, () => request(db, owner, workspace)));
      expect(new Set(made.map((state) => state.request?.requestedAt)).size).toBe(1);
      // The stack's own server may have sent and deleted an email by now.
      expect((await emailsTo(db, { people: [{ id: admin }], subject: asked.subject }))[0]).toBeLessThanOrEqual(1);

      const requestedAt = made[0]?.request?.requestedAt;
      const change = { actor: admin, workspace, requestedAt, approved: true };
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          index % 3 === 2
            ? withdraw(db, owner, workspace, requestedAt).then(() => ({ refused: "withdrawn" }))
            : decide(db, index % 3 === 0 ? "set_key_approval" : "decline_key_approval", {
                ...change,
                approved: index % 3 === 0,
              }),
        ),
      );
      const given = answers.filter(({ refused }) => refused === undefined).length;
      const { state, approved } = await one<{ state: string; approved: boolean }>(db, {
        sql: `select q.state, exists (select from ai.key_approvals a where a.workspace_id = q.workspace_id) as approved
              from ai.key_approval_requests q where q.workspace_id = $1`,
        values: [workspace],
      });
      expect(state).not.toBe("open");
      expect({ given, approved }).toEqual({ given: state === "withdrawn" ? 0 : 1, approved: state === "approved" });
      expect((await emailsTo(db, { people: [{ id: owner }], subject: answered.subject }))[0]).toBeLessThanOrEqual(
        given,
      );
    } finally {
      await db.query("delete from private.outgoing_mails where recipient = any ($1)", [
        [admin, owner].map((id) => `${id}@race.test`),
      ]);
      await db.query("delete from private.admin_audit_log where target = $1", [`workspace ${workspace}`]);
      await db.query("delete from public.workspaces where id = $1", [workspace]);
      await db.query("delete from auth.users where id = any ($1)", [[admin, owner]]);
      await close();
    }
  });
});
