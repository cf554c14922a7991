/** A run as the tests read it, with amounts in whole dollars and times in microseconds. */
export type RunState = {
  id: string;
  createdAt: string;
  begun: number;
  workspaceId: string;
  subjects: Record<string, string | null>;
  label: string;
  entries: string[];
  isOpen: boolean;
  isSwept: boolean;
  reserved: number;
  /** What the run reserves in the budgets of `expectedEntries`; null if all reserve its maximum cost. */
  expected: number | null;
  expectedEntries: string[];
  cost: number;
};

/** The gateway stops a stream at the latest when it has cost this much more than its budgets reserved. */
export const stepUsd = 2;

/** A budget, an envelope or a limit of concurrent calls. */
type BudgetState = {
  scope: string;
  subject: string;
  workspaceId: string;
  period: string;
  limit: number | null;
  spent: number;
  reserved: number;
  maxCalls: number | null;
  calls: number;
  reservesExpected: boolean;
  start: number;
  end: number;
  /** Only of an envelope. */
  envelope: { principal: string; label: string; holdsAll: boolean; hasEnded: boolean } | null;
};

/** The requests of a model's rate window in a workspace. */
type RateState = { workspaceId: string; requests: number; limit: number };
export type State = { runs: RunState[]; budgets: BudgetState[]; rates: RateState[] };
type Violation = { workspaceId: string; text: string };

const unlimited = Number.POSITIVE_INFINITY;
const entryOf = ({ scope, period }: Pick<BudgetState, "scope" | "period">) =>
  period === "month" ? scope : `${scope}/${period}`;
const keyOf = (workspaceId: string, entry: string, subject: string | null | undefined) =>
  `${workspaceId} ${entry} ${subject}`;
const budgetKey = (budget: BudgetState) => keyOf(budget.workspaceId, entryOf(budget), budget.subject);
const scopeOf = (entry: string) => entry.split("/")[0] ?? "";

/** Returns what a run reserves in a budget while it is open. */
const heldBy = (run: RunState, entry: string) =>
  run.expected !== null && run.expectedEntries.includes(entry) ? run.expected : run.reserved;

/**
 * Returns what a run added to a budget beyond its reservation: the cost above it, or what was charged after the sweep
 * had released the reservation.
 */
function overrunOf(
  run: RunState,
  { entry, before, abandoned }: { entry: string; before: RunState | undefined; abandoned: ReadonlySet<string> },
): number {
  if (run.isOpen) return 0;
  if (before?.isOpen === false) return Math.max(run.cost - before.cost, 0);
  return abandoned.has(run.id) ? run.cost : Math.max(run.cost - heldBy(run, entry), 0);
}

/**
 * Returns what is wrong with the limits after a round of concurrent calls, settlements and changes of limits.
 * @param abandoned the runs that the sweep may have closed
 */
export function findViolations(
  { before, after }: { before: State; after: State },
  abandoned: ReadonlySet<string>,
): Violation[] {
  const violations: Violation[] = [];
  const runsBefore = new Map(before.runs.map((run) => [run.id, run]));
  const budgetsBefore = new Map(before.budgets.map((budget) => [budgetKey(budget), budget]));
  const held = new Map<string, RunState[]>();
  for (const run of after.runs) {
    for (const entry of run.entries) {
      const key = keyOf(run.workspaceId, entry, run.subjects[scopeOf(entry)]);
      held.set(key, [...(held.get(key) ?? []), run]);
    }
  }
  for (const budget of after.budgets) {
    const key = budgetKey(budget);
    const runs = held.get(key) ?? [];
    held.delete(key);
    const faults = budgetFaults(budget, {
      before: budgetsBefore.get(key),
      runs,
      overruns: runs
        .filter(({ begun }) => begun >= budget.start)
        .reduce(
          (sum, run) => sum + overrunOf(run, { entry: entryOf(budget), before: runsBefore.get(run.id), abandoned }),
          0,
        ),
    });
    for (const fault of faults) {
      const was = JSON.stringify(budgetsBefore.get(key));
      violations.push({ workspaceId: budget.workspaceId, text: `${fault}: ${was} became ${JSON.stringify(budget)}` });
    }
  }
  for (const [key, [run]] of held) {
    if (run)
      violations.push({ workspaceId: run.workspaceId, text: `run ${run.id} is held by ${key}, which is missing` });
  }
  for (const run of after.runs) {
    const old = runsBefore.get(run.id);
    const faults = [
      ...(old === undefined ? unheldLimits(run, before.budgets) : changedRun(run, old)),
      ...wrongReservation(run, abandoned),
    ];
    violations.push(...faults.map((text) => ({ workspaceId: run.workspaceId, text: `run ${run.id} ${text}` })));
  }
  for (const { workspaceId, requests, limit } of after.rates) {
    if (requests > limit) violations.push({ workspaceId, text: `${requests} requests of a model, of ${limit}` });
  }
  return violations;
}

