/** A run as stored in the database. Amounts are exact decimals. */
export type RunFact = {
  id: string;
  tenant: string;
  requestId: string;
  idempotencyKey: string | null;
  status: "running" | "succeeded" | "failed" | "cancelled";
  usageSource: "provider" | "provider_partial" | "estimated_partial" | "unavailable" | null;
  errorCode: string | null;
  swept: boolean;
  exempt: boolean;
  /** Milliseconds since 1970. */
  createdAt: number;
  settledAt: number | null;
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  costUsd: string;
  billedCredits: string;
  reservedUsd: string;
  creditsPerUsd: string;
  prices: { min_input_tokens: number; input: string; cached_input?: string; output: string }[];
  /** The total that the ledger charged for the run. `entries` is the number of ledger entries for the run. */
  charged: string;
  entries: number;
};

/** The credit totals of a workspace. */
export type BookFact = {
  tenant: string;
  granted: string;
  balance: string;
  reserved: string;
  ledger: string;
  billed: string;
  openRuns: number;
};

/** A budget or an envelope, with the totals of the runs that it counts. */
export type BudgetFact = {
  /** The scope and the period, and the label of an envelope. */
  name: string;
  limitUsd: string;
  spentUsd: string;
  reservedUsd: string;
  maxCalls: number | null;
  calls: number;
  runs: number;
  costUsd: string;
  /** What the runs cost beyond their reservations, or after the sweeper had released them. */
  overrunUsd: string;
};

/** Totals of runs, as reported by one source. */
export type Totals = { requests: number; costUsd: string; billedCredits: string };
