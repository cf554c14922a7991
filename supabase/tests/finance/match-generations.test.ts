import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { platformBookId } from "../../../remix-app/studio/costs/platform-book.ts";
import { createActor, createWorkspace } from "../actors.ts";
import { createAdmin } from "../console/fixtures.ts";
import { type Database, one, test } from "../database.ts";

/** Long ago, so that no other test has runs on it. */
const day = "2019-03-05";

type AttemptRow = { provider?: string; failure?: string; upstream_request_id?: string; may_have_charged?: true };
type RunRow = {
  attempts?: AttemptRow[] | null;
  costUsd?: string;
  provider?: string;
  billingName?: string | null;
  at?: string;
  status?: string;
  swept?: boolean;
};

async function addRun(db: Database, run: RunRow = {}): Promise<string> {
  const { attempts = [], provider = "openrouter", at = `${day}T12:00:00Z`, status = "succeeded" } = run;
  const id = randomUUID();
  const rows = attempts?.map((attempt) => ({ provider: "openrouter", route: 1, latency_ms: 1, ...attempt }));
  await db.query(
    `insert into ai.runs (
       id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route, markup,
       status, usage_source, cost_usd, reserved_usd, reserved_credits, billing_name, swept, settled_at, attempts
     )
     values (
       $1::uuid, $2, gen_random_uuid(), 'key', 'interactive', 'chat', $1::uuid::text, 'model',
       jsonb_build_array(jsonb_build_object('position', 1, 'provider', $3::text)), 1, 1, $4::text::ai.run_status, 'provider', $5, 0, 0, $6, $7,
       case when $4::text = 'running' then null else now() end, $8
     )`,
    [
      id,
      at,
      provider,
      status,
      run.costUsd ?? "0.000015",
      run.billingName ?? null,
      run.swept ?? false,
      rows ? JSON.stringify(rows) : null,
    ],
  );
  return id;
}

/** The answers of all functions. Tests compare the members that a function returns. */
type Answer = {
  outcome: string;
  states: { state: string }[];
  runs: { runId: string }[];
  total: number;
  calls: { runId: string; generationId: string }[];
};

async function openBook(db: Database) {
  const admin = await createAdmin(db);
  const call = async (name: string, values: unknown[], member: string | null = admin.id, book = platformBookId) => {
    const all = [member, book, ...values];
    const sql = `select ai.${name}(${all.map((_, place) => `$${place + 1}`).join(", ")}) as answer`;
    return (await db.asRole("service_role", () => one<{ answer: Answer }>(db, { sql, values: all }))).answer;
  };
  const change = { reason: "Ask OpenRouter", requestId: "request-1", ip: "192.0.2.1" };
  const read = (max = 50, skipped = 0) => call("read_generation_costs", [day, max, skipped]);
  return {
    admin,
    call,
    read,
    stateOf: async () => (await read()).states.map(({ state }) => state).join(),
    list: (before: string | null = null, max = 50) => call("list_unmatched_generations", [day, before, max]),
    store: (runId: string, generationId: string, costUsd: string | null, ownKeyUsd: string | null = null) => {
      const answers = JSON.stringify([{ runId, generationId, costUsd, ownKeyUsd }]);
      return call("store_generation_costs", [day, answers, change]);
    },
  };
}

const gen = (name: string, attempt: AttemptRow = {}): AttemptRow => ({
  ...attempt,
  upstream_request_id: `gen-${name}`,
});