function budgetFaults(
  budget: BudgetState,
  { before, runs, overruns }: { before: BudgetState | undefined; runs: RunState[]; overruns: number },
): string[] {
  const faults: string[] = [];
  const check = (holds: boolean, fault: string) => {
    if (!holds) faults.push(fault);
  };
  const open = runs.filter(({ isOpen }) => isOpen);
  const inWindow = runs.filter(({ isOpen, begun }) => !isOpen && begun >= budget.start && begun < budget.end);
  const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0);
  check(budget.reserved >= 0 && budget.spent >= 0 && budget.calls >= 0, "something is negative");
  if (budget.period === "concurrent") {
    check(budget.calls === open.length, `${open.length} calls are in progress`);
    const most = Math.max(budget.maxCalls ?? 0, before?.maxCalls ?? 0, before?.calls ?? 0);
    check(budget.calls <= most, `more than ${most} calls are in progress`);
    return faults;
  }
  const reserved = sum(open.map((run) => heldBy(run, entryOf(budget))));
  check(budget.reserved === reserved, `the open runs reserve ${reserved}`);
  const spent = sum((budget.envelope ? runs.filter((run) => !run.isOpen) : inWindow).map(({ cost }) => cost));
  check(budget.spent === spent, `the settled runs of the window cost ${spent}`);
  const isSameWindow = before?.start === budget.start;
  const committed = (before?.reserved ?? 0) + (isSameWindow ? (before?.spent ?? 0) : 0);
  const limits = [budget.limit, before ? before.limit : budget.limit];
  const ceiling = Math.max(committed, ...limits.map((limit) => limit ?? unlimited)) + overruns;
  check(budget.spent + budget.reserved <= ceiling, `more than ${ceiling} is spent or reserved`);
  if (budget.envelope) {
    check(budget.calls === runs.length, `the envelope holds ${runs.length} runs`);
    const most = Math.max(budget.maxCalls ?? unlimited, before?.maxCalls ?? 0, before?.calls ?? 0);
    check(budget.calls <= most, `more than ${most} calls were admitted`);
    if (before?.envelope?.hasEnded) {
      check(budget.calls === before.calls && budget.reserved <= before.reserved, "an ended envelope admitted a call");
    }
  }
  return faults;
}

/** Returns the limits that existed before a run began and don't hold it, although they should. */
function unheldLimits(run: RunState, budgets: readonly BudgetState[]): string[] {
  const own = budgets.filter(({ workspaceId }) => workspaceId === run.workspaceId);
  const missing = own
    .filter((budget) => budget.scope !== "envelope" && run.subjects[budget.scope] === budget.subject)
    .filter((budget) => !run.entries.includes(entryOf(budget)))
    .map((budget) => `is not held by ${entryOf(budget)}`);
  const ofKey = own.filter(({ envelope }) => envelope !== null && envelope.principal === run.subjects.key);
  const expected =
    ofKey.find(({ envelope }) => envelope?.holdsAll) ??
    ofKey.find(({ envelope }) => envelope?.label === run.label && run.label !== "");
  if (expected && run.subjects.envelope !== expected.subject)
    missing.push(`is not held by envelope ${expected.subject}`);
  if (run.subjects.envelope && !run.entries.includes("envelope/total")) missing.push("is not counted by its envelope");
  return missing;
}

/** Returns what is wrong with the amount that a run reserves in budgets that hold only its expected cost. */
function wrongReservation(run: RunState, abandoned: ReadonlySet<string>): string[] {
  if (run.expected === null) return run.expectedEntries.length === 0 ? [] : ["has no amount for its expected cost"];
  const faults: string[] = [];
  if (run.expected > run.reserved) faults.push("reserves more than its maximum cost");
  if (run.expectedEntries.length === 0 || run.expectedEntries.some((entry) => !run.entries.includes(entry))) {
    faults.push("reserves its expected cost in a budget that does not hold it");
  }
  // A run that was stopped in time costs at most one step more. The sweep may have closed an abandoned run.
  if (!run.isOpen && !abandoned.has(run.id) && run.cost > run.expected + stepUsd)
    faults.push("was not stopped in time");
  return faults;
}

/** Returns how a run changed that had been settled by a report, so that it can't change again. */
function changedRun(run: RunState, old: RunState): string[] {
  if (old.isOpen || old.isSwept) return [];
  return run.cost === old.cost && !run.isOpen ? [] : [`cost ${old.cost} and then ${run.cost}`];
}
