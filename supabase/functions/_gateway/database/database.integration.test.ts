import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type DatabaseLine, openLine } from "../../../tests/gateway/database-line.ts";
import { books, createTenant, type Tenant } from "../../../tests/gateway/fixtures.ts";
import { openPool } from "../../../tests/pools.ts";
import { openLine as openRaceLine } from "../../../tests/race-fixtures.ts";
import { createRunStarter } from "../admission/begin-runs.ts";
import { createSettlements, type Outcome } from "../runs/settlements.ts";
import { createDatabase, type GatewayDatabase, type Run, type RunRequest } from "./database.ts";

let line: DatabaseLine;
let database: GatewayDatabase;
let owner: ReturnType<typeof openPool>;
let tenant: Tenant;

beforeEach(async () => {
  line = await openLine();
  database = createDatabase({ url: line.url, connections: 1 });
  owner = openPool(2);
  tenant = await createTenant(owner.db, { credits: "100" });
});
afterEach(async () => {
  await database.close();
  await owner.close();
  line.close();
});

function request(of: Pick<Tenant, "keyHash" | "model"> = tenant): RunRequest {
  return {
    credential: { source: "key", hash: of.keyHash },
    request_id: randomUUID(),
    feature: "chat",
    kind: "chat",
    streamed: false,
    model: of.model,
    providers: ["demo"],
    regions: {},
    input_bytes: 300,
    images: 0,
    audio: false,
    output_limit: 100,
    choices: 1,
  };
}

function outcome(run: { created_at: string; run_id: string }): Outcome {
  return {
    created_at: run.created_at,
    id: run.run_id,
    status: "succeeded",
    http_status: 200,
    usage_source: "provider",
    route: 1,
    input_tokens: 13,
    output_tokens: 7,
    cost_usd: "0.00000615",
    credits: "0.0615",
    latency_ms: 1,
    steps: [],
    key_unused: false,
  };
}

async function beginRun(): Promise<Run> {
  const begun = await database.beginRun(request());
  if ("storedAnswer" in begun) throw new Error("no new run");
  return begun;
}