describe("a run compared with OpenRouter's answers", () => {
  test.for<[what: string, run: RunRow, answers: (string | null)[], state: string]>([
    ["the same cost", { attempts: [gen("a")] }, ["0.000015"], "equal"],
    ["the same cost with a float's noise", { attempts: [gen("a")] }, ["0.000014999999999999999"], "equal"],
    ["a cost that differs in the last stored digit", { attempts: [gen("a")] }, ["0.000015000001"], "differs"],
    ["two calls that add up", { attempts: [gen("a"), gen("b")] }, ["0.000005", "0.00001"], "equal"],
    ["one of two calls asked", { attempts: [gen("a"), gen("b")] }, ["0.000015"], "pending"],
    ["a call that OpenRouter doesn't know", { attempts: [gen("a")] }, [null], "unknown"],
    [
      "an unknown refused call and an equal one",
      { attempts: [gen("a", { failure: "rate_limited" }), gen("b")] },
      [null, "0.000015"],
      "equal",
    ],
    ["an id of another header", { attempts: [{ upstream_request_id: "8c1-FRA" }] }, [], "unnamed"],
    ["an id without a name", { attempts: [{ upstream_request_id: "gen-" }] }, [], "unnamed"],
    [
      "a call whose answer never began",
      { attempts: [{ failure: "timeout", may_have_charged: true }], costUsd: "0" },
      [],
      "unnamed",
    ],
    ["a call that the client left", { attempts: [{ failure: "cancelled" }], costUsd: "0" }, [], "unnamed"],
    ["a swept run", { attempts: null, costUsd: "0", swept: true }, [], "unnamed"],
    ["a refused call without an id", { attempts: [{ failure: "rate_limited" }], costUsd: "0" }, [], ""],
    ["a skipped route", { attempts: [{ failure: "skipped" }], costUsd: "0" }, [], ""],
    ["a run in progress", { attempts: null, status: "running" }, [], ""],
    ["another provider's run", { attempts: [{ provider: "openai" }], provider: "openai" }, [], ""],
    [
      "a run that another provider answered after OpenRouter failed",
      { provider: "openai", attempts: [gen("a", { failure: "timeout" }), { provider: "openai" }] },
      ["0.2"],
      "differs",
    ],
    [
      "a provider with the billing name of OpenRouter",
      { provider: "router", billingName: "OpenRouter", attempts: [gen("a", { provider: "router" })] },
      ["0.000015"],
      "equal",
    ],
    ["OpenRouter under another billing name", { billingName: "openrouter-eu", attempts: [gen("a")] }, [], ""],
    ["the first moment of the day", { at: `${day}T00:00:00Z`, attempts: [gen("a")] }, ["0.000015"], "equal"],
    ["the last moment of the day", { at: `${day}T23:59:59.999Z`, attempts: [gen("a")] }, ["0.000015"], "equal"],
    ["the first moment of the next day", { at: "2019-03-06T00:00:00Z", attempts: [gen("a")] }, [], ""],
    ["the same id twice", { attempts: [gen("a"), gen("a")] }, ["0.000015"], "equal"],
  ])("with %s", async ([, run, answers, state], { db }) => {
    const { store, stateOf } = await openBook(db);
    const id = await addRun(db, run);
    for (const [place, costUsd] of answers.entries()) await store(id, `gen-${"ab"[place]}`, costUsd);
    expect(await stateOf()).toBe(state);
  });

  test("is listed with exact amounts that add up, the largest difference first", async ({ db }) => {
    const { read, store } = await openBook(db);
    const costs = ["0.1", "0.000015000000000000001", "5", null];
    const ids: string[] = [];
    for (const [place, costUsd] of costs.entries()) {
      const id = await addRun(db, { attempts: [gen(`${place}`)] });
      ids.push(id);
      await store(id, `gen-${place}`, costUsd, costUsd === "0.1" ? "2" : null);
    }
    const { states, runs, total } = await read();
    expect(states).toEqual([
      {
        state: "differs",
        runs: 2,
        calls: 2,
        named: 2,
        pending: 0,
        unknown: 0,
        meteredUsd: "0.00003",
        chargedUsd: "5.1",
        ownKeyUsd: "2",
      },
      expect.objectContaining({ state: "unknown", unknown: 1, chargedUsd: "0", ownKeyUsd: null }),
      expect.objectContaining({ state: "equal", chargedUsd: "0.000015000000000000001" }),
    ]);
    expect(total).toBe(3);
    expect(runs.map(({ runId }) => ids.indexOf(runId))).toEqual([2, 0, 3]);
    expect(runs[0]).toMatchObject({ workspaceName: null, modelId: "model", calls: 1, differenceUsd: "4.999985" });
    expect((await read(1, 1)).runs.map(({ runId }) => ids.indexOf(runId))).toEqual([0]);
    expect((await read(1, 3)).runs).toEqual([]);
  });
});

