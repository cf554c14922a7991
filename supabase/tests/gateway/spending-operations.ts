import type { Random } from "../../../scripts/soak/random.ts";
import { type Database, one } from "../database.ts";
import { abandon, settle } from "./fixtures.ts";
import { type RunState, type State, stepUsd } from "./spending-model.ts";
import { batchThatWaits, callFor, type Spender } from "./spending-world.ts";

/** What a history knows apart from the state: the envelope that its keys name, and its runs whose answers were lost. */
type History = Spender & {
  envelope: { usd: string; calls?: number; ttl_seconds?: number } | null;
  log: string[];
  lost: Set<string>;
  abandoned: Set<string>;
};
/** Histories by their workspace. */
export type Histories = ReadonlyMap<string, History>;
export type Operation = (db: Database) => Promise<void>;

const creditsPerUsd = 10_000;

/** How often each thing happened. */
export const happened: Record<string, number> = {};
const note = (what: string, times = 1) => {
  happened[what] = (happened[what] ?? 0) + times;
};

export function startHistory(spender: Spender, random: Random): History {
  return { ...spender, envelope: drawEnvelope(random), log: [], lost: new Set(), abandoned: new Set() };
}

function inBatches<Item>(items: readonly Item[], random: Random): Item[][] {
  const left = [...items];
  const batches: Item[][] = [];
  while (left.length > 0) batches.push(left.splice(0, 1 + random.below(16)));
  return batches;
}

function drawEnvelope(random: Random): History["envelope"] {
  if (random.chance(0.4)) return null;
  return {
    usd: String(5 + random.below(25)),
    ...(random.chance(0.5) ? { calls: 1 + random.below(6) } : {}),
    ...(random.chance(0.3) ? { ttl_seconds: random.oneOf([1, 3_600]) } : {}),
  };
}

/** Returns calls of several histories, in batches that mix them. */
export function beginOperations(all: Histories, { model, random }: { model: string; random: Random }): Operation[] {
  const calls = [...all.values()].flatMap((history) =>
    Array.from({ length: random.oneOf([0, 0, 1, 1, 2, 2]) }, () => {
      const key = random.oneOf(history.keys);
      const suffix = `${random.id().slice(0, 4)}-${random.id().slice(0, 12)}`.replace(/^./, "a");
      const usd = 1 + random.below(8);
      const label = key.label ?? (random.chance(0.2) ? "job:9" : undefined);
      const envelope = history.envelope && random.chance(0.7) ? history.envelope : undefined;
      history.log.push(
        `call ${suffix} of $${usd} by ${key.label ?? "the key"}, label ${label}, ${JSON.stringify(envelope)}`,
      );
      if (random.chance(0.08)) history.lost.add(suffix);
      const stream = random.chance(0.7) ? { streamed: true, stoppable_providers: ["demo"] } : {};
      return callFor(model, { key, usd, run_id_suffix: suffix, entity_id: label, envelope, ...stream });
    }),
  );
  return inBatches(random.shuffled(calls), random).map((batch) => async (connection) => {
    type Answer = { refused?: string; limit?: { kind: string }; expected_output?: number | null };
    const { answers } = await one<{ answers: Answer[] }>(connection, {
      sql: "select ai.begin_runs($1)::json as answers",
      values: [batchThatWaits(batch)],
    });
    for (const { refused, limit, expected_output: expected } of answers) {
      note(refused ? `${refused} ${limit?.kind}` : "admitted");
      if (expected) note("reserved the expected cost");
    }
  });
}

/**
 * Returns an outcome that costs less than, as much as, or more than what is reserved. A stream whose budgets reserve the
 * expected cost is stopped within one step.
 */
export function drawOutcome({ id, createdAt, reserved: maximum, expected }: RunState, random: Random): object {
  const reserved = expected ?? maximum;
  const excess = 1 + random.below(expected === null ? 3 : stepUsd);
  const usd = random.oneOf([0, reserved, reserved, random.below(reserved + 1), reserved + excess]);
  if (expected !== null && usd > expected) note("stopped a stream");
  if (usd > maximum) note("cost above the reservation");
  return {
    ...{ id, created_at: createdAt, status: "succeeded", http_status: 200, usage_source: "provider", route: 1 },
    ...{ estimated: false, input_tokens: 0, output_tokens: usd, cost_usd: String(usd), latency_ms: 5, steps: [] },
    credits: String(usd * creditsPerUsd),
  };
}

/** Returns reports of open runs, late reports of swept runs, and repeated reports of settled runs. */
export function settleOperations(all: Histories, { state, random }: { state: State; random: Random }): Operation[] {
  const reports = state.runs.flatMap((run) => {
    const history = all.get(run.workspaceId);
    const suffix = run.id.slice(-17);
    if (!history || history.lost.has(suffix)) return [];
    const isDead = run.isOpen && history.abandoned.has(run.id);
    const share = isDead ? 0.1 : run.isOpen ? 0.45 : run.isSwept ? 0.4 : 0.05;
    if (!random.chance(share)) return [];
    const outcome = drawOutcome(run, random);
    history.log.push(`report ${suffix}: ${JSON.stringify(outcome)}`);
    const outcomes = random.chance(0.1) ? [outcome, drawOutcome(run, random)] : [outcome];
    return [{ day: run.createdAt.slice(0, 10), outcomes }];
  });
  // The gateway settles runs together that began within minutes.
  const days = Map.groupBy(random.shuffled(reports), ({ day }) => day);
  const batches = [...days.values()].flatMap((ofDay) =>
    inBatches(
      ofDay.flatMap(({ outcomes }) => outcomes),
      random,
    ),
  );
  return batches.map((batch) => async (connection) => {
    for (const { kind } of await settle(connection, batch)) note(`settled as ${kind}`);
  });
}