describe("the gateway's database", () => {
  test("answers 503 AUTH_UNAVAILABLE when a person's policy can't be read, and service_unavailable for a key", async () => {
    line.cut();
    const workspace = tenant.workspaceId;
    const [sub, session_id] = [randomUUID(), randomUUID()];
    const credentials: [string, RunRequest["credential"]][] = [
      ["service_unavailable", { source: "key", hash: tenant.keyHash }],
      ["AUTH_UNAVAILABLE", { source: "app_token", hash: tenant.keyHash }],
      [
        "AUTH_UNAVAILABLE",
        { source: "session", claims: { sub, session_id, aal: "aal2", amr: [], approval_proof: undefined } },
      ],
    ];
    for (const [code, credential] of credentials) {
      const caller = { credential, workspace };
      for (const ask of [
        () => database.beginRun({ ...request(), ...caller }),
        () => database.checkCredential(caller),
        () => database.listModels({ ...caller, providers: [], regions: {}, paths: [] }),
        () => database.describeCredential(caller),
        () => database.checkAppCaller(caller),
        () => database.importCosts({ ...caller, records: [] }),
        () => database.importInvoice({ ...caller, record: {} }),
        () => database.reportUsage({ ...caller, notes_use: false }),
      ]) {
        await expect(ask()).rejects.toMatchObject({ code, status: 503, cause: expect.anything() });
      }
    }
  });

  test("answers AUTH_UNAVAILABLE if reading a person's account fails, and service_unavailable if something else does", async () => {
    const claims = { sub: randomUUID(), session_id: randomUUID(), aal: "aal2", amr: [], approval_proof: undefined };
    const session = { source: "session", claims };
    const fails = (change: object) => database.beginRun({ ...request(), workspace: tenant.workspaceId, ...change });
    // Postgres can't convert these values: the first one while it reads the account, the second one before that.
    await expect(fails({ credential: session, workspace: "x" })).rejects.toMatchObject({ code: "AUTH_UNAVAILABLE" });
    const unreadable = { credential: session, input_bytes: "x" };
    await expect(fails(unreadable)).rejects.toMatchObject({ code: "service_unavailable", cause: expect.anything() });
  });

  test("a call makes two database round trips, one to begin its run and one to settle it", async () => {
    await database.beginRun(request());
    const connected = line.flights();
    const run = await beginRun();
    expect(line.flights() - connected).toBe(1);
    await database.settleRuns([outcome(run)]);
    expect(line.flights() - connected).toBe(2);
  });

  test("if a pooler switches to a connection without the prepared statement, the gateway retries and stops using named statements", async () => {
    await beginRun();
    const flights = line.flights();
    for (const expected of [2, 3]) {
      await line.say("deallocate all");
      await beginRun();
      expect(line.flights() - flights).toBe(expected);
    }
    expect(await books(owner.db, tenant)).toMatchObject({ open: 3 });
  });

  test("if a pooler switches to a connection that already has a statement of the same name, the gateway retries and stops using named statements", async () => {
    const run = await beginRun();
    await line.say('prepare "select ai.settle_runs($1)::text" as select 1');
    const flights = line.flights();
    for (const expected of [2, 3]) {
      await database.settleRuns([outcome(run)]);
      expect(line.flights() - flights).toBe(expected);
    }
    expect(await books(owner.db, tenant)).toMatchObject({ balance: "99.93850000", open: 0 });
  });

  test("the gateway keeps its connection when Postgres rejects a statement", async () => {
    const run = await beginRun();
    await expect(database.settleRuns([{ ...outcome(run), error_code: "\u0000" }])).rejects.toThrow();
    const before = line.flights();
    await beginRun();
    // A new connection would take round trips of its own.
    expect(line.flights() - before).toBe(1);
  });

  test("the gateway answers service_unavailable while the database is down, and reconnects once it is back", async () => {
    await database.beginRun(request());
    line.cut();
    for (let attempt = 0; attempt < 3; attempt++) {
      await expect(database.beginRun(request())).rejects.toMatchObject({ code: "service_unavailable", status: 503 });
    }
    line.mend();
    await expect(database.beginRun(request())).resolves.toMatchObject({ run_id: expect.any(String) });
  });

  test("concurrent calls are batched, and each is answered separately", async () => {
    await database.beginRun(request());
    const flights = line.flights();
    const asked = Array.from({ length: 50 }, (_, place) => ({
      ...request(),
      ...(place === 7 ? { model: "none" } : {}),
    }));
    const answers = await Promise.allSettled(asked.map((each) => database.beginRun(each)));
    expect(line.flights() - flights).toBeLessThan(10);
    expect(answers.flatMap(({ status }, place) => (status === "rejected" ? [place] : []))).toEqual([7]);
    for (const [place, answer] of answers.entries()) {
      if (answer.status !== "fulfilled" || "storedAnswer" in answer.value) continue;
      const { created_at, run_id } = answer.value;
      const sql = "select request_id from ai.runs where created_at = $1 and id = $2";
      expect(await owner.db.query(sql, [created_at, run_id])).toEqual([{ request_id: asked[place]?.request_id }]);
    }
  });

  // One by one, they would wait for one commit each.
  test("concurrent calls with idempotency keys are batched, and one of those with the same key begins", async () => {
    await database.beginRun(request());
    const before = line.calls().length;
    const keys = [...Array.from({ length: 40 }, (_, place) => `key ${place}`), "key 7"];
    const calls = keys.map((key) => ({ ...request(), idempotency_key: key, fingerprint: "00".repeat(32) }));
    const answers = await Promise.allSettled(calls.map((each) => database.beginRun(each)));
    expect(line.calls().length - before).toBeLessThan(30);
    const refused = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason.code] : []));
    expect(refused).toEqual(["request_in_progress"]);
    expect(await books(owner.db, tenant)).toMatchObject({ open: 41 });
  });

  test("of the same idempotency keys that two gateways batch in opposite orders, each begins one run", async () => {
    const gateways = [database, createDatabase({ url: line.url, connections: 1 })];
    const calls = Array.from({ length: 40 }, (_, place) => ({
      ...request(),
      idempotency_key: `key ${place}`,
      fingerprint: "00".repeat(32),
    }));
    const answers = await Promise.allSettled(
      gateways.flatMap((each, place) => (place ? calls.toReversed() : calls).map((call) => each.beginRun(call))),
    );
    const refused = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason.code] : []));
    expect(refused).toEqual(Array(40).fill("request_in_progress"));
    expect(await books(owner.db, tenant)).toMatchObject({ open: 40 });
    await gateways[1]?.close();
  });

  test("the gateway answers service_unavailable if the database hangs for longer than calls wait, and the refused run does not begin later", async () => {
    await database.close();
    database = createDatabase({ url: line.url, connections: 1, waitMs: 1_000 });
    await database.beginRun(request());
    const holder = owner.db.query(
      `do $$ begin
         perform from ai.credit_accounts where workspace_id = '${tenant.workspaceId}' for update;
         perform pg_sleep(2);
       end $$`,
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
    await expect(database.beginRun(request())).rejects.toMatchObject({
      code: "service_unavailable",
      headers: { "retry-after": expect.any(String) },
    });
    await holder;
    expect(await books(owner.db, tenant)).toMatchObject({ open: 1 });
  });

  test("a run is settled after the database is back if it went down between begin and settle", async () => {
    const run = await beginRun();
    const kept: Promise<unknown>[] = [];
    const settlements = createSettlements({
      settle: database.settleRuns,
      waitUntil: (work) => kept.push(work),
      report: (error) => {
        throw error;
      },
    });
    line.cut();
    settlements.add(outcome(run), { workspaceId: tenant.workspaceId, promptly: false });
    setTimeout(() => line.mend(), 300);
    await Promise.all(kept);
    expect(await books(owner.db, tenant)).toMatchObject({ balance: "99.93850000", reserved: "0.00000000", open: 0 });
  });

  test("the gateway's role can't create any object, not even a temporary table", async () => {
    const may = "select has_database_privilege('gateway', current_database(), 'temporary') as may";
    expect(await owner.db.query(may)).toEqual([{ may: false }]);
  });

  test("each code with which begin_runs refuses a call has a gateway error", async () => {
    const stranger = { ...request(), credential: { source: "key" as const, hash: "00".repeat(32) } };
    await expect(database.beginRun(stranger)).rejects.toMatchObject({ code: "invalid_api_key", status: 401 });
    await expect(database.checkCredential(stranger)).rejects.toMatchObject({ code: "invalid_api_key" });
    const { credential } = request();
    await expect(database.checkCredential({ credential })).resolves.toBe(tenant.workspaceId);
    await expect(database.checkCredential({ credential, workspace: tenant.ownerId })).rejects.toMatchObject({
      code: "workspace_mismatch",
    });
    await expect(database.beginRun({ ...request(), model: "none" })).rejects.toMatchObject({ code: "model_not_found" });
  });
});