test("a run that the sweep closed is unnamed at the provider of other runs with OpenRouter's billing name", async ({
  db,
}) => {
  const { stateOf } = await openBook(db);
  await addRun(db, { provider: "router", attempts: null, costUsd: "0", swept: true });
  expect(await stateOf()).toBe("");
  await addRun(db, { provider: "router", billingName: "OpenRouter", attempts: [gen("a", { provider: "router" })] });
  expect(await stateOf()).toBe("unnamed,pending");
});

describe("the calls to ask about", () => {
  test("are those never asked, then unknown ones, up to a limit", async ({ db }) => {
    const { list, store } = await openBook(db);
    const ids: string[] = [];
    for (const name of ["a", "b", "c"]) ids.push(await addRun(db, { attempts: [gen(name), {}] }));
    const [a = "", b = ""] = ids;
    await store(a, "gen-a", null);
    await store(b, "gen-b", "1");
    const names = ({ calls }: Answer) => calls.map(({ generationId }) => generationId).join();
    expect(names(await list())).toBe("gen-c,gen-a");
    expect(await list(null, 1)).toMatchObject({ calls: [{ generationId: "gen-c" }], remaining: 1 });
    expect(names(await list("2999-01-01T00:00:00Z"))).toBe("gen-c,gen-a,gen-b");
    expect(names(await list("2000-01-01T00:00:00Z"))).toBe("gen-c");
  });

  test("can have ids of 128 characters", async ({ db }) => {
    const { list, store, stateOf } = await openBook(db);
    const id = await addRun(db, { attempts: [gen("~".repeat(124))] });
    const generationId = `gen-${"~".repeat(124)}`;
    expect((await list()).calls).toEqual([{ runId: id, generationId }]);
    await store(id, generationId, "0.000015");
    expect(await stateOf()).toBe("equal");
  });

  test("keep their cost if OpenRouter no longer knows them, and take a corrected one", async ({ db }) => {
    const { store } = await openBook(db);
    const stored = () =>
      one(db, {
        sql: "select cost_usd::text, own_key_usd::text from ai.generation_costs where run_id = $1",
        values: [id],
      });
    const id = await addRun(db, { attempts: [gen("a")] });
    await store(id, "gen-a", "1", "0.5");
    await store(id, "gen-a", null);
    expect(await stored()).toEqual({ cost_usd: "1", own_key_usd: "0.5" });
    await store(id, "gen-a", "2");
    expect(await stored()).toEqual({ cost_usd: "2", own_key_usd: null });
  });
});

test("only admins and finance people ask, store and read, in the platform's book, and the audit log names who asked", async ({
  db,
}) => {
  const { call, store, admin } = await openBook(db);
  const { id: workspace, owner } = await createWorkspace(db);
  const finance = await createActor(db, {});
  await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [finance.sub]);
  const calls: [string, unknown[]][] = [
    ["list_unmatched_generations", [day, null, 1]],
    ["store_generation_costs", [day, "[]", JSON.stringify({ reason: "x" })]],
    ["read_generation_costs", [day, 1, 0]],
  ];
  for (const [name, values] of calls) {
    expect((await call(name, values, owner.sub)).outcome).toBe("not_allowed");
    expect((await call(name, values, null)).outcome).toBe("not_allowed");
    expect((await call(name, values, owner.sub, workspace)).outcome).toBe("not_allowed");
    expect((await call(name, values, admin.id, workspace)).outcome).toBe("not_allowed");
    expect((await call(name, values, finance.sub)).outcome).not.toBe("not_allowed");
  }
  await store(randomUUID(), "gen-a", "1");
  expect(
    await db.query("select action, target, after, request_id from private.admin_audit_log where actor_id = $1", [
      admin.id,
    ]),
  ).toEqual([
    {
      action: "costs.request_generations",
      target: `costs openrouter ${day}`,
      after: { calls: 1 },
      request_id: "request-1",
    },
  ]);
});