/** Returns further steps of open runs, and further output of streams whose budgets reserve the expected cost. */
export function extendOperations(all: Histories, { state, random }: { state: State; random: Random }): Operation[] {
  return state.runs
    .filter((run) => run.isOpen && random.chance(run.expected === null ? 0.08 : 0.5))
    .map(({ id, createdAt, workspaceId, reserved, expected }) => {
      const usd = 1 + random.below(6);
      const isStream = expected !== null && random.chance(0.8);
      const what = isStream ? "stream" : "step";
      all.get(workspaceId)?.log.push(`extend ${id.slice(-17)} by a ${what} of $${usd}`);
      const more = isStream
        ? { output: { from: expected, to: expected + usd, limit: reserved } }
        : { input_bytes: 300, output_limit: usd };
      return async (connection) => {
        const { answer } = await one<{ answer: { refused?: string } }>(connection, {
          sql: "select ai.extend_run($1) as answer",
          values: [JSON.stringify({ created_at: createdAt, id, ...more })],
        });
        note(answer.refused ? `refused a ${what}` : `admitted a ${what}`);
      };
    });
}

const isAmount = ({ envelope, period }: State["budgets"][number]) => envelope === null && period !== "concurrent";

/** Returns raises, cuts and removals of single limits, and envelopes that a person raises or ends. */
export function limitOperations(all: Histories, { state, random }: { state: State; random: Random }): Operation[] {
  return state.budgets
    .filter(() => random.chance(0.04))
    .map((budget) => {
      const { scope, subject, workspaceId, period } = budget;
      const values = [scope, subject, workspaceId, period];
      const where = "where scope = $1 and subject_id = $2 and workspace_id = $3 and period = $4";
      const ends = budget.envelope !== null && random.chance(0.4);
      const limit = period === "concurrent" ? null : random.oneOf([0, 3 + random.below(40), null, 100]);
      const maxCalls = period === "concurrent" || budget.maxCalls !== null ? random.below(8) : null;
      const reservesExpected = budget.reservesExpected !== (isAmount(budget) && random.chance(0.3));
      const change = ends ? "ends" : `$${limit}, ${maxCalls} calls`;
      all.get(workspaceId)?.log.push(`${scope}/${period} ${subject}: ${change}`);
      return async (connection) => {
        note(ends ? "ended an envelope" : "changed a limit");
        if (ends) {
          await connection.query(
            `with ended as (update ai.envelopes e set ended_at = now() where e.id = $2)
             update ai.budgets set ends_at = least(ends_at, now() - interval '1 minute') ${where}`,
            values,
          );
        } else {
          const usd = budget.envelope ? (limit ?? 50) : limit;
          await connection.query(
            `update ai.budgets set limit_usd = $5, max_calls = $6, reserves_expected = $7 ${where}`,
            [...values, usd, maxCalls, reservesExpected],
          );
        }
      };
    });
}

/** Returns the release of lost runs, some of them while they begin. */
export function releaseOperations(all: Histories, random: Random): Operation[] {
  const tails = [...all.values()].flatMap(({ lost }) => [...lost]).filter(() => random.chance(0.5));
  return inBatches(tails, random).map((batch) => async (connection) => {
    await connection.query("select ai.release_orphaned_runs($1)", [
      JSON.stringify({ tails: batch, asked_ms_ago: 600_000 }),
    ]);
    note("released", batch.length);
  });
}

/** Leaves some runs without heartbeats, of which some reported a cost. */
export async function crashRuns(
  db: Database,
  { all, state, random }: { all: Histories; state: State; random: Random },
): Promise<void> {
  const crashed = state.runs.filter((run) => run.isOpen && random.chance(0.08));
  for (const { id, workspaceId } of crashed) {
    all.get(workspaceId)?.log.push(`crash ${id.slice(-17)}`);
    all.get(workspaceId)?.abandoned.add(id);
  }
  const reported = crashed
    .filter(() => random.chance(0.5))
    .map(({ id, createdAt, reserved }) => ({
      ...{ id, created_at: createdAt, route: 1, input_tokens: 1, output_tokens: 1 },
      cost_usd: random.below(reserved + 3),
    }));
  if (reported.length > 0) await db.query("select ai.heartbeat_runs($1)", [JSON.stringify(reported)]);
  if (crashed.length > 0)
    await abandon(
      db,
      crashed.map(({ id, createdAt }) => ({ run_id: id, created_at: createdAt })),
    );
}

/** Closes abandoned runs, unless another sweep is running. */
export async function sweep(connection: Database): Promise<void> {
  const { runs } = await one<{ runs: number }>(connection, { sql: "select ai.sweep_runs() as runs" });
  if (runs > 0) note("swept", runs);
}
