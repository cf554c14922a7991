import { createServer, request as forward } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { createTestService } from "../../scripts/test/account.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  requireMfa,
  signIn,
} from "../../scripts/test/people.ts";
import { openContext } from "../../scripts/test/request-context.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { changePolicy, readAccountPolicy, resetAuthenticators } from "./mfa-policy.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

const stack = readStack();
let admin: InfrastructureAdmin & Person;
let person: Person;

beforeEach(async () => {
  const made = await createPerson();
  admin = { ...made, sessionId: crypto.randomUUID() };
  person = await createPerson();
  await query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [admin.id]);
});
afterEach(async () => {
  await deletePerson(person);
  await deletePerson(admin);
});

const open = (env: Record<string, string> = { REQUIRED_MFA_POLICY_ENABLED: "on" }, url = stack.supabase.url) =>
  openContext({ ...stack, supabase: { ...stack.supabase, url }, env });
const request = () => ({ admin, subjectId: person.id, reason: "Asked by phone" });
const policyOf = async () => readAccountPolicy(await open(), { admin, subjectId: person.id });
const factors = () => query("select from auth.mfa_factors where user_id = $1", [person.id]);

describe("an account's MFA policy", () => {
  test("makes MFA required and optional again, with immediate effect and an audit log entry for each change", async () => {
    const browser = await enter(person);
    expect((await browser.get("/workspaces")).status).toBe(200);
    const context = await open();
    const change = { ...request(), generation: 0, step: "require" } as const;
    expect(await changePolicy(context, change)).toEqual({ outcome: "changed" });
    expect((await browser.get("/workspaces")).location).toBe("/mfa/enroll?returnUrl=%2Fworkspaces");
    expect(await policyOf()).toMatchObject({
      state: "required",
      generation: 1,
      enforced: true,
      lastChange: { action: "required_mfa.require", actorEmail: admin.email },
      locks: { policy: null, reset: null },
    });

    const back = { ...request(), generation: 1, step: "make_optional" } as const;
    expect(await changePolicy(context, back)).toEqual({ outcome: "changed" });
    expect((await browser.get("/workspaces")).status).toBe(200);
    const log = await query(
      `select action, actor_id, reason, request_id, before ->> 'required' as before, after ->> 'required' as after
       from private.admin_audit_log where target_user_id = $1 order by created_at`,
      [person.id],
    );
    const common = { actor_id: admin.id, reason: "Asked by phone", request_id: context.requestId };
    expect(log).toEqual([
      { ...common, action: "required_mfa.require", before: null, after: "true" },
      { ...common, action: "required_mfa.make_optional", before: "true", after: "false" },
    ]);
  });

  test("lets only one of two admins change the same version of an MFA policy, and tells the other who changed it", async () => {
    const change = { ...request(), generation: 0, step: "require" } as const;
    await changePolicy(await open(), change);
    const late = await changePolicy(await open(), { ...change, step: "make_optional" });
    expect(late).toMatchObject({ outcome: "refused", status: 409, message: expect.stringContaining(admin.email) });
    expect(await policyOf()).toMatchObject({ state: "required", generation: 1 });
  });

  test("a concurrent write by the identity backend never undoes an MFA policy change", async () => {
    const { auth } = createTestService();
    const writes = Array.from({ length: 25 }, (_, index) => async () => {
      const { error } = await auth.admin.updateUserById(person.id, { app_metadata: { note: index } });
      if (error) throw error;
    });
    const signIns = Array.from({ length: 5 }, () => async () => void (await signIn(person)));
    for (const [generation, step] of (["require", "make_optional", "require"] as const).entries()) {
      const change = async () => changePolicy(await open(), { ...request(), generation, step });
      const [done] = await Promise.all([change(), ...[...writes, ...signIns].map((work) => work())]);
      expect(done).toEqual({ outcome: "changed" });
      expect(await policyOf()).toMatchObject({ generation: generation + 1 });
    }
    expect(await policyOf()).toMatchObject({ state: "required", generation: 3 });
    const foreign = { app_metadata: { platform_required_mfa: null, note: null } };
    await auth.admin.updateUserById(person.id, foreign);
    expect(await policyOf()).toMatchObject({ state: "required", generation: 3 });
  });

  test("never changes the MFA policy of the admin's own account, or for a person who is not an admin", async () => {
    const change = { ...request(), generation: 0, step: "require" } as const;
    const oneself = { ...change, subjectId: admin.id };
    expect(await changePolicy(await open(), oneself)).toMatchObject({ status: 403 });
    const stranger = { ...change, admin: { ...person, sessionId: "" }, subjectId: admin.id };
    expect(await changePolicy(await open(), stranger)).toMatchObject({ status: 403 });
    expect(await readAccountPolicy(await open(), { admin, subjectId: admin.id })).toMatchObject({
      generation: 0,
      locks: { policy: expect.stringContaining("your own account"), reset: expect.any(String) },
    });
    expect(await changePolicy(await open(), { ...change, subjectId: crypto.randomUUID() })).toMatchObject({
      status: 404,
    });
  });

  test("still enforces MFA policies and allows resets while policy changes are switched off", async () => {
    await requireMfa(person);
    const off = await open({ REQUIRED_MFA_POLICY_ENABLED: "off" });
    const change = { ...request(), generation: 1 };
    expect(await changePolicy(off, { ...change, step: "make_optional" })).toMatchObject({ status: 403 });
    expect((await signIn(person, { returnUrl: "/workspaces" })).location).toMatch(/^\/mfa\/enroll/);
    expect(await readAccountPolicy(off, { admin, subjectId: person.id })).toMatchObject({
      state: "required",
      locks: { policy: expect.stringContaining("REQUIRED_MFA_POLICY_ENABLED"), reset: null },
    });
    expect(await resetAuthenticators(off, change)).toEqual({ outcome: "changed" });
  });
});

