import { randomInt } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createRandom, type Random } from "../../../scripts/soak/random.ts";
import { type Database, one } from "../database.ts";
import { openPool } from "../pools.ts";
import { type OpenedRun, outcome, settle } from "./fixtures.ts";
import { findViolations, type State } from "./spending-model.ts";
import {
  beginOperations,
  crashRuns,
  drawOutcome,
  extendOperations,
  type Histories,
  happened,
  limitOperations,
  type Operation,
  releaseOperations,
  settleOperations,
  startHistory,
  sweep,
} from "./spending-operations.ts";
import {
  batchThatWaits,
  callFor,
  createSpenders,
  drawLimits,
  passDays,
  readState,
  readWrongBooks,
  removeSpending,
  type Spender,
  type SpendingWorld,
} from "./spending-world.ts";

/** `HISTORIES=20000` runs more, `SEED=1` repeats one run's choices. Only the order of concurrent statements varies. */
const histories = Number(process.env.HISTORIES ?? 2_000);
const seed = Number(process.env.SEED ?? randomInt(2 ** 31));
const concurrentHistories = 250;
const rounds = 6;
const connections = 4;

let db: Database;
let world: SpendingWorld;
let close = async () => {};
beforeAll(async () => {
  ({ db, close } = openPool(connections));
  world = await createSpenders(db, Math.min(histories, concurrentHistories));
}, 60_000);
afterAll(async () => {
  await removeSpending(db, world);
  await close();
});

/** What must happen in 250 histories, or the test would prove little. */
const kinds = [
  ...["admitted", "admitted a step", "refused a step", "admitted a stream", "refused a stream", "stopped a stream"],
  "reserved the expected cost",
  ...["settled as usage", "settled as adjustment", "swept"],
  "released",
  ...["cost above the reservation", "changed a limit", "ended an envelope", "budget_exceeded budget"],
  ...["envelope_exhausted envelope", "rate_limit_exceeded concurrent", "rate_limit_exceeded rate"],
];

/** Executes an operation again if the machine was too busy. A deadlock is an error. */
async function insist(operation: Operation): Promise<void> {
  for (let retries = 5; ; retries -= 1) {
    try {
      return await operation(db);
    } catch (error) {
      const isBusy = error instanceof Error && "code" in error && ["57014", "55P03"].includes(String(error.code));
      if (!isBusy || retries === 0) throw error;
    }
  }
}

/** Executes operations on all connections, in an order that depends only on the seed until they run. */
async function execute(operations: Operation[], random: Random): Promise<void> {
  const left = random.shuffled(operations);
  await Promise.all(
    Array.from({ length: connections }, async () => {
      for (let next = left.pop(); next; next = left.pop()) await insist(next);
    }),
  );
}

/** Fails with the seed and everything that was done in the first workspace with a violation. */
function check(all: Histories, states: { before: State; after: State }, round: string): void {
  const abandoned = new Set([...all.values()].flatMap((history) => [...history.abandoned]));
  const violations = findViolations(states, abandoned);
  const [first] = violations;
  if (!first) return;
  const log = all.get(first.workspaceId)?.log ?? [];
  const own = violations.filter(({ workspaceId }) => workspaceId === first.workspaceId).map(({ text }) => text);
  throw new Error([`seed ${seed}, ${round}: ${violations.length} violations`, ...own, "", ...log].join("\n"));
}

async function settleEverything(state: State): Promise<void> {
  const open = state.runs.filter(({ isOpen }) => isOpen);
  for (let at = 0; at < open.length; at += 64) {
    const batch = open.slice(at, at + 64).map((run) => drawOutcome(run, createRandom(at)));
    await insist(async (connection) => void (await settle(connection, batch)));
  }
}

test(`no limit is exceeded in ${histories} random histories (seed ${seed})`, {
  timeout: histories * 150 + 60_000,
}, async () => {
  for (let done = 0; done < histories; done += world.spenders.length) {
    const random = createRandom(seed + done);
    await drawLimits(db, { world, random });
    const all: Histories = new Map(
      world.spenders.map((spender) => [spender.workspaceId, startHistory(spender, random)]),
    );
    let before = await readState(db, world);
    for (let round = 1; round <= rounds; round += 1) {
      if (round % 3 === 0) {
        const days = random.oneOf([1, 7, 31]);
        const moved = [...all.values()].filter(() => random.chance(0.4));
        for (const history of moved) {
          history.log.push(`${days} days pass`);
          history.lost.clear();
        }
        await passDays(db, { workspaceIds: moved.map(({ workspaceId }) => workspaceId), days });
        before = await readState(db, world);
      }
      for (const history of all.values()) history.log.push(`round ${round}`);
      await crashRuns(db, { all, state: before, random });
      const operations = [
        ...beginOperations(all, { model: world.model, random }),
        ...settleOperations(all, { state: before, random }),
        ...extendOperations(all, { state: before, random }),
        ...limitOperations(all, { state: before, random }),
        ...releaseOperations(all, random),
        ...(round % 2 === 0 ? [sweep] : []),
      ];
      await execute(operations, random);
      const after = await readState(db, world);
      check(all, { before, after }, `histories from ${done}, round ${round}`);
      before = after;
    }
    await settleEverything(before);
    const after = await readState(db, world);
    check(all, { before, after }, `histories from ${done}, end`);
    expect(
      after.budgets.filter(({ reserved, period, calls }) => reserved > 0 || (period === "concurrent" && calls > 0)),
    ).toEqual([]);
    expect(await readWrongBooks(db, world)).toEqual([]);
  }
  if (histories >= concurrentHistories) expect(Object.keys(happened)).toEqual(expect.arrayContaining(kinds));
});

test("an envelope counts a call whose transaction began before the one that opened it", async () => {
  const { model, spenders } = await createSpenders(db, 1);
  const { workspaceId, keys } = spenders[0] as Spender;
  const call = () => callFor(model, { key: keys[0], usd: 2, envelope: { usd: "5" } });
  const begin = (connection: Database) =>
    one<{ run: OpenedRun }>(connection, {
      sql: "select ai.begin_runs($1)::json -> 0 as run",
      values: [batchThatWaits([call()])],
    });
  const slow = openPool(1);
  try {
    await slow.db.query("begin");
    await slow.db.query("select now()");
    const first = await begin(db);
    const second = await begin(slow.db);
    await slow.db.query("commit");
    const cost = { usage: { input_tokens: 0, output_tokens: 2 } };
    await settle(db, [outcome(first.run, cost), outcome(second.run, cost)]);
  } finally {
    await slow.close();
  }
  const budget = await one(db, {
    sql: "select spent_usd::float8 as spent, calls::int from ai.budgets where scope = 'envelope' and workspace_id = $1",
    values: [workspaceId],
  });
  expect(budget).toEqual({ spent: 4, calls: 2 });
});
