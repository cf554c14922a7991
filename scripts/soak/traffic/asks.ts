/** One attempt of an ask, as its client saw it. */
export type Attempt = {
  requestId: string;
  startedAt: number;
  endedAt: number;
  status: number | null;
  /** The whole answer came, and this is what it said of the run. */
  told: { runId: string; billedCredits: string; costUsd: string | null; usageSource: string } | null;
  left: boolean;
};

/** Something asked of a model once, however often it took. */
export type Ask = {
  tenant: string;
  what: string;
  idempotencyKey: string | null;
  attempts: Attempt[];
};