describe("a reset of authenticators", () => {
  beforeEach(async () => {
    await insertAuthenticators(person, ["Phone", "Tablet"]);
    await requireMfa(person);
  });

  test("a reset of authenticators ends every session, requires a new sign-in and enrollment, and emails the owner", async () => {
    const waiting = await enter(person);
    expect(await resetAuthenticators(await open(), { ...request(), generation: 1 })).toEqual({ outcome: "changed" });
    expect(await factors()).toEqual([]);
    expect((await waiting.get("/workspaces")).location).toBe("/login?returnUrl=%2Fworkspaces");
    expect(await policyOf()).toMatchObject({ state: "required", generation: 3 });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const browser = await signIn(person, { returnUrl: "/workspaces" });
    expect(browser.location).toBe("/mfa/enroll?returnUrl=%2Fworkspaces");
    const mails = async () => (await mailsTo(person.email)).map(({ subject }) => subject);
    await query("update private.outgoing_mails set next_attempt_at = now() where recipient = $1 and attempts = 1", [
      person.email,
    ]);
    await expect.poll(mails, { timeout: 10_000 }).toContain("Your Gatehouse authenticator apps were removed");
    const events = await query("select kind, ip from public.security_events where user_id = $1 and kind = $2", [
      person.id,
      "authenticators_reset",
    ]);
    expect(events).toEqual([{ kind: "authenticators_reset", ip: null }]);
  });

  test("a reset that fails halfway leaves the account inaccessible until another reset completes", async () => {
    const broken = await startBrokenProxy();
    try {
      const halfWay = await resetAuthenticators(await open(undefined, broken.url), { ...request(), generation: 1 });
      expect(halfWay).toMatchObject({ outcome: "refused", status: 503 });
    } finally {
      broken.close();
    }
    expect(await factors()).toHaveLength(1);
    expect(await policyOf()).toMatchObject({ state: "recovery_in_progress", generation: 2 });
    const browser = await signIn(person, { returnUrl: "/workspaces" });
    expect(browser.location).toBe("/mfa?returnUrl=%2Fworkspaces");
    expect((await browser.get("/mfa")).words).toContain("This account is being reset");
    expect((await browser.get("/api/v1/users/me/sessions")).status).toBe(403);

    const policy = { ...request(), step: "make_optional", generation: 2 } as const;
    expect(await changePolicy(await open(), policy)).toMatchObject({ status: 409 });
    expect(await resetAuthenticators(await open(), { ...request(), generation: 2 })).toEqual({ outcome: "changed" });
    expect(await factors()).toEqual([]);
    expect(await policyOf()).toMatchObject({ state: "required", generation: 4 });
  });

  // Fifty concurrent changes are tested in supabase/tests/mfa/change-policy.test.ts. Here, ten are enough, because
  // each reset makes several calls, which queue.
  test("a reset of authenticators takes effect only once when ten requests run concurrently", async () => {
    const context = await open();
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => resetAuthenticators(context, { ...request(), generation: 1 })),
    );
    expect(answers.filter(({ outcome }) => outcome === "changed")).toHaveLength(1);
    expect(answers.filter((answer) => answer.outcome === "refused" && answer.status === 409)).toHaveLength(9);
    expect(await policyOf()).toMatchObject({ state: "required", generation: 3 });
  });
});

/** Starts a proxy to the stack. The proxy breaks the connection when the server deletes the second authenticator. */
async function startBrokenProxy(): Promise<{ url: string; close(): void }> {
  let deleted = 0;
  const server = createServer((request, response) => {
    if (request.method === "DELETE" && request.url?.includes("/factors/") && ++deleted > 1) {
      request.socket.destroy();
      return;
    }
    const { method, headers, url = "" } = request;
    const onward = forward(new URL(url, stack.supabase.url), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