describe("batched calls that begin and settle runs", () => {
  let other: Tenant;
  let holder: Awaited<ReturnType<typeof openHolder>>;

  /** Opens a connection that can lock a tenant's balance. */
  async function openHolder() {
    const { client, pid } = await openRaceLine("postgres");
    return {
      pid,
      hold: async ({ workspaceId }: Tenant) => {
        await client.query("begin");
        await client.query("select from ai.credit_accounts a where a.workspace_id = $1 for update", [workspaceId]);
      },
      letGo: () => client.query("rollback"),
      close: () => client.end(),
    };
  }

  /** Makes several calls in one turn of the event loop, so that they form one batch. */
  async function beginTogether(of: Tenant, calls: number) {
    const begun = Promise.allSettled(Array.from({ length: calls }, () => database.beginRun(request(of))));
    await setImmediate();
    return begun.then((answers) => answers.map(({ status }) => status));
  }

  /** Starts two batches: one that waits for the lock, and behind it a batch of another tenant. */
  async function beginBoth() {
    await holder.hold(tenant);
    const waiting = beginTogether(tenant, 2);
    await expect.poll(waitingProcess, { interval: 5 }).not.toBe(0);
    return { waiting, behind: beginTogether(other, 4) };
  }

  /** Returns the id of the server process that waits for the lock, or 0. */
  async function waitingProcess(): Promise<number> {
    const sql = `select a.pid from pg_stat_activity a
       where a.usename = 'gateway' and a.wait_event_type = 'Lock' and $1::integer = any (pg_blocking_pids(a.pid))`;
    const [process] = await owner.db.query<{ pid: number }>(sql, [holder.pid]);
    return process?.pid ?? 0;
  }

  function releaseOrphans(): Promise<unknown>[] {
    const kept: Promise<unknown>[] = [];
    database = { ...database, beginRun: createRunStarter({ database, waitUntil: (work) => kept.push(work) }) };
    return kept;
  }
  const open = async () => [(await books(owner.db, tenant)).open, (await books(owner.db, other)).open];
  const all = (count: number, status: string) => Array.from({ length: count }, () => status);

  beforeEach(async () => {
    await database.close();
    database = createDatabase({ url: line.url, connections: 4 });
    other = await createTenant(owner.db, { credits: "100" });
    holder = await openHolder();
    // Opens two connections in advance, so that both have already prepared the statements.
    await Promise.all([beginTogether(other, 1), beginTogether(other, 1)]);
  });
  afterEach(() => holder.close());

  test("a person's call that gets no connection in time is answered with service_unavailable", async () => {
    await database.close();
    database = createDatabase({ url: line.url, connections: 1, waitMs: 500 });
    const run = await beginRun();
    await holder.hold(tenant);
    // Waits for the lock on the only connection.
    const waiting = database.settleRuns([outcome(run)]);
    const credential = { source: "app_token", hash: tenant.keyHash } as const;
    await expect(database.checkCredential({ credential })).rejects.toMatchObject({ code: "service_unavailable" });
    await holder.letGo();
    await waiting;
  });

  test("calls of a workspace whose lock is held wait for it, however often it times out, and delay no other workspace", async () => {
    await holder.hold(tenant);
    const before = line.calls().length;
    const waiting = beginTogether(tenant, 100);
    // The batch waits for the lock for four times as long as a recent one took.
    await expect.poll(() => line.calls().length - before, { timeout: 10_000 }).toBeGreaterThan(1);
    expect(await beginTogether(other, 4)).toEqual(all(4, "fulfilled"));
    expect(await open()).toEqual([0, 6]);
    await holder.letGo();
    expect(await waiting).toEqual(all(100, "fulfilled"));
    expect(await open()).toEqual([100, 6]);
  });

  test("a caller does not wait for the calls of a workspace that it only names", async () => {
    await beginTogether(tenant, 1);
    await holder.hold(tenant);
    const { workspaceId } = tenant;
    const waiting = database.beginRun({ ...request(), workspace: workspaceId });
    await expect.poll(waitingProcess, { interval: 5 }).not.toBe(0);
    const stranger = { ...request(other), workspace: workspaceId };
    await expect(database.beginRun(stranger)).rejects.toMatchObject({ code: "workspace_mismatch" });
    await holder.letGo();
    await waiting;
  });

  test("a call that can no longer be answered in time is refused without a statement", async () => {
    await database.close();
    database = createDatabase({ url: line.url, connections: 1, waitMs: 250 });
    const before = line.calls().length;
    await expect(database.beginRun(request())).rejects.toMatchObject({ status: 503, headers: { "retry-after": "5" } });
    expect(line.calls().length - before).toBe(0);
  });

  test("a batch leaves no reservation for calls that fail because the connection broke before the answer", async () => {
    const kept = releaseOrphans();
    await holder.hold(tenant);
    const waiting = beginTogether(tenant, 2);
    await expect.poll(waitingProcess, { interval: 5 }).not.toBe(0);
    line.cut();
    expect(await waiting).toEqual(all(2, "rejected"));
    await holder.letGo();
    line.mend();
    await Promise.all(kept);
    expect(await open()).toEqual([0, 2]);
    expect(await beginTogether(tenant, 2)).toEqual(all(2, "fulfilled"));
  });

  test("a batch is retried if the server ends its connection", async () => {
    const { waiting, behind } = await beginBoth();
    await owner.db.query("select pg_terminate_backend($1)", [await waitingProcess()]);
    await holder.letGo();
    expect([...(await waiting), ...(await behind)]).toEqual(all(6, "fulfilled"));
    expect(await open()).toEqual([2, 6]);
  });

  test("a batch leaves no reservation for calls that fail while its Postgres process is suspended", async () => {
    await database.close();
    database = createDatabase({ url: line.url, connections: 4, waitMs: 1_000 });
    const kept = releaseOrphans();
    await holder.hold(tenant);
    const waiting = beginTogether(tenant, 2);
    await expect.poll(waitingProcess, { interval: 5 }).not.toBe(0);
    const server = await waitingProcess();
    process.kill(server, "SIGSTOP");
    try {
      await holder.letGo();
      expect(await waiting).toEqual(all(2, "rejected"));
      // Waits long enough for the first attempt to release the orphaned runs. That attempt finds no runs, because the
      // server is suspended.
      await new Promise((resolve) => setTimeout(resolve, 500));
    } finally {
      process.kill(server, "SIGCONT");
    }
    await Promise.all(kept);
    expect(await open()).toEqual([0, 2]);
  });

  test("no call is lost when all connections lose their prepared statements at the same time", async () => {
    await Promise.all([1, 2, 3].map((calls) => beginTogether(other, calls)));
    const before = (await books(owner.db, other)).open;
    await line.say("deallocate all");
    const answers = await Promise.all([4, 5, 6].map((calls) => beginTogether(other, calls)));
    expect(answers.flat()).toEqual(all(15, "fulfilled"));
    expect((await books(owner.db, other)).open).toBe(before + 15);
  });

  test("a batch settles every outcome except one that Postgres can't read, which is reported", async () => {
    const answers = await Promise.all([1, 2, 3].map(() => beginRun()));
    const reported: unknown[] = [];
    const settlements = createSettlements({
      settle: database.settleRuns,
      waitUntil: () => {},
      report: (error) => reported.push(error),
    });
    for (const [place, run] of answers.entries()) {
      const ended = { workspaceId: tenant.workspaceId, promptly: false };
      settlements.add({ ...outcome(run), ...(place === 1 ? { error_code: "\u0000" } : {}) }, ended);
    }
    await settlements.flush();
    expect(await books(owner.db, tenant)).toMatchObject({ balance: "99.87700000", open: 1 });
    expect(reported).toHaveLength(1);
  });
});
