import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createBegin } from "../functions/_gateway/admission/begin-runs.ts";
import { createDatabase, type GatewayDatabase, type Run, type RunRequest } from "../functions/_gateway/database.ts";
import { createSettlements, type Outcome } from "../functions/_gateway/runs/settlements.ts";
import { books, createTenant, type Tenant } from "./ai-fixtures.ts";
import { type DatabaseLine, openLine } from "./database-line.ts";
import { openPool } from "./pools.ts";
import { openLine as openRaceLine } from "./race-fixtures.ts";

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
    calls: [{ route: 1, usage: { input_tokens: 13, output_tokens: 7 }, estimated: false }],
    latency_ms: 1,
    steps: [],
    key_unused: false,
  };
}

async function beginRun(): Promise<Run> {
  const begun = await database.beginRun(request());
  if ("kept" in begun) throw new Error("no new run");
  return begun;
}

describe("the gateway's database", () => {
  test("takes one network flight a statement: two for a call", async () => {
    await database.beginRun(request());
    const connected = line.flights();
    const run = await beginRun();
    expect(line.flights() - connected).toBe(1);
    await database.settleRuns([outcome(run)]);
    expect(line.flights() - connected).toBe(2);
  });

  test("is asked once more where a pooler's next connection knows no name of ours, and then without names", async () => {
    await beginRun();
    const flights = line.flights();
    for (const expected of [2, 3]) {
      await line.say("deallocate all");
      await beginRun();
      expect(line.flights() - flights).toBe(expected);
    }
    expect(await books(owner.db, tenant)).toMatchObject({ open: 3 });
  });

  test("is asked once more where a pooler's next connection has one of our names from somebody else", async () => {
    const run = await beginRun();
    await line.say('prepare "select ai.settle_runs($1)::text" as select 1');
    const flights = line.flights();
    for (const expected of [2, 3]) {
      await database.settleRuns([outcome(run)]);
      expect(line.flights() - flights).toBe(expected);
    }
    expect(await books(owner.db, tenant)).toMatchObject({ balance: "99.93850000", open: 0 });
  });

  test("that is away is service_unavailable, and is used again once it is back", async () => {
    await database.beginRun(request());
    line.cut();
    for (let attempt = 0; attempt < 3; attempt++) {
      await expect(database.beginRun(request())).rejects.toMatchObject({ code: "service_unavailable", status: 503 });
    }
    line.mend();
    await expect(database.beginRun(request())).resolves.toMatchObject({ run_id: expect.any(String) });
  });

  test("decides about calls of one moment together, each for itself", async () => {
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
      if (answer.status !== "fulfilled" || "kept" in answer.value) continue;
      const { created_at, run_id } = answer.value;
      const sql = "select request_id from ai.runs where created_at = $1 and id = $2";
      expect(await owner.db.query(sql, [created_at, run_id])).toEqual([{ request_id: asked[place]?.request_id }]);
    }
  });

  test("that hangs is service_unavailable within two seconds, and nothing begins afterwards", async () => {
    await database.beginRun(request());
    const holder = owner.db.query(
      `do $$ begin
         perform from ai.credit_accounts where workspace_id = '${tenant.workspaceId}' for update;
         perform pg_sleep(2);
       end $$`,
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
    const startedAt = performance.now();
    await expect(database.beginRun(request())).rejects.toMatchObject({ code: "service_unavailable" });
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    await holder;
    expect(await books(owner.db, tenant)).toMatchObject({ open: 1 });
  });

  test("that goes away between begin and settle gets the settlement when it is back", async () => {
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
    settlements.add(outcome(run));
    setTimeout(() => line.mend(), 300);
    await Promise.all(kept);
    expect(await books(owner.db, tenant)).toMatchObject({ balance: "99.93850000", reserved: "0.00000000", open: 0 });
  });

  test("lets its role make nothing, no temporary table either", async () => {
    const may = "select has_database_privilege('gateway', current_database(), 'temporary') as may";
    expect(await owner.db.query(may)).toEqual([{ may: false }]);
  });

  test("says no by code: the refusals of begin_run are the gateway's errors", async () => {
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

describe("a batch of calls behind another", () => {
  let other: Tenant;
  let holder: Awaited<ReturnType<typeof openHolder>>;

  /** Holds a tenant's balance, for which a batch waits for a tenth of a second. */
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

  /** So many calls of one turn, sent when it is over. */
  async function beginTogether(of: Tenant, calls: number) {
    const begun = Promise.allSettled(Array.from({ length: calls }, () => database.beginRun(request(of))));
    await setImmediate();
    return begun.then((answers) => answers.map(({ status }) => status));
  }

  /** A batch that waits, and one of another tenant that comes meanwhile. */
  async function beginBoth() {
    // The connection has prepared it by then.
    await beginTogether(other, 4);
    await holder.hold(tenant);
    const waiting = beginTogether(tenant, 2);
    await setImmediate();
    const behind = beginTogether(other, 4);
    await setImmediate();
    return { waiting, behind };
  }
  const batches = () => line.calls().filter((name) => name === "begin_runs").length;
  /** What is said now has arrived. */
  const arrived = () => new Promise((resolve) => setTimeout(resolve, 30));

  beforeEach(async () => {
    other = await createTenant(owner.db, { credits: "100" });
    holder = await openHolder();
  });
  afterEach(() => holder.close());

  test("is on its way before that is answered, over the same connection", async () => {
    const { waiting, behind } = await beginBoth();
    await arrived();
    expect(batches()).toBe(3);
    await holder.letGo();
    expect(await waiting).toEqual(["fulfilled", "fulfilled"]);
    expect(await behind).toEqual(Array.from({ length: 4 }, () => "fulfilled"));
    expect([await books(owner.db, tenant), await books(owner.db, other)]).toMatchObject([{ open: 2 }, { open: 8 }]);
  });

  test.each([
    { what: "somebody else than the server greets", pooler: { greetsAs: 1 } },
    { what: "somebody else asks the server", pooler: { asks: "Supavisor" } },
  ])("waits for that one's answer where $what: a pooler may lose answers", async ({ pooler }) => {
    await database.close();
    line.close();
    line = await openLine(pooler);
    database = createDatabase({ url: line.url, connections: 1 });
    const { waiting, behind } = await beginBoth();
    await arrived();
    expect(batches()).toBe(2);
    await holder.letGo();
    expect([...(await waiting), ...(await behind)]).toEqual(Array.from({ length: 6 }, () => "fulfilled"));
    expect(batches()).toBe(3);
  });

  test("begins where that one is undone, whose calls are asked about again", async () => {
    const { waiting, behind } = await beginBoth();
    expect(await behind).toEqual(Array.from({ length: 4 }, () => "fulfilled"));
    await holder.letGo();
    expect(await waiting).toEqual(["fulfilled", "fulfilled"]);
    expect([await books(owner.db, tenant), await books(owner.db, other)]).toMatchObject([{ open: 2 }, { open: 8 }]);
  });

  test("holds nothing for calls that were turned away, where the line breaks before either is answered", async () => {
    const kept: Promise<unknown>[] = [];
    database = { ...database, beginRun: createBegin({ database, waitUntil: (work) => kept.push(work) }) };
    const { waiting, behind } = await beginBoth();
    await arrived();
    line.cut();
    expect([...(await waiting), ...(await behind)]).toEqual(Array.from({ length: 6 }, () => "rejected"));
    await holder.letGo();
    line.mend();
    await Promise.all(kept);
    // The four that made the connection know the statement.
    expect([await books(owner.db, tenant), await books(owner.db, other)]).toMatchObject([{ open: 0 }, { open: 4 }]);
  });

  /** The server process that the first batch waits in. */
  async function waitingProcess(): Promise<number> {
    const sql = `select a.pid from pg_stat_activity a
       where a.usename = 'gateway' and a.wait_event_type = 'Lock' and $1::integer = any (pg_blocking_pids(a.pid))`;
    const [process] = await owner.db.query<{ pid: number }>(sql, [holder.pid]);
    return process?.pid ?? 0;
  }

  test("is asked about again with it where the server ends their connection", async () => {
    const { waiting, behind } = await beginBoth();
    await arrived();
    await owner.db.query("select pg_terminate_backend($1)", [await waitingProcess()]);
    await holder.letGo();
    expect([...(await waiting), ...(await behind)]).toEqual(Array.from({ length: 6 }, () => "fulfilled"));
    expect([await books(owner.db, tenant), await books(owner.db, other)]).toMatchObject([{ open: 2 }, { open: 8 }]);
  });

  test("holds nothing for calls that were turned away, where the server stood still and then went on", async () => {
    const kept: Promise<unknown>[] = [];
    database = { ...database, beginRun: createBegin({ database, waitUntil: (work) => kept.push(work) }) };
    const { waiting, behind } = await beginBoth();
    await arrived();
    const server = await waitingProcess();
    process.kill(server, "SIGSTOP");
    try {
      await holder.letGo();
      expect([...(await waiting), ...(await behind)]).toEqual(Array.from({ length: 6 }, () => "rejected"));
      // The first look has found nothing by then.
      await new Promise((resolve) => setTimeout(resolve, 500));
    } finally {
      process.kill(server, "SIGCONT");
    }
    await Promise.all(kept);
    expect([await books(owner.db, tenant), await books(owner.db, other)]).toMatchObject([{ open: 0 }, { open: 4 }]);
  });
});
